"""Workers that the storage refuses while it admits the driver: by which call does not matter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.config import configured
from omnigraph.dataplane.spark.session import acquire
from omnigraph.store.io.objects import open_objects
from omnigraph.store.root import Root
from tests.conformance.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, serving
from tests.spark.clusters import EXECUTORS, local_cluster

SCHEMA = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
QUERY = "query q() { match { $p: Person $p knows $q } return { $p.name as p, $q.name as q } }"
LINES = b'{"type": "Person", "data": {"name": "c"}}\n{"edge": "Knows", "from": "a", "to": "c"}\n'
# The keys of every process come from its environment.
KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
WRONG = {f"spark.executorEnv.{name}": value for name, value in KEYS.items()} | {
    "spark.executorEnv.AWS_SECRET_ACCESS_KEY": "wrong"
}


@dataclass(frozen=True)
class Refused:
    """A graph that workers may not read or write, and their session."""

    graph: og.Graph
    session: Any
    reach: dict[str, str]
    folder: str

    @property
    def spark(self) -> dict[str, Any]:
        return {"engine": "spark", "spark": self.session}

    @property
    def bulk(self) -> dict[str, Any]:
        return {**self.spark, "storage_options": self.reach}

    @property
    def saved(self) -> dict[str, str]:
        options = {f"storage.{name}": value for name, value in self.reach.items()}
        return {"path": self.graph.uri, "type": "Person", **options}

    @property
    def rows(self) -> Any:
        return self.session.createDataFrame([("z", 5)], "name string, age int")

    def stored(self) -> set[str]:
        """All that is in the bucket, for the driver."""
        return {info.path for info in open_objects(Root.parse(self.folder, self.reach)).list("")}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refused]:
    folder = tmp_path_factory.mktemp("denied")
    with pytest.MonkeyPatch.context() as patch, serving(folder / "s3") as options:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        reach = {key: value for key, value in options.items() if key.upper() not in KEYS}
        base = f"s3://{BUCKET}/denied-{os.getpid()}"
        open_objects(Root.parse(f"{base}/lines", reach)).put("x.jsonl", LINES)
        settings = {**EXECUTORS, **WRONG}
        with (
            og.init(f"{base}/graph.omni", SCHEMA, storage_options=reach) as graph,
            local_cluster() as master,
            acquire(configured(master, settings)) as held,
        ):
            people: list[dict[str, Any]] = [{"name": "a", "age": 1}, {"name": "b"}]
            graph.load({"Person": people, "Knows": [{"from": "a", "to": "b"}]})
            yield Refused(graph, held.session, reach, base)


CALLS: dict[str, Callable[[Refused], Any]] = {
    "load a file": lambda at: at.graph.load(f"{at.folder}/lines/", **at.bulk),
    "load rows": lambda at: at.graph.load({"Person": [{"name": "q"}]}, **at.spark),
    "load a frame": lambda at: at.graph.load({"Person": at.rows}),
    "merge": lambda at: at.graph.load({"Person": [{"name": "a"}]}, mode="merge", **at.spark),
    "export": lambda at: at.graph.export(f"{at.folder}/out/", **at.bulk),
    "query": lambda at: at.graph.query(QUERY, **at.spark).to_pylist(),
    "query to a frame": lambda at: at.graph.query(QUERY, **at.spark).to_spark().collect(),
    "vertices": lambda at: at.graph.vertices("Person", spark=at.session).collect(),
    "edges": lambda at: at.graph.edges("Knows", spark=at.session).collect(),
    "pagerank": lambda at: at.graph.algorithms.pagerank("Person", "Knows", **at.spark).to_arrow(),
    "to_spark": lambda at: at.graph.to_spark("Person", spark=at.session).collect(),
    "read": lambda at: at.session.read.format("omnigraph").options(**at.saved).load().collect(),
    "write": lambda at: at.rows.write.format("omnigraph").options(**at.saved).mode("append").save(),
    "optimize": lambda at: at.graph.optimize(**at.spark),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_refusal_of_workers_is_plain_and_leaves_nothing(refused: Refused, call: str) -> None:
    before, head = refused.stored(), refused.graph.snapshot().commit
    with pytest.raises(Exception, match="check the credentials") as caught:
        CALLS[call](refused)
    found = og.spark_error(caught.value)
    assert found is not None
    assert found.code == "storage_denied"
    assert refused.graph.snapshot().commit == head
    assert refused.stored() == before
