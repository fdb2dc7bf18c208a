"""The rules of the schema, judged once on what a query leaves: all violations, nothing stored."""

from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import ConstraintViolated
from tests.unit.exec.mutate.support import Lab, counts, lab

SCHEMA = """
node Item {
    name: String @key
    code: String? @check(code, "^[a-z]+$")
    price: F64? @range(price, 0..100)
    kind: enum(big, small)?
    slot: I32?
    shelf: I32?
    day: Date? @unique
    needed: String
    @unique(shelf, slot)
}
node Box { name: String @key }
edge In: Item -> Box @card(0..2)
edge On: Item -> Box { place: String? @unique  @key(src, dst) }
"""
ITEM = "node:Item"


@pytest.fixture
def graph(tmp_path: Path) -> Lab:
    found = lab(tmp_path, SCHEMA)
    found.run(
        """insert Item { name: "a", shelf: 1, slot: 1, needed: "", day: date("2020-01-01") }
           insert Item { name: "b", shelf: 1, slot: 2, needed: "" }
           insert Box { name: "x" } insert Box { name: "y" }
           insert In { from: "a", to: "x" }
           insert On { from: "a", to: "x", place: "top" }"""
    )
    return found


def broken(graph: Lab, body: str, given: dict[str, Any] | None = None, params: str = "") -> Any:
    before = graph.repo.snapshot().head
    with pytest.raises(ConstraintViolated) as caught:
        graph.run(body, given, params=params)
    assert graph.repo.snapshot().head == before
    return {(each["rule"], each["type"], each["id"]) for each in caught.value.violations}


def test_every_broken_rule_is_reported(graph: Lab) -> None:
    found = broken(
        graph,
        """insert Item { name: "n", code: "A1", price: 101.0, kind: $k, needed: $none }
           insert Item { name: "m", shelf: 1, slot: 2, needed: "", day: date("2020-01-01") }
           insert In { from: "n", to: "nowhere" }
           insert In { from: "n", to: "x" } insert In { from: "n", to: "y" }""",
        {"k": "huge", "none": None},
        params="$k: String, $none: String?",
    )
    edges = {each for each in found if each[1] == "In" and each[0] == "endpoint"}
    assert len(edges) == 1
    assert found - edges == {
        ("required", "Item", "n"),
        ("enum", "Item", "n"),
        ("range", "Item", "n"),
        ("check", "Item", "n"),
        ("unique", "Item", "m"),
        ("cardinality", "In", "n"),
    }


def test_uniqueness_counts_what_is_committed(graph: Lab) -> None:
    assert broken(graph, "update Item set { slot: 1 } where slot = 2") == {("unique", "Item", "b")}
    assert broken(graph, 'update Item set { shelf: 9, slot: 9 } where needed = ""')
    assert broken(graph, 'update Item set { day: date("2020-01-01") } where name = "b"')
    taken = 'insert Item { name: "c", shelf: 1, slot: 1, needed: "" }'
    assert broken(graph, taken) == {("unique", "Item", "c")}


def test_a_tuple_with_a_missing_value_is_exempt(graph: Lab) -> None:
    graph.run('update Item set { slot: $none } where needed = ""', params="$none: I32?")
    assert graph.column(ITEM, "shelf") == {"a": 1, "b": 1}
    assert graph.column(ITEM, "slot") == {"a": None, "b": None}


def test_values_are_freed_and_taken_in_one_query(graph: Lab) -> None:
    graph.run(
        """update Item set { slot: 3 } where name = "a"
           update Item set { slot: 1 } where name = "b"
           update Item set { slot: 2 } where name = "a" """
    )
    assert graph.column(ITEM, "slot") == {"a": 2, "b": 1}
    # The image that replaces an entity frees what its old one held.
    graph.run(
        """insert Item { name: "a", needed: "" }
           insert Item { name: "c", shelf: 1, slot: 2, needed: "" }"""
    )
    assert graph.column(ITEM, "slot") == {"a": None, "b": 1, "c": 2}


def test_ends_may_be_made_by_the_same_query(graph: Lab) -> None:
    done = graph.run(
        """insert In { from: "late", to: "x" }
           insert Item { name: "late", needed: "" }"""
    )
    assert counts(done) == (1, 1)


@pytest.mark.parametrize("ends", [("a", "nowhere"), ("nobody", "x"), ("nobody", "nowhere")])
def test_ends_must_exist(graph: Lab, ends: tuple[str, str]) -> None:
    with pytest.raises(ConstraintViolated) as caught:
        graph.run(
            "insert In { from: $a, to: $b }",
            {"a": ends[0], "b": ends[1]},
            params="$a: String, $b: String",
        )
    told = {(str(each["message"])[:3], each["value"]) for each in caught.value.violations}
    known = {"a", "x"}
    assert told == {
        (end, name) for end, name in zip(("src", "dst"), ends, strict=True) if name not in known
    }


def test_a_minimum_and_a_maximum_count_what_is_there(graph: Lab) -> None:
    graph.run('insert In { from: "a", to: "y" }')
    assert broken(graph, 'insert In { from: "a", to: "y" }') == {("cardinality", "In", "a")}
    # An upsert does not add one.
    graph.run('insert On { from: "a", to: "x", place: "side" }')
    assert broken(graph, 'insert On { from: "b", to: "x", place: "side" }')


def test_an_update_is_judged_by_rows_too(graph: Lab) -> None:
    assert broken(graph, "update Item set { price: -1.0 } where slot = 1") == {
        ("range", "Item", "a")
    }
    none = "update Item set { needed: $none } where slot = 1"
    assert broken(graph, none, params="$none: String?") == {("required", "Item", "a")}


def test_a_key_without_a_value_identifies_nothing(graph: Lab) -> None:
    found = broken(
        graph,
        """insert Item { name: $none, needed: $none } insert Item { name: $none, needed: "" }
           insert On { from: $none, to: "nowhere" }""",
        params="$none: String?",
    )
    assert found == {("required", "Item", None), ("required", "On", None), ("endpoint", "On", None)}


def test_a_failure_leaves_nothing_of_the_whole_query(graph: Lab) -> None:
    broken(
        graph,
        'insert Item { name: "good", needed: "" } insert In { from: "good", to: "nowhere" }',
    )
    assert "good" not in graph.rows(ITEM)
