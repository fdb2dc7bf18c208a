"""Algorithms on Spark give what they give in one process; frames have numbers and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnigraph as og
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.algorithms import blocks as spark_blocks
from omnigraph.dataplane.spark.algorithms import messages, one_task
from omnigraph.dataplane.spark.algorithms import run as spark_run
from omnigraph.dataplane.spark.session import HeldSession
from omnigraph.errors import Cancelled, InvalidInput, LimitExceeded, NotFound

SCHEMA = """
node Person { name: String @key  rank: F64?  part: I64?  far: F32?  photo: Blob? }
node Company { name: String @key  rank: F64?  part: I64?  far: F32? }
edge Knows: Person -> Person { km: F64? }
edge WorksAt: Person -> Company { km: I32? }
"""
BOTH: dict[str, Any] = {"edges": ["Knows", "WorksAt"]}
ONE: dict[str, Any] = {"nodes": "Person", "edges": "Knows"}


def filled(graph: og.Graph, seed: int, people: int = 40, knows: int = 90) -> og.Graph:
    """Loops, parallel edges, isolated nodes, and more than one component are likely."""
    random = np.random.default_rng(seed)
    names = [f"p{number:03d}" for number in random.permutation(people)]
    firms = [f"c{number}" for number in range(5)]

    def some(names: list[str], count: int) -> list[str]:
        return [names[place] for place in random.integers(0, len(names), count)]

    graph.load(
        {
            "Person": [{"name": name} for name in names],
            "Company": [{"name": name} for name in firms],
            "Knows": [
                {"from": a, "to": b, "km": float(km)}
                for a, b, km in zip(
                    some(names, knows),
                    some(names[: people // 2], knows),
                    random.random(knows).round(2),
                    strict=True,
                )
            ]
            + [{"from": names[0], "to": names[0], "km": 0.5}],
            "WorksAt": [
                {"from": a, "to": b, "km": number % 3}
                for number, (a, b) in enumerate(zip(some(names, 12), some(firms, 12), strict=True))
            ],
        }
    )
    return graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with og.init(tmp_path_factory.mktemp("algorithms") / "g.omni", SCHEMA) as made:
        yield filled(made, 1)


def check_alike(graph: og.Graph, held: HeldSession, name: str, **arguments: Any) -> None:
    here = getattr(graph.algorithms, name)(**arguments, engine="inprocess")
    there = getattr(graph.algorithms, name)(**arguments, engine="spark", spark=held.session)
    assert (there.engine, there.column) == ("spark", here.column)
    assert (there.iterations, there.converged) == (here.iterations, here.converged)
    left, right = here.to_arrow(), there.to_arrow()
    assert left.schema == right.schema
    assert left.drop_columns([here.column]).equals(right.drop_columns([here.column]))
    values, others = (table.column(here.column).to_pylist() for table in (left, right))
    assert others == (pytest.approx(values, rel=1e-9) if name == "pagerank" else values)


@pytest.fixture(params=["one task", "broadcast", pytest.param("exchanged", marks=pytest.mark.deep)])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """How values travel: not at all, all of them with every task, or by blocks along the edges."""
    if request.param == "broadcast":
        monkeypatch.setattr(one_task, "fits", lambda *_: False)
    most = 0 if request.param == "exchanged" else tuning.active.broadcast_vertices_max
    with tuning.tuned(broadcast_vertices_max=most):
        yield


@pytest.mark.usefixtures("exchange")
@pytest.mark.parametrize("types", [ONE, BOTH], ids=["one", "several"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("connected_components", {}),
        ("triangle_counts", {}),
        ("pagerank", {"iterations": 3}),
        ("label_propagation", {"iterations": 3}),
        ("shortest_paths", {"sources": {"Person": ["p001", "p002"]}, "weight": "km"}),
    ],
)
def test_spark_gives_what_one_process_gives(
    graph: og.Graph, local: HeldSession, name: str, arguments: dict[str, Any], types: dict[str, Any]
) -> None:
    check_alike(graph, local, name, **types, **arguments)


@pytest.mark.deep
@pytest.mark.usefixtures("exchange")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("direction", ["out", "in", "both"])
def test_random_graphs(tmp_path: Path, local: HeldSession, seed: int, direction: str) -> None:
    small = tuning.tuned(piece_edges=7, buffered_edges=16)
    with small, og.init(tmp_path / "g.omni", SCHEMA) as graph:
        filled(graph, 100 + seed, people=20 * (seed + 1), knows=15 * seed + 20)
        some = {"sources": {"Person": ["p001", "p003"]}, "direction": direction}
        for types in (ONE, BOTH):
            check_alike(graph, local, "connected_components", **types)
            check_alike(graph, local, "triangle_counts", **types)
            check_alike(graph, local, "pagerank", **types, direction=direction, tolerance=1e-4)
            check_alike(graph, local, "label_propagation", **types, direction=direction)
            check_alike(graph, local, "shortest_paths", **types, **some)
            check_alike(graph, local, "shortest_paths", **types, **some, weight="km")
            check_alike(graph, local, "shortest_paths", **types, **some, distance_max=2)


@pytest.mark.deep
def test_estimates_stay_numbers_that_a_driver_can_multiply(
    graph: og.Graph, local: HeldSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark estimates the sizes of frames; squared each time, the last here has 1,598 bits."""
    estimates: list[int] = []
    compute = messages.sums

    def watched(blocks: Any, stage: str, state: Any) -> tuple[float, float]:
        size = state._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
        estimates.append(int(str(size)).bit_length())
        return compute(blocks, stage, state)

    monkeypatch.setattr(spark_run, "sums", watched)
    with tuning.tuned(broadcast_vertices_max=0):
        check_alike(graph, local, "pagerank", **ONE, iterations=6)
    assert len(estimates) == 7
    assert max(estimates) < 1000


@pytest.mark.deep
def test_graphs_without_edges_or_vertices(tmp_path: Path, local: HeldSession) -> None:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        for _ in range(2):
            check_alike(graph, local, "connected_components")
            check_alike(graph, local, "triangle_counts")
            check_alike(graph, local, "pagerank")
            check_alike(graph, local, "label_propagation")
            graph.load({"Person": [{"name": "Ada"}, {"name": "Bo"}]}, mode="merge")
        check_alike(graph, local, "shortest_paths", **ONE, sources="Ada")


def test_what_was_prepared_is_kept_until_the_graph_changes(
    tmp_path: Path, local: HeldSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    by_target = spark_blocks.Blocks._by_target

    def counted(self: Any, *arguments: Any) -> Any:
        made.append("by target")
        return by_target(self, *arguments)

    monkeypatch.setattr(spark_blocks.Blocks, "_by_target", counted)
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load({"Person": [{"name": "Ada"}, {"name": "Bo"}, {"name": "Cy"}]})
        graph.load({"Knows": [{"from": "Ada", "to": "Bo"}]})
        for _ in range(2):
            check_alike(graph, local, "connected_components", **ONE)
        assert len(made) == 1
        graph.load({"Knows": [{"from": "Bo", "to": "Cy"}]})
        check_alike(graph, local, "connected_components", **ONE)
        assert len(made) == 2


def test_results_of_spark_are_written_back(graph: og.Graph, local: HeldSession) -> None:
    graph.branches.create("ranked")
    done = graph.algorithms.pagerank(
        **BOTH, engine="spark", spark=local.session, iterations=2, branch="ranked", write_to="rank"
    )
    assert done.written is not None
    assert done.written.engine == "spark"
    assert {key: each.updated for key, each in done.written.counts.items()} == {
        "node:Person": 40,
        "node:Company": 5,
    }
    found = graph.query(
        "query q() { match { $p: Person } return { $p.name as id, $p.rank as v } }",
        branch="ranked",
    )
    rows = {row["id"]: row["rank"] for row in done if row["type"] == "Person"}
    assert {row["id"]: row["v"] for row in found} == rows
    frame = done.to_spark()
    assert frame.columns == ["type", "id", "rank"]
    assert frame.count() == 45


def test_auto_takes_spark_when_memory_would_not_do(graph: og.Graph, local: HeldSession) -> None:
    with og.open(graph.uri, "r", settings=og.Settings(query_bytes_max=4096)) as small:
        found = small.algorithms.connected_components(**ONE, spark=local.session)
        assert found.engine == "spark"
        assert "at most" in found.reason
        assert found.to_spark().columns == ["id", "component"]
        assert found.to_arrow().num_rows == 40
    with og.open(graph.uri, "r", settings=og.Settings(query_bytes_max=1024)) as tiny:
        found = tiny.algorithms.connected_components("Company", spark=local.session)
        assert found.engine == "inprocess"
        found = tiny.algorithms.connected_components(**ONE, spark=local.session)
        with pytest.raises(LimitExceeded, match="to_spark"):
            found.to_arrow()


def test_what_is_refused_on_spark(graph: og.Graph, local: HeldSession) -> None:
    run = graph.algorithms
    on = {"engine": "spark", "spark": local.session}
    with pytest.raises(NotFound, match="no Person 'Zoe'"):
        run.shortest_paths(**ONE, sources="Zoe", **on)
    graph.branches.create("bad")
    graph.load({"Knows": [{"from": "p001", "to": "p002"}]}, branch="bad")
    with pytest.raises(InvalidInput, match="null or negative"):
        run.shortest_paths(**ONE, sources="p001", weight="km", branch="bad", **on)
    stop = og.CancelToken()
    stop.cancel()
    with pytest.raises(Cancelled):
        run.pagerank(**ONE, cancel=stop, **on)


def test_results_of_this_process_become_frames(graph: og.Graph, local: HeldSession) -> None:
    found = graph.algorithms.connected_components(**ONE)
    frame = found.to_spark(local.session)
    assert sorted(map(tuple, frame.collect())) == [tuple(row.values()) for row in found]


# -- frames ----------------------------------------------------------------------------------------


def test_vertices_and_edges_are_joined_by_numbers(graph: og.Graph, local: HeldSession) -> None:
    people = graph.vertices("Person", spark=local.session)
    assert people.columns == ["_id", "id", "far", "name", "part", "rank"]
    knows = graph.edges("Knows", columns=["km"], spark=local.session)
    assert knows.columns == ["_id", "_src", "_dst", "km"]
    ids = people.select("_id", "id")
    joined = knows.join(ids.toDF("_src", "a"), "_src").join(ids.toDF("_dst", "b"), "_dst")
    rows = sorted(map(tuple, joined.select("a", "b", "km").collect()))
    stored = graph.to_spark("Knows", columns=["src", "dst", "km"], spark=local.session)
    assert rows == sorted(map(tuple, stored.collect()))
    plan = joined._jdf.queryExecution().executedPlan().toString()
    assert "BroadcastHashJoin" in plan


def test_columns_and_types_of_frames_are_checked(graph: og.Graph, local: HeldSession) -> None:
    with pytest.raises(InvalidInput, match="no column 'nme'"):
        graph.vertices("Person", columns=["nme"], spark=local.session)
    with pytest.raises(InvalidInput, match="no type"):
        graph.vertices("Knows", spark=local.session)
    assert graph.edges("Knows", columns=[], spark=local.session).columns == ["_id", "_src", "_dst"]
