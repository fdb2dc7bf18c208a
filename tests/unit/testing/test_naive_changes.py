"""The naive writer against changes worked out by hand."""

from __future__ import annotations

from itertools import count

import pytest

from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.ir.ops import MutationPlan
from omnigraph.lang.query.params import bind
from omnigraph.testing.naive import Broken, Given, ModelGraph, Outcome, Refused, apply

CATALOG = compile_schema("""
enum S { on, off }
node P {
  name: String @key
  age: I32? @unique
  s: S @default("on")
  @range(age, 0..9)
  @check(name, "^.")
}
node R { house: String  day: Date  x: F32  @key(house, day, x) }
node U { title: String? }
edge Knows: P -> P @card(0..2)
edge Owns: P -> R @card(1..) { note: String?  @key(src, dst) }
edge Sees: U -> P
""")


class Desk:
    """A graph that statements change."""

    def __init__(self) -> None:
        self.graph = ModelGraph()
        self.ids = map("u{}".format, count())

    def do(self, statements: str, **params: tuple[str, object]) -> tuple[int, int]:
        declared = ", ".join(f"${name}: {kind}" for name, (kind, _) in params.items())
        values = {name: value for name, (_, value) in params.items()}
        (plan,) = compile_queries(f"query q({declared}) {{ {statements} }}", CATALOG)
        assert isinstance(plan, MutationPlan)
        given = Given(bind(plan.params, values), now_ms=7)
        outcome: Outcome = apply(plan, self.graph, CATALOG, given, lambda: next(self.ids))
        self.graph = outcome.graph
        return outcome.affected_nodes, outcome.affected_edges

    def refused(self, statements: str) -> set[tuple[str, str, str]]:
        before = self.graph
        with pytest.raises(Refused) as caught:
            self.do(statements)
        assert self.graph is before
        return {(item.rule, item.type_name, item.id) for item in caught.value.broken}

    def ids_of(self, key: str) -> list[str]:
        return sorted(self.graph.tables.get(key, {}))


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.do('insert P { name: "a", age: 1 } insert P { name: "b" } insert P { name: "c", age: 3 }')
    return made


def test_ids_follow_from_keys_or_are_new(desk: Desk) -> None:
    assert desk.ids_of("node:P") == ["a", "b", "c"]
    desk.do('insert R { house: "h,\\"", day: date("1970-01-11"), x: 0.1 }')
    assert desk.ids_of("node:R") == ['["10","h,\\"","0.1"]']  # by property: day, house, x
    desk.do('insert U { title: "t" } insert U { title: "t" }')
    assert desk.ids_of("node:U") == ["u0", "u1"]


def test_a_keyed_insert_replaces_the_whole_row(desk: Desk) -> None:
    assert desk.do('insert P { name: "a", s: "off" }') == (1, 0)
    assert desk.graph.tables["node:P"]["a"] == {"id": "a", "name": "a", "age": None, "s": "off"}


def test_statements_see_earlier_ones_and_count_once(desk: Desk) -> None:
    done = desk.do(
        'insert P { name: "d" } update P set { age: 7 } where name = "d" '
        'insert Knows { from: "d", to: "a" }'
    )
    assert done == (1, 1)
    assert desk.graph.tables["node:P"]["d"]["age"] == 7
    # A value that one statement frees, the next may take.
    assert desk.do(
        'update P set { age: 2 } where name = "a" update P set { age: 1 } where name = "c"'
    ) == (2, 0)


def test_unknown_is_not_selected(desk: Desk) -> None:
    assert desk.do('update P set { s: "off" } where age != 1') == (1, 0)
    assert desk.do("delete P where not (age = 1)") == (1, 0)
    assert desk.do("delete P where age = 5") == (0, 0)
    assert desk.ids_of("node:P") == ["a", "b"]


def test_edges_go_with_their_nodes(desk: Desk) -> None:
    desk.do('insert U { title: "t" }')
    desk.do(
        'insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "a" } '
        'insert Knows { from: "b", to: "b" } insert Sees { from: "u0", to: "b" }'
    )
    assert desk.do('delete P where name = "b" delete Knows where from = "b"') == (1, 4)
    assert desk.ids_of("edge:Knows") == desk.ids_of("edge:Sees") == []


@pytest.mark.parametrize(
    ("statements", "broken"),
    [
        ('insert P { name: "z", age: 10 }', {("range", "P", "z")}),
        ('insert P { name: "" }', {("check", "P", "")}),
        ('insert P { name: "z", age: 3 }', {("unique", "P", "c")}),
        ('insert Knows { from: "a", to: "z" }', {("endpoint", "Knows", "u0")}),
        ('update P set { age: 4 } where name != ""', {("unique", "P", "a")}),
    ],
)
def test_rules_refuse_the_whole_change(
    desk: Desk, statements: str, broken: set[tuple[str, str, str]]
) -> None:
    assert desk.refused(f'insert U {{ title: "t" }} {statements}') == {
        (rule, name, "u1" if name == "Knows" else entity) for rule, name, entity in broken
    }


def test_cardinality_is_asked_of_touched_sources(desk: Desk) -> None:
    link = 'insert Knows { from: "a", to: "b" } '
    assert desk.refused(link * 3) == {("cardinality", "Knows", "a")}
    desk.do('insert R { house: "h", day: date("1970-01-01"), x: 1.0 }')
    (room,) = desk.ids_of("node:R")
    desk.do('insert Owns { from: "a", to: $r }', r=("String", room))
    assert desk.do('insert Owns { from: "a", to: $r }', r=("String", room)) == (0, 1)
    assert desk.ids_of("edge:Owns") == [f'["a",{_quoted(room)}]']
    # `b` owns nothing and is not asked; `a` would lose its last one.
    assert desk.refused('delete Owns where from = "a"') == {("cardinality", "Owns", "a")}
    assert desk.do('delete P where name = "a"') == (1, 1)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_null_for_a_required_property_is_a_broken_rule(desk: Desk) -> None:
    text = 'insert P { name: $n } insert P { name: "x", s: $s }'
    with pytest.raises(Refused) as caught:
        desk.do(text, n=("String?", None), s=("String?", None))
    assert caught.value.broken == (Broken("required", "P", ""), Broken("required", "P", "x"))
