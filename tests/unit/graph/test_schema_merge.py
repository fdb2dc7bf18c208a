"""Merges, reverts and resets across changes of the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Code, Conflict

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
}
edge Knows: Human -> Human { since: I32? }
node City { name: String @key }
edge LivesIn: Human -> City
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(tmp_path / "g.omni", schema=BEFORE)
    made.load(
        {
            "Person": [
                {"name": "Ada", "age": 1, "nick": "a", "photo": "base64:AQID"},
                {"name": "Bo", "nick": "b"},
                {"name": "Cy"},
            ],
            "Knows": [{"from": "Ada", "to": "Bo", "since": 3}],
        }
    )
    made.branches.create("draft")
    return made


def changed(old: str, new: str) -> str:
    assert old in BEFORE
    return BEFORE.replace(old, new)


def change(graph: og.Graph, text: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def rows(graph: og.Graph, type_name: str, *names: str, branch: str = "main") -> list[Any]:
    """The rows of a type, as a handle sees them that has read nothing before."""
    shown = ", ".join(f"$p.{name} as {name}" for name in ("name", *names))
    text = f"query q() {{ match {{ $p: {type_name} }} return {{ {shown} }} order {{ name }} }}"
    found = [tuple(row.values()) for row in og.open(graph.uri).query(text, branch=branch)]
    assert [tuple(row.values()) for row in graph.query(text, branch=branch)] == found
    return found


HUMAN = ("age", "alias", "state")


def test_a_fast_forward_carries_the_schema(graph: og.Graph) -> None:
    graph.schema.apply(AFTER, branch="draft")
    change(graph, 'update Human set { alias: "z" } where name = "Ada"', "draft")
    graph.load(
        {"City": [{"name": "Oslo"}], "LivesIn": [{"from": "Ada", "to": "Oslo"}]}, branch="draft"
    )
    planned = graph.branches.merge("draft", dry_run=True)
    done = graph.branches.merge("draft")
    assert (done.outcome, done.counts) == ("fast_forward", planned.counts)
    assert {key: (n.inserted, n.updated) for key, n in done.counts.items()} == {
        "node:City": (1, 0),
        "node:Human": (0, 1),
        "edge:LivesIn": (1, 0),
    }
    assert graph.schema.show() == AFTER
    assert (Path(graph.uri.removeprefix("file://")) / "_schema.pg").read_text() == AFTER
    expected = [("Ada", 1, "z", "new"), ("Bo", None, "b", "new"), ("Cy", None, None, "new")]
    assert rows(graph, "Human", *HUMAN) == expected
    assert graph.read_blob("Human", "Ada", "photo") == b"\x01\x02\x03"
    assert graph.diff("draft", "main").is_empty
    # The past is as it was, and writing goes on.
    assert "node Person" in graph.schema.show(at="main~1")
    change(graph, 'insert Human { name: "Di" }')
    graph.optimize()
    assert rows(graph, "Human", *HUMAN)[-1] == ("Di", None, None, "new")
    assert graph.branches.merge("main", into="draft").outcome == "fast_forward"


def test_the_schema_changed_on_their_side(graph: og.Graph) -> None:
    graph.schema.apply(AFTER, branch="draft")
    change(graph, 'update Human set { alias: "z", state: "q" } where name = "Ada"', "draft")
    change(graph, 'delete Human where name = "Cy"', "draft")
    change(graph, 'update Person set { age: 9 } where name = "Ada"')
    change(graph, 'insert Person { name: "Di", nick: "d" }')
    done = graph.branches.merge("draft")
    assert done.outcome == "merged"
    assert graph.schema.show() == AFTER
    expected = [("Ada", 9, "z", "q"), ("Bo", None, "b", "new"), ("Di", None, "d", "new")]
    assert rows(graph, "Human", *HUMAN) == expected
    assert graph.read_blob("Human", "Ada", "photo") == b"\x01\x02\x03"
    lines = graph.blame("Human", "Ada")
    assert [(line.commit.kind, line.changed) for line in lines] == [
        ("branch_merge", ("alias", "state")),
        ("mutation", ("age",)),
        ("load", ()),
    ]


def test_the_schema_changed_on_our_side(graph: og.Graph) -> None:
    graph.schema.apply(AFTER)
    change(graph, 'update Human set { state: "s" } where name = "Ada"')
    change(graph, 'update Person set { nick: "z" } where name = "Ada"', "draft")
    change(graph, 'insert Person { name: "Di", age: 4 }', "draft")
    graph.load({"Person": [{"name": "Bo", "photo": "base64:BA=="}]}, mode="merge", branch="draft")
    graph.branches.merge("draft")
    expected = [
        ("Ada", 1, "z", "s"),
        ("Bo", None, "b", "new"),
        ("Cy", None, None, "new"),
        ("Di", 4, None, "new"),
    ]
    assert rows(graph, "Human", *HUMAN) == expected
    assert graph.read_blob("Human", "Bo", "photo") == b"\x04"
    # The branch stays on the old schema until it gets the new one by a merge.
    assert graph.schema.show("draft") == BEFORE
    assert graph.branches.merge("main", into="draft").outcome == "fast_forward"
    assert rows(graph, "Human", *HUMAN, branch="draft") == expected
    assert graph.schema.show("draft") == AFTER


def test_both_sides_changed_the_schema_and_go_on_doing_so(graph: og.Graph) -> None:
    graph.schema.apply(changed("age: I32?", "age: I64?  mail: String?"))
    graph.schema.apply(
        changed("nick: String?", 'alias: String? @rename_from("nick")  rank: I32 @default(7)'),
        branch="draft",
    )
    change(graph, 'update Person set { mail: "m", age: 5000000000 } where name = "Ada"')
    change(graph, 'update Person set { alias: "zz", rank: 1 } where name = "Ada"', "draft")
    change(graph, 'insert Person { name: "Di", alias: "d" }', "draft")
    graph.branches.merge("draft")
    names = ("age", "alias", "mail", "rank")
    assert rows(graph, "Person", *names) == [
        ("Ada", 5_000_000_000, "zz", "m", 1),
        ("Bo", None, "b", None, 7),
        ("Cy", None, None, None, 7),
        ("Di", None, "d", None, 7),
    ]
    # Properties that the two sides numbered alike stay what they are in merges to come.
    change(graph, 'update Person set { rank: 2 } where name = "Bo"', "draft")
    change(graph, 'update Person set { mail: "b" } where name = "Bo"')
    graph.branches.merge("draft")
    assert rows(graph, "Person", *names)[1] == ("Bo", None, "b", "b", 2)
    graph.branches.merge("main", into="draft")
    assert rows(graph, "Person", *names, branch="draft") == rows(graph, "Person", *names)


def test_both_sides_added_the_same_type(graph: og.Graph) -> None:
    graph.schema.apply(BEFORE + "node Dog { name: String @key }")
    graph.load({"Dog": [{"name": "Rex"}]})
    graph.schema.apply(BEFORE + "node Dog { name: String @key  age: I32? }", branch="draft")
    graph.load({"Dog": [{"name": "Fido", "age": 3}]}, branch="draft")
    graph.branches.merge("draft")
    assert rows(graph, "Dog", "age") == [("Fido", 3), ("Rex", None)]


REFUSED = {
    "renamed_twice": (
        changed("nick: String?", 'alias: String? @rename_from("nick")'),
        changed("nick: String?", 'pet: String? @rename_from("nick")'),
        ["node Person.nick"],
    ),
    "two_properties_of_one_name": (
        changed("nick: String?", "nick: String?  rank: I32?"),
        changed("nick: String?", "nick: String?  rank: String?"),
        ["node Person.rank"],
    ),
    "changed_and_dropped": (
        changed("age: I32?", "age: I64?"),
        changed("age: I32?", ""),
        ["node Person.age"],
    ),
    "a_rule_about_what_was_dropped": (
        changed("age: I32?", "age: I32?  @unique(age)"),
        changed("age: I32?", ""),
        ["node Person"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_schemas_that_do_not_go_together_are_refused_with_both_branches(
    graph: og.Graph, case: str
) -> None:
    ours, theirs, entities = REFUSED[case]
    graph.schema.apply(ours)
    graph.schema.apply(theirs, branch="draft")
    before = graph.snapshot().commit
    with pytest.raises(Conflict) as caught:
        graph.branches.merge("draft")
    assert caught.value.code is Code.MERGE_CONFLICT
    found: Any = caught.value.details["schema_conflicts"]
    assert [item["entity"] for item in found] == entities
    assert all("'main'" in item["reason"] and "'draft'" in item["reason"] for item in found)
    assert graph.snapshot().commit == before


def test_a_type_that_was_dropped_while_its_entities_changed_is_a_conflict(graph: og.Graph) -> None:
    graph.schema.apply(BEFORE.partition("edge")[0], branch="draft")
    change(graph, 'insert Knows { from: "Bo", to: "Cy" }')
    with pytest.raises(Conflict, match="'main' changed entities"):
        graph.branches.merge("draft")
    change(graph, 'delete Knows where from = "Bo"')
    graph.branches.merge("draft")
    assert set(graph.snapshot().counts) == {"node:Person"}


def test_rules_of_either_side_hold_for_the_result(graph: og.Graph) -> None:
    graph.schema.apply(changed("nick: String?", "nick: String? @unique"), branch="draft")
    change(graph, 'insert Person { name: "Di", nick: "b" }')
    with pytest.raises(Conflict, match=r"@unique violation on Person\.nick"):
        graph.branches.merge("draft")
    change(graph, 'update Person set { nick: "c" } where name = "Di"')
    graph.branches.merge("draft")
    graph.branches.create("other", at="main~1")
    change(graph, 'insert Person { name: "Ed", nick: "c" }', "other")
    with pytest.raises(Conflict, match=r"@unique violation on Person\.nick"):
        graph.branches.merge("other")


# -- taking back -----------------------------------------------------------------------------------


def test_the_revert_of_a_drop_brings_the_values_back(graph: og.Graph) -> None:
    graph.schema.apply(changed("nick: String?", ""))
    dropped = graph.snapshot().commit
    change(graph, 'update Person set { age: 3 } where name = "Bo"')
    graph.branches.revert(dropped)
    assert rows(graph, "Person", "age", "nick") == [
        ("Ada", 1, "a"),
        ("Bo", 3, "b"),
        ("Cy", None, None),
    ]


def test_the_revert_of_a_dropped_type_brings_its_entities_back(graph: og.Graph) -> None:
    graph.schema.apply(BEFORE.partition("edge")[0])
    graph.branches.revert(graph.snapshot().commit)
    assert og.open(graph.uri).snapshot().counts == {"node:Person": 3, "edge:Knows": 1}


def test_the_revert_of_new_names_and_types(graph: og.Graph) -> None:
    graph.schema.apply(AFTER)
    applied = graph.snapshot().commit
    change(graph, 'update Human set { age: 3, state: "x" } where name = "Bo"')
    graph.branches.revert(applied)
    assert rows(graph, "Person", "age", "nick")[1] == ("Bo", 3, "b")
    graph.schema.apply(AFTER)
    applied = graph.snapshot().commit
    change(graph, 'update Human set { age: 5000000000 } where name = "Bo"')
    with pytest.raises(Conflict, match=r"node Person\.age: 'main' has values that do not fit I32"):
        graph.branches.revert(applied)


def test_the_revert_of_new_values_of_an_enum_is_refused_while_rows_have_them(
    graph: og.Graph,
) -> None:
    graph.schema.apply(BEFORE + "enum State { old } node Pet { name: String @key  s: State? }")
    graph.load({"Pet": [{"name": "Rex", "s": "old"}]})
    more = graph.schema.show().replace("{ old }", "{ old, young }")
    applied = graph.schema.apply(more).commit
    assert applied is not None
    graph.load({"Pet": [{"name": "Tim", "s": "young"}]})
    with pytest.raises(Conflict, match=r"Tim"):
        graph.branches.revert(applied.id)
    change(graph, 'update Pet set { s: "old" } where name = "Tim"')
    graph.branches.revert(applied.id)
    assert rows(graph, "Pet", "s") == [("Rex", "old"), ("Tim", "old")]
    assert "young" not in graph.schema.show()


def test_values_that_one_side_gave_up_are_refused_where_the_other_has_them(
    graph: og.Graph,
) -> None:
    wider = 'node Pet { name: String @key  s: enum(a, b) @default("b") }'
    graph.schema.apply(BEFORE + "node Pet { name: String @key }")
    graph.load({"Pet": [{"name": "Rex"}]})
    graph.branches.create("old")
    graph.schema.apply(BEFORE + wider)
    change(graph, 'update Pet set { s: "a" } where name = "Rex"')
    graph.schema.apply(BEFORE + wider.replace("(a, b)", "(a)").replace('("b")', '("a")'))
    change(graph, 'insert Pet { name: "Tim" }', "old")
    # The row that `old` made would get the value that rows got once.
    with pytest.raises(Conflict, match=r"Tim"):
        graph.branches.merge("old")
    assert rows(graph, "Pet", "s") == [("Rex", "a")]


def test_a_reset_takes_the_schema_back_with_the_state(graph: og.Graph) -> None:
    graph.schema.apply(AFTER, branch="draft")
    change(graph, 'update Human set { age: 5000000000 } where name = "Bo"', "draft")
    change(graph, 'insert Human { name: "Di" }', "draft")
    graph.branches.reset("draft", to="main")
    assert graph.schema.show("draft") == BEFORE
    assert rows(graph, "Person", "age", "nick", branch="draft") == rows(
        graph, "Person", "age", "nick"
    )
    assert graph.diff("main", "draft").is_empty


@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize(("source", "into"), [("draft", "main"), ("main", "draft")])
def test_edges_of_a_type_that_one_side_declares_need_their_nodes(
    graph: og.Graph, source: str, into: str, side: Any
) -> None:
    graph.schema.apply(BEFORE + "edge Likes: Person -> Person @card(0..1)")
    graph.load({"Likes": [{"from": "Ada", "to": "Cy"}, {"from": "Bo", "to": "Ada"}]})
    change(graph, 'delete Person where name = "Cy"', "draft")
    found = graph.branches.merge(source, into=into, dry_run=True)
    assert [item.kind.value for item in found.conflicts] == ["orphan_edge"]
    with pytest.raises(Conflict):
        graph.branches.merge(source, into=into)
    graph.branches.merge(source, into=into, resolve=side)
    text = "query q() { match { $a likes $b } return { $a.name as a, $b.name as b } order { a } }"
    ends = [tuple(row.values()) for row in graph.query(text, branch=into)]
    stays = (side == "ours") == (into == "main")
    assert ends == ([("Ada", "Cy")] if stays else []) + [("Bo", "Ada")]
    assert graph.snapshot(into).counts["edge:Likes"] == len(ends)
