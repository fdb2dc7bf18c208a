"""Rules of the schema: what breaks them, and what only looks as if it did."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph.errors import ConstraintViolated
from tests.behaviour import Make, change, match, rules

SCHEMA = """
enum Status { active, left }
node Person {
  name: String @key
  email: String? @unique
  born: Date? @unique
  first: String?
  last: String?
  age: I32?
  score: F64?
  status: Status @default("active")
  @unique(first, last)
  @range(age, 0..150)
  @range(score, -1.5..)
  @check(name, "^[a-z]+$")
}
node Room { number: I32 @key }
edge Owns: Person -> Room @card(0..2)
edge Manages: Person -> Person @card(2..)
"""


@pytest.fixture
def graph(make: Make) -> og.Graph:
    made = make(SCHEMA)
    change(
        made,
        'insert Person { name: "ada", email: "a@x", first: "A", last: "B|C", age: 36 } '
        'insert Person { name: "bob", email: "b@x", first: "A|B", last: "C" } '
        'insert Person { name: "cid" } insert Room { number: 1 } insert Room { number: 2 } '
        "insert Room { number: 3 }",
    )
    return made


def broken(
    graph: og.Graph, statements: str, types: str = "", **params: object
) -> ConstraintViolated:
    head = graph.commits.list()[0].id
    with pytest.raises(ConstraintViolated) as caught:
        change(graph, statements, types=types, **params)
    assert graph.commits.list()[0].id == head
    return caught.value


@pytest.mark.parametrize(
    ("statements", "rule"),
    [
        ('insert Person { name: "eve", age: -1 }', "range"),
        ('insert Person { name: "eve", age: 151 }', "range"),
        ('insert Person { name: "eve", score: -1.6 }', "range"),
        ('update Person set { age: 151 } where name = "ada"', "range"),
        ('insert Person { name: "Eve" }', "check"),
        ('insert Person { name: "eve\\n" }', "check"),
        ('insert Person { name: "eve", email: "a@x" }', "unique"),
        ('update Person set { email: "a@x" } where name = "cid"', "unique"),
        ('update Person set { email: "new" } where name != "ada"', "unique"),
        ('insert Person { name: "eve", first: "A", last: "B|C" }', "unique"),
        (
            'insert Person { name: "eve", born: date("2000-01-01") } '
            'insert Person { name: "eva", born: date("2000-01-01") }',
            "unique",
        ),
    ],
)
def test_a_broken_rule_refuses_the_change(graph: og.Graph, statements: str, rule: str) -> None:
    assert rules(broken(graph, statements)) == {(rule, "Person")}


@pytest.mark.parametrize(
    "statements",
    [
        'insert Person { name: "eve", age: 0 }',
        'insert Person { name: "eve", age: 150, score: -1.5 }',
        'insert Person { name: "eve" } insert Person { name: "eva" }',
        'insert Person { name: "ada", email: "a@x", first: "A", last: "B|C" }',
        'insert Person { name: "eve", first: "A" }',
        'insert Person { name: "eve", first: "A", last: "B" }',
        'update Person set { email: "n" } where name = "ada" '
        'update Person set { email: "a@x" } where name = "bob"',
        'update Person set { email: null } where name = "ada" '
        'insert Person { name: "eve", email: "a@x" }',
    ],
)
def test_what_is_allowed(graph: og.Graph, statements: str) -> None:
    nodes, _ = change(graph, statements)
    assert nodes > 0


def test_enum_and_required_values_are_checked_when_they_are_known(graph: og.Graph) -> None:
    insert = 'insert Person { name: "eve", status: $s }'
    error = broken(graph, insert, types="$s: String", s="gone")
    assert rules(error) == {("enum", "Person")}
    assert "active" in str(error.violations[0]["message"])
    assert rules(broken(graph, insert, types="$s: String?", s=None)) == {("required", "Person")}
    insert = "insert Person { name: $n }"
    assert rules(broken(graph, insert, types="$n: String?", n=None)) == {("required", "Person")}
    with pytest.raises(og.errors.InvalidInput):
        change(graph, 'insert Person { name: "eve", status: "gone" }')


def test_a_number_too_wide_for_its_property_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.errors.InvalidInput, match="age"):
        change(graph, 'insert Person { name: "eve", age: $a }', types="$a: I64", a=2**31)


def test_all_violations_are_told(graph: og.Graph) -> None:
    error = broken(
        graph,
        'insert Person { name: "Eve", age: 151 } insert Person { name: "eva", email: "a@x" } '
        'insert Owns { from: "xi", to: "9" }',
    )
    found = [(item["rule"], item["type"], item["properties"]) for item in error.violations]
    assert found == [
        ("range", "Person", ["age"]),
        ("check", "Person", ["name"]),
        ("unique", "Person", ["email"]),
        ("endpoint", "Owns", ["dst"]),
        ("endpoint", "Owns", ["src"]),
    ]


def test_ends_must_exist(graph: og.Graph) -> None:
    error = broken(graph, 'insert Owns { from: "ada", to: "9" }')
    assert rules(error) == {("endpoint", "Owns")}
    assert "9" in str(error.violations[0]["message"])
    assert rules(broken(graph, 'insert Owns { from: "1", to: "1" }')) == {("endpoint", "Owns")}
    # What the same query makes is there.
    assert change(
        graph,
        'insert Owns { from: "eve", to: "9" } insert Person { name: "eve" } '
        "insert Room { number: 9 }",
    ) == (2, 1)


def test_at_most_so_many_edges(graph: og.Graph) -> None:
    own = 'insert Owns { from: "ada", to: "%d" }'
    change(graph, own % 1 + " " + own % 2)
    assert rules(broken(graph, own % 3)) == {("cardinality", "Owns")}
    # One goes, another may come; that another has many is not asked.
    change(graph, 'delete Owns where from = "ada" and to = "1"')
    assert change(graph, own % 3) == (0, 1)


def test_at_least_so_many_edges(graph: og.Graph) -> None:
    # Nobody manages anybody: that is fine until somebody begins to.
    manage = 'insert Manages { from: "ada", to: "%s" } '
    assert rules(broken(graph, manage % "bob")) == {("cardinality", "Manages")}
    change(graph, manage % "bob" + manage % "cid")
    assert rules(broken(graph, 'delete Manages where to = "bob"')) == {("cardinality", "Manages")}
    assert rules(broken(graph, 'delete Person where name = "bob"')) == {("cardinality", "Manages")}
    # With its source the rule goes as well.
    assert change(graph, 'delete Person where name = "ada"') == (1, 2)
    assert match(graph, "$p: Person", "$p.name") == ["bob", "cid"]


def test_ends_stay_when_somebody_else_deletes_them(graph: og.Graph) -> None:
    with og.open(graph.uri) as other:
        other.snapshot()
        change(graph, 'delete Person where name = "cid"')
        with pytest.raises(ConstraintViolated):
            change(other, 'insert Owns { from: "cid", to: "1" }')
