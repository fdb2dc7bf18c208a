"""Queries answer the same before and after, whoever asks: open handles, new ones, the past."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.runtime import telemetry
from tests.modelled import engine_of, make
from tests.unit.dataplane.optimize.optimizing import optimize

SCHEMA = """
node Person {
  name: String @key
  bio: String? @index
  age: I32? @index
  face: Vector(3)? @index
  photo: Blob?
}
node Town { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> Town
"""
ADD = """
query add($n: String, $b: String, $a: I32, $v: Vector(3), $p: Blob, $t: String) {
  insert Person { name: $n, bio: $b, age: $a, face: $v, photo: $p }
  insert LivesIn { from: $n, to: $t }
}
"""
QUESTIONS = {
    "all": "query q() { match { $p: Person } return { $p.name, $p.bio, $p.age, $p.face } }",
    "key": 'query q() { match { $p: Person { name: "p07" } } return { $p.name, $p.age } }',
    "range": "query q() { match { $p: Person  $p.age > 33 } return { $p.name as n } order { n } }",
    "friends": """
        query q() { match { $p: Person  $p knows $q  $q livesIn $t }
        return { $p.name as p, $q.name as q, $t.name as t } order { p, q } }""",
    "counts": """
        query q() { match { $p: Person  $p livesIn $t }
        return { $t.name as t, count($p) as n } order { t } }""",
    "words": """
        query q() { match { $p: Person  search($p.bio, "weaver") }
        return { $p.name as p } order { p } }""",
    "best": """
        query q() { match { $p: Person } return { $p.name as p }
        order { bm25($p.bio, "weaver of nets") desc } limit 3 }""",
    "near": """
        query q() { match { $p: Person } return { $p.name as p }
        order { nearest($p.face, [1.0, 0.5, 0.25]) } limit 4 }""",
}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with make(tmp_path / "g", SCHEMA) as graph:
        fill(graph)
        yield graph


def fill(graph: og.Graph, branch: str = "main") -> None:
    """One small commit after the other: inserts, then updates, then deletes."""
    for town in ("Ulm", "Bonn"):
        text = "query t($n: String) { insert Town { name: $n } }"
        graph.mutate(text, {"n": town}, branch=branch)
    for number in range(12):
        trade = ("weaver", "baker", "maker of nets")[number % 3]
        photo = base64.b64encode(bytes([number]) * (number * 30_000)).decode()
        params: dict[str, Any] = {
            "n": f"p{number:02}",
            "b": f"a {trade} of rope {number}",
            "a": 25 + number,
            "v": [1.0, number / 4, 0.25],
            "p": f"base64:{photo}",
            "t": "Ulm" if number % 2 else "Bonn",
        }
        graph.mutate(ADD, params, branch=branch)
    for number in range(1, 12):
        text = "query k($a: String, $b: String) { insert Knows { from: $a, to: $b } }"
        graph.mutate(text, {"a": f"p{number:02}", "b": f"p{number // 2:02}"}, branch=branch)
    change(graph, branch)


def change(graph: og.Graph, branch: str = "main") -> None:
    graph.mutate(
        'query u() { update Person set { bio: "a weaver again" } where name = "p04" }',
        branch=branch,
    )
    graph.mutate(
        'query u() { update Person set { bio: "nothing", age: 99 } where name = "p03" }',
        branch=branch,
    )
    graph.mutate('query d() { delete Person where name = "p09" }', branch=branch)


def answers(graph: og.Graph, **where: Any) -> dict[str, list[dict[str, Any]]]:
    """What a graph answers, the same by either way to reach the data."""
    found = {}
    for name, text in QUESTIONS.items():
        dense, direct = (
            graph.query(text, access=access, **where).to_pylist() for access in ("dense", "direct")
        )
        if name == "all":
            dense, direct = (sorted(rows, key=str) for rows in (dense, direct))
        assert dense == direct, name
        found[name] = dense
    assert all(found.values())
    return found


def photos(graph: og.Graph, **where: Any) -> list[bytes | None]:
    people = [row["n"] for row in graph.query(QUESTIONS["range"], **where)]
    return [graph.read_blob("Person", name, "photo", **where) for name in people]


def test_answers_stay_the_same(graph: og.Graph) -> None:
    before, blobs = answers(graph), photos(graph)
    head = graph.snapshot()
    done = graph.optimize(engine="inprocess", actor="keeper")
    assert done.commit is not None
    assert (done.commit.kind, done.commit.actor) == ("optimize", "keeper")
    was, now = done.fragments["node:Person"]
    assert was > now == 1
    assert answers(graph) == before
    assert photos(graph) == blobs
    assert answers(graph, at=head.commit) == before
    with og.open(graph.uri, "r") as other:
        assert answers(other) == before
        assert photos(other) == blobs
        assert answers(other, at=head.commit) == before
    assert graph.optimize(engine="inprocess").commit is None


def test_changes_go_on_from_there(graph: og.Graph) -> None:
    """Updated rows that an index covered already, and deleted ones."""
    graph.optimize(engine="inprocess")
    graph.mutate('query u() { update Person set { bio: "a weaver" } where age > 30 }')
    graph.mutate('query d() { delete Person where name = "p06" }')
    before, blobs = answers(graph), photos(graph)
    for _ in range(2):
        graph.optimize(engine="inprocess")
        assert answers(graph) == before
        assert photos(graph) == blobs
    with og.open(graph.uri, "r") as other:
        assert answers(other) == before


def test_a_branch_with_its_own_rows_and_the_blobs_of_its_parent(graph: og.Graph) -> None:
    graph.branches.create("dev")
    graph.mutate(
        'query u() { update Person set { bio: "a weaver" } where name = "p02" }', branch="dev"
    )
    main, dev = answers(graph), answers(graph, branch="dev")
    blobs = photos(graph, branch="dev")
    assert graph.optimize(branch="dev", engine="inprocess").commit is not None
    assert answers(graph) == main
    assert answers(graph, branch="dev") == dev
    assert photos(graph, branch="dev") == blobs == photos(graph)
    assert list(graph.optimize(engine="inprocess").fragments) != []
    assert answers(graph, branch="dev") == dev
    assert photos(graph, branch="dev") == blobs


def test_an_open_graph_reads_nothing_anew(graph: og.Graph) -> None:
    """Rows have moved, and none of them has changed."""
    before = {name: graph.query(text, access="dense") for name, text in QUESTIONS.items()}
    optimize(engine_of(graph))
    with telemetry.counting() as counts:
        after = {name: graph.query(text, access="dense") for name, text in QUESTIONS.items()}
    assert {name: rows.to_pylist() for name, rows in after.items()} == {
        name: rows.to_pylist() for name, rows in before.items()
    }
    cost = counts.snapshot()
    assert cost["dense.entity_index_derived"] > 0
    for read in ("dense.entity_index_read", "dense.column_read", "dense.ends_read"):
        assert read not in cost
