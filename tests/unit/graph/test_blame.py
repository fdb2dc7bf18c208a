"""`graph.blame`: the commits that changed one entity."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, NotFound

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
node Note { title: String @key }
edge Knows: Person -> Person { since: I32?  @key(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        yield graph


def change(graph: og.Graph, text: str, actor: str = "ada", branch: str = "main") -> str:
    commit = graph.mutate(
        f"query q() {{ {text} }}", actor=actor, branch=branch, message=text
    ).commit
    assert commit is not None
    return commit.id


def told(lines: list[og.BlameLine]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(line.commit.id, line.operation, line.changed) for line in lines]


def test_the_commits_of_one_entity(graph: og.Graph) -> None:
    change(graph, 'insert Person { name: "Bo" }')
    made = change(graph, 'insert Person { name: "Ada" }', actor="bo")
    aged = change(graph, 'update Person set { age: 36 } where name = "Ada"')
    change(graph, 'update Person set { age: 1 } where name = "Bo"')
    change(graph, 'insert Note { title: "n" }')
    graph.optimize()
    moved = change(graph, 'update Person set { age: 37, city: "x" } where name = "Ada"')
    lines = graph.blame("Person", "Ada")
    assert told(lines) == [
        (moved, "update", ("age", "city")),
        (aged, "update", ("age",)),
        (made, "insert", ()),
    ]
    assert [line.commit.actor for line in lines] == ["ada", "ada", "bo"]
    assert lines[1].commit.message == 'update Person set { age: 36 } where name = "Ada"'
    assert told(graph.blame("node:Person", "Ada", limit=1)) == told(lines)[:1]
    assert told(graph.blame("Person", "Ada", at=aged)) == told(lines)[1:]


def test_deleted_and_made_again(graph: og.Graph) -> None:
    change(graph, 'insert Person { name: "Ada" }')
    gone = change(graph, 'delete Person where name = "Ada"')
    assert [line.operation for line in graph.blame("Person", "Ada")] == ["delete", "insert"]
    again = change(graph, 'insert Person { name: "Ada" }')
    assert told(graph.blame("Person", "Ada")) == [(again, "insert", ())]
    assert told(graph.blame("Person", "Ada", at=gone))[0] == (gone, "delete", ())


def test_a_merge_stands_for_what_it_brought_along(graph: og.Graph) -> None:
    made = change(graph, 'insert Person { name: "Ada" }')
    graph.branches.create("dev")
    change(graph, 'update Person set { age: 36 } where name = "Ada"', branch="dev")
    last = change(graph, 'update Person set { city: "x" } where name = "Ada"', branch="dev")
    change(graph, 'insert Person { name: "Bo" }')
    merged = graph.branches.merge("dev").commit
    assert merged is not None
    lines = graph.blame("Person", "Ada")
    assert told(lines) == [(merged.id, "update", ("age", "city")), (made, "insert", ())]
    assert lines[0].commit.merged_parent_id == last
    assert [line.operation for line in graph.branch("dev").blame("Person", "Ada")] == [
        "update",
        "update",
        "insert",
    ]


def test_building_indexes_takes_a_message(graph: og.Graph) -> None:
    change(graph, 'insert Person { name: "Ada" }')
    made = graph.ensure_indices(message="faster").commit
    assert made is not None
    assert made.message == "faster"
    assert [line.operation for line in graph.blame("Person", "Ada")] == ["insert"]


def test_edges_have_it_too(graph: og.Graph) -> None:
    change(graph, 'insert Person { name: "Ada" } insert Person { name: "Bo" }')
    made = change(graph, 'insert Knows { from: "Ada", to: "Bo" }')
    (edge,) = graph.commits.changes(made)
    assert told(graph.blame("Knows", edge.id)) == [(made, "insert", ())]


def test_what_was_never_there_is_not_found(graph: og.Graph) -> None:
    change(graph, 'insert Person { name: "Ada" }')
    with pytest.raises(NotFound, match="has changed Person"):
        graph.blame("Person", "Bo")
    with pytest.raises(InvalidInput):
        graph.blame("Persn", "Ada")
    with pytest.raises(InvalidInput):
        graph.blame("Person", "Ada", limit=0)
