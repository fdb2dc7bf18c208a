"""The places where the same work runs: this process, and every kind of master that there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.config import configured
from omnigraph.dataplane.spark.session import acquire
from omnigraph.store.io.objects import open_objects
from omnigraph.store.root import Root
from tests.conformance.seaweed import BUCKET, serving
from tests.spark.clusters import (
    EXECUTORS,
    can_be_private,
    connect_server,
    local_cluster,
    standalone,
)
from tests.spark.namespaces import can_have_machines, forwarded, machines

IN_PROCESS = "inprocess"
ON_SPARK = ("local", "local-cluster", "isolated", "connect")


@dataclass(frozen=True)
class Place:
    """Where work runs.

    Attributes:
        name: Of `IN_PROCESS` and `ON_SPARK`.
        folder: A folder of the driver.
        shared: Where graphs and files lie that everybody sees: the same folder, or S3.
        options: How to reach S3.
        session: The session of Spark, if it runs there.
    """

    name: str
    folder: Path
    shared: str
    options: dict[str, str] | None = None
    session: Any = None
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def engine(self) -> dict[str, Any]:
        """Arguments of a query or an algorithm."""
        if self.session is None:
            return {"engine": "inprocess"}
        return {"engine": "spark", "spark": self.session}

    @property
    def bulk(self) -> dict[str, Any]:
        """Arguments of a load or an export."""
        reach = {} if self.options is None else {"storage_options": self.options}
        return {**self.engine, **reach}

    def uri(self, name: str) -> str:
        """A new address."""
        return f"{self.shared}/{next(self._numbers)}/{name}"

    def graph(self, schema: str) -> og.Graph:
        """A new graph."""
        return og.init(self.uri("graph.omni"), schema, storage_options=self.options)

    def put(self, *files: list[dict[str, Any]]) -> str:
        """A folder with some files of lines."""
        uri = self.uri("lines/")
        target = open_objects(Root.parse(uri, self.options))
        for number, lines in enumerate(files):
            text = "".join(json.dumps(line) + "\n" for line in lines)
            target.put(f"{number:05d}.jsonl", text.encode())
        return uri

    @property
    def saved(self) -> dict[str, str]:
        """Options of `df.write` that reach the storage."""
        return {f"storage.{name}": value for name, value in (self.options or {}).items()}


@contextmanager
def place(name: str, folder: Path, base: Path) -> Iterator[Place]:
    """A place to work at.

    Args:
        name: Of `IN_PROCESS` and `ON_SPARK`.
        folder: A folder for whatever it needs.
        base: The folder of all tests. Workers of the isolated cluster do not see it.
    """
    here = str(folder / "shared")
    match name:
        case "inprocess":
            yield Place(name, folder, here)
        case "local":
            with acquire(configured("local[2,3]")) as held:
                yield Place(name, folder, here, session=held.session)
        case "local-cluster":
            with local_cluster() as master, acquire(configured(master, EXECUTORS)) as held:
                yield Place(name, folder, here, session=held.session)
        case "connect":
            # The sink of a stream is opened by a process of the server, which needs our package.
            paths = [Path(og.__file__).parents[1]]
            with (
                connect_server(folder / "server", paths=paths) as url,
                acquire(configured(url)) as held,
            ):
                yield Place(name, folder, here, session=held.session)
        case _:
            with isolated(folder, base) as (session, options):
                uri = f"s3://{BUCKET}/everywhere"
                yield Place(name, folder, uri, options, session)


@contextmanager
def isolated(folder: Path, base: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """A cluster of two machines that share nothing but a network and S3.

    Yields the session of a driver outside of the cluster, and how everybody reaches S3.
    """
    if not can_have_machines() or not can_be_private(base):
        pytest.skip("this machine does not let processes have networks and mounts of their own")
    with (
        serving(folder / "s3") as options,
        machines(2) as (outside, hosts),
        forwarded(outside, urlsplit(options["aws_endpoint"]).port or 0) as port,
        standalone(folder / "cluster", hosts, private=base, address=outside) as cluster,
    ):
        reach = {**options, "aws_endpoint": f"http://{outside}:{port}"}
        driver = {"spark.driver.host": outside, "spark.driver.bindAddress": outside}
        with acquire(configured(cluster.master, {**EXECUTORS, **driver})) as held:
            yield held.session, reach
