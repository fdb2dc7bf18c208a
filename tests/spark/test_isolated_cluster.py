"""A cluster of two machines that share nothing but a network and S3."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.dataplane.progress import Progress
from omnigraph.store.io.objects import open_objects
from omnigraph.store.root import Root
from tests.conformance.seaweed import BUCKET
from tests.spark.places import isolated
from tests.spark.processes import below

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""
PEOPLE = 400


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("isolated")
    with isolated(folder, tmp_path_factory.getbasetemp()) as (session, options):
        yield Cluster(session, options)


class Cluster:
    """The session of a driver outside of the cluster, and how everybody reaches S3."""

    def __init__(self, session: Any, options: dict[str, str]) -> None:
        self.session = session
        self.options = options
        self._count = 0

    def uri(self, name: str) -> str:
        self._count += 1
        return f"s3://{BUCKET}/isolated-{os.getpid()}-{self._count}/{name}"

    def graph(self) -> og.Graph:
        return og.init(self.uri("graph"), SCHEMA, storage_options=self.options)

    def put(self, name: str, lines: list[dict[str, Any]]) -> str:
        folder, _, file = self.uri(name).rpartition("/")
        text = "".join(json.dumps(line) + "\n" for line in lines)
        open_objects(Root.parse(folder, self.options)).put(file, text.encode())
        return f"{folder}/{file}"

    @property
    def spark(self) -> dict[str, Any]:
        return {
            "engine": "spark",
            "spark": self.session,
            "storage_options": self.options,
        }


def lines(count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"type": "City", "data": {"name": f"c{n}"}} for n in range(3)]
    for n in range(count):
        name, other = f"p{n}", f"p{(n * 7) % count}"
        found.append({"edge": "Knows", "from": name, "to": other, "data": {"since": "2024-05-01"}})
        found.append({"type": "Person", "data": {"name": name, "age": n % 90}})
        found.append({"edge": "LivesIn", "from": name, "to": f"c{n % 3}"})
    return found


def content(graph: og.Graph) -> dict[str, Any]:
    people = "query q() { match { $p: Person } return { $p.name as a, $p.age as b } }"
    lives = "query q() { match { $p: Person $p livesIn $c } return { $p.name as a, $c.name as b } }"
    knows = "query q() { match { $p: Person $p knows $q } return { $p.name as a, $q.name as b } }"
    return {
        name: sorted((row["a"], row["b"]) for row in graph.query(text).to_pylist())
        for name, text in (("people", people), ("lives", lives), ("knows", knows))
    }


def test_loads_and_exports_go_through_s3_alone(place: Cluster) -> None:
    source = place.put("all.jsonl", lines(PEOPLE))
    with place.graph() as here, place.graph() as there:
        here.load(source, engine="inprocess", storage_options=place.options)
        done = there.load(source, **place.spark)
        assert done.engine == "spark"
        changed = [{"name": f"p{n}", "age": 91} for n in range(0, PEOPLE, 3)]
        for graph, terms in ((here, {"engine": "inprocess"}), (there, place.spark)):
            graph.load({"Person": changed}, mode="merge", **terms)
        assert content(there) == content(here)
        target = place.uri("export/")
        there.export(target, **place.spark)
        with place.graph() as again:
            again.load(target, **place.spark)
            assert content(again) == content(here)


def test_violations_are_those_of_this_process(place: Cluster) -> None:
    wrong = lines(60)
    wrong.insert(10, {"type": "Person", "data": {"name": "p1", "age": 900}})
    wrong.append({"edge": "Knows", "from": "p1", "to": "nobody"})
    source = place.put("wrong.jsonl", wrong)
    found = []
    for terms in ({"engine": "inprocess", "storage_options": place.options}, place.spark):
        with place.graph() as graph:
            with pytest.raises(og.errors.ConstraintViolated) as caught:
                graph.load(source, **terms)
            found.append(caught.value.violations)
            assert set(graph.snapshot().counts.values()) == {0}
    assert found[0] == found[1]
    assert len(found[0]) >= 3


def test_a_file_of_the_driver_alone_is_said_to_be_one(place: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "here.jsonl"
    path.write_text('{"type": "City", "data": {"name": "x"}}\n')
    with place.graph() as graph:
        with pytest.raises(og.errors.InvalidInput, match=r"do not see .*here\.jsonl") as caught:
            graph.load(path, **place.spark)
        assert caught.value.code == "path_not_shared"
        assert graph.snapshot().counts["node:City"] == 0


def test_a_folder_of_the_driver_alone_takes_no_export(place: Cluster, tmp_path: Path) -> None:
    with place.graph() as graph:
        graph.load({"City": [{"name": "x"}]})
        with pytest.raises(og.errors.InvalidInput) as caught:
            graph.export(f"{tmp_path}/out/", engine="spark", spark=place.session)
        assert caught.value.code == "target_not_shared"
        assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_a_graph_of_the_driver_alone_is_not_loaded_by_workers(
    place: Cluster, tmp_path: Path
) -> None:
    source = place.put("all.jsonl", lines(20))
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        before = graph.snapshot().commit
        with pytest.raises(og.errors.InvalidInput, match="do not see") as caught:
            graph.load(source, **place.spark)
        assert caught.value.code == "path_not_shared"
        assert graph.snapshot().commit == before
        graph.load({"City": [{"name": "x"}]})


def test_a_worker_dies_while_it_loads(place: Cluster) -> None:
    source = place.put("all.jsonl", lines(PEOPLE))
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.stage == "judge" and not killed:
            killed.extend(below(os.getpid(), "CoarseGrainedExecutorBackend"))
            os.kill(killed[0], signal.SIGKILL)

    with place.graph() as graph:
        graph.load(source, **place.spark, progress=kill)
        assert killed
        assert graph.snapshot().counts["node:Person"] == PEOPLE
        assert len(content(graph)["knows"]) == PEOPLE
