"""Diffs, blame and the change feed across changes of the schema."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput

BEFORE = """
node Person { name: String @key  age: I32?  nick: String?  photo: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
AFTER = """
node Human @rename_from("Person") {
  name: String @key
  age: I64?
  alias: String? @rename_from("nick")
  photo: Blob?
  state: String @default("new")
  mail: String?
}
edge Knows: Human -> Human { since: I64? }
node City { name: String @key }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "g.omni", schema=BEFORE)
    made.load(
        {
            "Person": [
                {"name": "Ada", "age": 1, "nick": "a", "photo": "base64:AQID"},
                {"name": "Bo", "nick": "b"},
            ],
            "Knows": [{"from": "Ada", "to": "Bo", "since": 3}],
        }
    )
    return made


def summary(diff: og.Diff) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [(item.type, item.id, item.operation, item.changed) for item in diff]


def test_a_schema_change_alone_changes_no_entity(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.schema.apply(AFTER)
    assert graph.diff(before).is_empty
    assert graph.diff("main", before).is_empty
    assert graph.commits.changes(graph.snapshot().commit).is_empty


def test_the_older_state_is_read_as_the_newer_schema_has_it(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.schema.apply(AFTER)
    graph.mutate('query q() { update Human set { alias: "z" } where name = "Ada" }')
    graph.mutate('query q() { update Human set { state: "old", age: 7 } where name = "Bo" }')
    graph.mutate('query q() { insert City { name: "Oslo" } }')
    assert summary(graph.diff(before)) == [
        ("City", "Oslo", "insert", ()),
        ("Human", "Ada", "update", ("alias",)),
        ("Human", "Bo", "update", ("age", "state")),
    ]
    (ada,) = [item for item in graph.diff(before) if item.id == "Ada"]
    assert ada.before == {
        "name": "Ada",
        "age": 1,
        "alias": "a",
        "photo": {"size": 3},
        "state": "new",
        "mail": None,
    }
    # The other way round in the terms of the older schema; what it does not have is not told.
    assert summary(graph.diff("main", before)) == [
        ("Person", "Ada", "update", ("nick",)),
        ("Person", "Bo", "update", ("age",)),
    ]


def test_a_value_that_the_older_type_does_not_have_is_a_change(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.schema.apply(AFTER)
    graph.mutate('query q() { update Human set { age: 5000000000 } where name = "Ada" }')
    (change,) = graph.diff("main", before)
    assert (change.id, change.changed) == ("Ada", ("age",))
    assert (change.before, change.after) is not None
    assert change.after is not None
    assert change.after["age"] == 1


def test_a_dropped_property_is_no_change_and_comes_back_as_another_one(graph: og.Graph) -> None:
    before = graph.snapshot()
    without = BEFORE.replace("nick: String?", "")
    graph.schema.apply(without)
    assert graph.diff(before).is_empty
    graph.schema.apply(BEFORE)
    assert graph.diff(before).is_empty, "what was dropped does not come back"
    graph.mutate('query q() { update Person set { nick: "new" } where name = "Bo" }')
    (change,) = graph.diff(before)
    assert change.before is not None
    assert (change.id, change.before["nick"], change.changed) == ("Bo", None, ("nick",))


def test_a_default_that_is_changed_later_filled_nothing(graph: og.Graph) -> None:
    before = graph.snapshot()
    first = BEFORE.replace("nick: String?", 'nick: String?  state: String @default("x")')
    graph.schema.apply(first)
    graph.schema.apply(first.replace('@default("x")', '@default("y")'))
    assert graph.diff(before).is_empty
    graph.mutate('query q() { insert Person { name: "Cy" } }')
    (change,) = graph.diff(before)
    assert change.after is not None
    assert (change.id, change.after["state"]) == ("Cy", "y")


def test_a_blob_that_changed_its_name_is_compared_by_content(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.schema.apply(
        BEFORE.replace("photo: Blob?", 'image: Blob? @rename_from("photo")  more: Blob?')
    )
    graph.load({"Person": [{"name": "Bo", "more": "base64:AQ=="}]}, mode="merge")
    assert summary(graph.diff(before)) == [("Person", "Bo", "update", ("more",))]
    graph.load({"Person": [{"name": "Ada", "image": "base64:AQIE"}]}, mode="merge")
    assert summary(graph.diff(before))[0] == ("Person", "Ada", "update", ("image",))


def test_blame_goes_through_renames(graph: og.Graph) -> None:
    graph.mutate('query q() { update Person set { nick: "x" } where name = "Ada" }', message="1")
    graph.schema.apply(AFTER)
    graph.mutate('query q() { update Human set { alias: "y" } where name = "Ada" }', message="2")
    lines = graph.blame("Human", "Ada")
    assert [(line.commit.message, line.operation, line.changed) for line in lines] == [
        ("2", "update", ("alias",)),
        ("1", "update", ("nick",)),
        (None, "insert", ()),
    ]


def test_the_feed_goes_on_and_tells_each_commit_in_its_own_words(graph: og.Graph) -> None:
    everything = graph.changes.poll(types=["Person"])
    start = graph.changes.poll(start="now", types=["Person"]).cursor
    graph.schema.apply(AFTER)
    graph.mutate('query q() { update Human set { alias: "y" } where name = "Ada" }')
    graph.mutate('query q() { insert City { name: "Oslo" } }')
    page = graph.changes.poll(start)
    assert [(item.change.type, item.change.id) for item in page.events] == [("Human", "Ada")]
    later = graph.changes.poll(types=["Human"])
    assert len(later.events) == len(everything.events) + 1
    assert {item.change.type for item in later.events} == {"Person", "Human"}
    assert len(graph.changes.poll().events) == 5
    with pytest.raises(InvalidInput):
        graph.changes.poll(types=["Person"])
    baseline = graph.changes.baseline(types=["Human"])
    assert sorted(item.id for item in baseline) == ["Ada", "Bo"]


def test_a_diff_between_branches_of_different_schemas(graph: og.Graph) -> None:
    graph.branches.create("draft")
    graph.schema.apply(AFTER, branch="draft")
    graph.mutate('query q() { update Human set { age: 2 } where name = "Ada" }', branch="draft")
    graph.mutate('query q() { insert Person { name: "Cy" } }')
    assert summary(graph.diff("main", "draft")) == [
        ("Human", "Ada", "update", ("age",)),
        ("Human", "Cy", "delete", ()),
    ]
    assert summary(graph.diff("draft", "main")) == [
        ("Person", "Ada", "update", ("age",)),
        ("Person", "Cy", "insert", ()),
    ]
