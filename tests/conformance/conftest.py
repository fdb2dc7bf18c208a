"""Backends that every conformance suite runs against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.runtime.ids import UlidIds
from omnigraph.store.root import Root
from omnigraph.store.tables import Tables, open_tables
from tests.conformance.seaweed import BUCKET, serving

IDS = UlidIds()


@pytest.fixture(scope="session")
def s3_options(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """A running S3 server, shared by the workers of the run."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if hasattr(request.config, "workerinput") else base
    with serving(shared / "seaweed") as options:
        yield options


def fresh_root(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    """An empty root of a kind: local, s3 or memory."""
    if kind == "s3":
        options: dict[str, str] = request.getfixturevalue("s3_options")
        return Root.parse(f"s3://{BUCKET}/{IDS.new()}", options)
    if kind == "memory":
        return Root.parse(f"memory:///{IDS.new()}")
    return Root.parse(str(tmp_path / "graph"))


@pytest.fixture(params=["local", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    """A root where tables can live."""
    return fresh_root(request.param, request, tmp_path)


@pytest.fixture
def tables(root: Root) -> Tables:
    """The gateway to the tables of a root."""
    return open_tables(root, durable=True)


@pytest.fixture(params=["memory", "local", "s3"])
def any_root(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    """A root where objects can live."""
    return fresh_root(request.param, request, tmp_path)
