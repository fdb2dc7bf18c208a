"""Nodes and edges as DataFrames with numbers, against what queries say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.dense import DenseFrames
from omnigraph.dataplane.spark.session import HeldSession
from omnigraph.types import BranchName
from tests.modelled import catalog_of, engine_of

SCHEMA = """\
node Person { name: String @key  age: I32?  big: U64? }
node Town { name: String @key }
edge Knows: Person -> Person { weight: F64? }
edge LivesIn: Person -> Town { @key(src, dst) }
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    with og.init(str(tmp_path_factory.mktemp("dense") / "g"), SCHEMA) as graph:
        people = [{"name": f"p{n}", "age": n, "big": 2**63 + n} for n in range(20)]
        graph.load({"Person": people, "Town": [{"name": "Bern"}, {"name": "Oslo"}]})
        knows = [{"from": f"p{n}", "to": f"p{n * 7 % 20}", "weight": n / 2} for n in range(20)]
        lives = [{"from": f"p{n}", "to": "Oslo" if n % 3 else "Bern"} for n in range(20)]
        graph.load({"Knows": knows, "LivesIn": lives})
        graph.mutate('query q() { delete Person where name = "p3" }')
        yield graph


def frames(graph: og.Graph, held: HeldSession) -> DenseFrames:
    repo = engine_of(graph)
    return DenseFrames(held, repo, repo.snapshot(), catalog_of(graph))


def test_nodes_have_numbers_and_the_columns_asked_for(graph: og.Graph, local: HeldSession) -> None:
    rows = frames(graph, local).nodes("Person", {"key": "id", "big": "big"}).collect()
    assert {row["key"]: int(row["big"]) for row in rows} == {
        f"p{n}": 2**63 + n for n in range(20) if n != 3
    }
    assert len({row["_id"] for row in rows}) == 19


def test_edges_lead_from_number_to_number(graph: og.Graph, local: HeldSession) -> None:
    made = frames(graph, local)
    name = {row["_id"]: row["key"] for row in made.nodes("Person", {"key": "id"}).collect()}
    town = {row["_id"]: row["key"] for row in made.nodes("Town", {"key": "id"}).collect()}
    rows = made.edges("Knows", {"weight": "weight"}).collect()
    kept = [n for n in range(20) if 3 not in (n, n * 7 % 20)]
    assert sorted((name[row["_src"]], name[row["_dst"]], row["weight"]) for row in rows) == sorted(
        (f"p{n}", f"p{n * 7 % 20}", n / 2) for n in kept
    )
    lives = {(name[row["_src"]], town[row["_dst"]]) for row in made.edges("LivesIn").collect()}
    assert lives == {(f"p{n}", "Oslo" if n % 3 else "Bern") for n in range(20) if n != 3}


def test_a_condition_is_applied_by_the_scan(graph: og.Graph, local: HeldSession) -> None:
    rows = frames(graph, local).nodes("Person", {"age": "age"}, "age >= 15").collect()
    assert sorted(row["age"] for row in rows) == list(range(15, 20))


def test_ends_are_computed_once_per_state(graph: og.Graph, local: HeldSession) -> None:
    first = frames(graph, local)
    assert first.edge_ends("Knows") is frames(graph, local).edge_ends("Knows")
    with og.open(graph.uri) as other:
        other.branches.create("side")
        other.mutate('query q() { delete Person where name = "p5" }', branch="side")
        repo = engine_of(other)
        side = DenseFrames(
            local,
            repo,
            repo.snapshot(BranchName("side")),
            catalog_of(other),
        )
        assert side.edge_ends("Knows") is not first.edge_ends("Knows")
        assert side.edge_ends("Knows").count() == first.edge_ends("Knows").count() - 2


def test_spark_is_told_how_large_a_table_is(graph: og.Graph, local: HeldSession) -> None:
    plan = frames(graph, local).nodes("Person", {"key": "id"})
    size = plan._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    assert int(size) >= 19 * 40
