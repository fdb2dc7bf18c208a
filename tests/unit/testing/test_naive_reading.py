"""The naive evaluator against tables worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from omnigraph.errors import InvalidInput
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.testing.naive import Given, ModelGraph, evaluate

CATALOG = compile_schema("""
node P { name: String @key  age: I32?  tags: [String]?  born: Date? }
node C { name: String @key }
node D { slug: String @key  body: String?  v: Vector(2)?  w: Vector(2)? @metric(l2) }
edge Knows: P -> P { w: F64? }
edge Works: P -> C
edge Wrote: P -> D
""")


def nodes(*rows: dict[str, Any], key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: {"id": row[key], **row} for row in rows}


def edges(*rows: tuple[str, str, str], **columns: Any) -> dict[str, dict[str, Any]]:
    return {name: {"id": name, "src": src, "dst": dst, **columns} for name, src, dst in rows}


def person(name: str, age: int | None, *tags: str) -> dict[str, Any]:
    return {"name": name, "age": age, "tags": tags or None, "born": None}


# a -> b twice, b -> c, c -> a, c -> c, d alone; a company is called like a person.
GRAPH = ModelGraph(
    {
        "node:P": nodes(
            person("a", 30, "x", "y"),
            person("b", None),
            person("c", 20, "y"),
            person("d", 30),
            key="name",
        ),
        "node:C": nodes({"name": "a"}, {"name": "acme"}, key="name"),
        "node:D": nodes(
            {"slug": "d1", "body": "the quick graph", "v": (1.0, 0.0), "w": (1.0, 0.0)},
            {"slug": "d2", "body": "graph graph", "v": (0.0, 2.0), "w": (3.0, 0.0)},
            {"slug": "d3", "body": None, "v": (0.0, 0.0), "w": None},
            {"slug": "d4", "body": "", "v": None, "w": (1.0, 0.0)},
            key="slug",
        ),
        "edge:Knows": edges(
            ("k1", "a", "b"),
            ("k2", "a", "b"),
            ("k3", "b", "c"),
            ("k4", "c", "a"),
            ("k5", "c", "c"),
            w=0.5,
        ),
        "edge:Works": edges(("w1", "a", "a"), ("w2", "b", "acme")),
        "edge:Wrote": edges(("r1", "a", "d1"), ("r2", "a", "d2"), ("r3", "b", "d1")),
    }
)


def ask(text: str, **params: object) -> list[tuple[Any, ...]]:
    (plan,) = compile_queries(f"query q{text}", CATALOG)
    assert isinstance(plan, ReadPlan)
    found = evaluate(plan, GRAPH, Given(bind(plan.params, params), now_ms=7))
    return [tuple(row.values()) for row in found]


def names(match: str, *columns: str) -> list[tuple[Any, ...]]:
    return ask(f"() {{ match {{ {match} }} return {{ {', '.join(columns)} }} }}")


@pytest.mark.parametrize(
    ("match", "found"),
    [
        ("$x: P", ["a", "b", "c", "d"]),
        ("$x: P $x.age != 30", ["c"]),
        ("$x: P not ($x.age = 30)", ["c"]),
        ("$x: P $x.age = 30 or $x.age is null", ["a", "b", "d"]),
        ('$x: P $x.tags contains "y"', ["a", "c"]),
        ('$x: P not ($x.tags contains "y")', []),
        ("$x: P $x.age in []", []),
        ("$x: P not ($x.age in [])", ["a", "b", "c", "d"]),
        ("$x: P $x.age not in [20, 21]", ["a", "d"]),
        ("$x: P $x.age >= 29.5", ["a", "d"]),
        ('$x: P $x.name starts_with "a"', ["a"]),
        ('$x: P "abc" contains $x.name', ["a", "b", "c"]),
        ("$x: P not { $x knows $_ }", ["d"]),
        ("$x: P not { $_ knows $x }", ["d"]),
        ("$x: P not { $x knows $y $y.age is null }", ["b", "c", "d"]),
        ("$x: P not { not { $x knows $_ } }", ["a", "b", "c"]),
        ("$x: P not { $x.age > 25 }", ["b", "c"]),
        ("$x: P $x knows $x", ["c"]),
        ("$x: P $x knows {1,3} $x", ["c"]),
        ("$x: P $x knows {2,3} $x", []),
        ("$x: P $x <knows> $x", ["c"]),
    ],
)
def test_what_a_pattern_keeps(match: str, found: list[str]) -> None:
    assert names(match, "$x.name") == [(name,) for name in found]


@pytest.mark.parametrize(
    ("hop", "found"),
    [
        ("$x knows $y", "ab bc ca cc"),
        ("$y knows $x", "ac ba cb cc"),
        ("$x <knows> $y", "ab ac ba bc ca cb cc"),
        ("$x knows {1,2} $y", "ab ac ba bc ca cb cc"),
        ("$x knows {2,2} $y", "ac ba cb"),
        ("$x knows {2,5} $y", "ac ba cb"),
        ("$x <knows> {2,2} $y", ""),
        ("$x $e: knows $y", "ab ab bc ca cc"),
        ("$x $e: <knows> $y", "ab ab ac ba ba bc cb ca cc"),
        ("$x knows $y $y knows $x", "cc"),
        ("$x knows $m $m knows $y", "ac ba bc cb ca cc"),
    ],
)
def test_which_nodes_an_edge_joins(hop: str, found: str) -> None:
    assert names(f"$x: P {hop}", "$x.name", "$y.name") == [tuple(pair) for pair in found.split()]


def test_types_that_share_ids_stay_apart() -> None:
    assert names("$x: P $x works $c", "$x.name", "$c.name") == [("a", "a"), ("b", "acme")]
    assert names("$x: P $x works {1,3} $c", "$x.name", "$c.name") == [("a", "a"), ("b", "acme")]
    assert names("$x: P $x works {2,3} $c", "$x.name") == []
    assert names("$c: C $x works $c not { $x wrote $_ }", "$c.name") == []


def test_parts_that_nothing_joins_are_multiplied() -> None:
    assert len(names("$x: P $c: C", "$x.name")) == 8
    assert names("$x: P $c: C $x.name = $c.name", "$x", "$c.name") == [
        ({"id": "a", "age": 30, "born": None, "name": "a", "tags": ("x", "y")}, "a")
    ]


def test_an_optional_block_keeps_its_row() -> None:
    found = names("$x: P optional { $x works $c }", "$x.name", "$c.name", "$c.id")
    assert found == [("a", "a", "a"), ("b", "acme", "acme"), ("c", None, None), ("d", None, None)]
    assert names("$x: P optional { $x works $c } not { $c: C }", "$x.name") == [("c",), ("d",)]
    chained = "$x: P optional { $x works $c } optional { $y works $c $y.age = 30 }"
    assert names(chained, "$x.name", "$y.name") == [
        ("a", "a"),
        ("b", None),
        ("c", None),
        ("d", None),
    ]


def test_aggregates_skip_nulls_and_group_by_the_rest() -> None:
    total = "count($x), count($x.age), count(distinct $x.age), sum($x.age), avg($x.age)"
    assert names("$x: P", total, "min($x.age)", "max($x.name)") == [
        (4, 3, 2, 80.0, 80 / 3, 20, "d")
    ]
    assert names("$x: P $x.age > 99", "count($x), sum($x.age), min($x.name)") == [(0, None, None)]
    assert names("$x: P $x.age > 99", "$x.age, count($x)") == []
    assert names("$x: P", "$x.age, count($x)") == [(None, 1), (20, 1), (30, 2)]
    assert names("$x: P $x $e: knows $y", "$y, count($e), sum($e.w)")[0] == (
        {"id": "a", "age": 30, "born": None, "name": "a", "tags": ("x", "y")},
        1,
        0.5,
    )


@pytest.mark.parametrize(
    ("tail", "found"),
    [
        ("order { $x.age }", "bcad"),
        ("order { $x.age desc }", "adcb"),
        ("order { $x.age desc, $x.name desc }", "dacb"),
        ("order { $x.age } limit 2 offset 1", "ca"),
        ("limit 0", ""),
        ("offset 3", "d"),
        ("offset 9", ""),
    ],
)
def test_the_order_is_total(tail: str, found: str) -> None:
    assert ask(f"() {{ match {{ $x: P }} return {{ $x.name }} {tail} }}") == [
        (name,) for name in found
    ]


def test_distinct_results_are_ordered_by_their_columns() -> None:
    text = "() { match { $x: P } return distinct { $x.age } }"
    assert ask(text) == [(None,), (20,), (30,)]
    text = "() { match { $x: P $y: P } return distinct { $x.tags } }"
    assert ask(text) == [(None,), (("x", "y"),), (("y",),)]
    text = "() { match { $x knows $y } return distinct { $y } order { $y.age desc } }"
    assert [row[0]["name"] for row in ask(text)] == ["a", "c", "b"]


def test_parameters_constants_and_the_moment_are_values() -> None:
    text = "($n: I64, $m: I32?) { match { $x: C } return { $n, $m, 1, now() } limit $n }"
    assert ask(text, n=1) == [(1, None, 1, 7)]
    with pytest.raises(InvalidInput):
        ask(text, n=-1)


@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        ('search($d.body, "GRAPHS quick")', ["d1", "d2"]),
        ('search($d.body, "quickly")', ["d1"]),
        ('search($d.body, "qick")', []),
        ('search($d.body, "the")', ["d1"]),
        ('search($d.body, "--")', []),
        ('not search($d.body, "quick")', ["d2", "d4"]),
        ('match_text($d.body, "quick graphs")', ["d1"]),
        ('match_text($d.body, "graph quick")', []),
        ('match_text($d.body, "")', []),
        ('fuzzy($d.body, "grph")', ["d1", "d2"]),
        ('fuzzy($d.body, "qick", 1)', ["d1"]),
        ('fuzzy($d.body, "qick", 0)', []),
        ('search($d.body, "graph") and search($d.body, "quick")', ["d1"]),
    ],
)
def test_text_predicates(predicate: str, found: list[str]) -> None:
    assert names(f"$d: D {predicate}", "$d.slug") == [(slug,) for slug in found]


def test_bm25_is_the_formula() -> None:
    # Three texts of 3, 2 and 0 words; `graph` is in two of them, `quick` in one.
    common, rare = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    longer, shorter = 1.2 * (0.25 + 0.75 * 3 / (5 / 3)), 1.2 * (0.25 + 0.75 * 2 / (5 / 3))
    first = common * 2.2 / (1 + longer) + rare * 2.2 / (1 + longer)
    second = common * 2 * 2.2 / (2 + shorter)
    text = '() { match { $d: D } return { $d.slug, bm25($d.body, "quick graph graph") as s } '
    assert ask(text + "order { s } }") == [
        ("d1", pytest.approx(first)),
        ("d2", pytest.approx(second)),
        ("d3", None),
        ("d4", None),
    ]
    # What a filter takes away does not change what is left.
    filtered = ask(text.replace("$d: D", '$d: D { slug: "d2" }') + "order { s } }")
    assert filtered == [("d2", pytest.approx(second))]


@pytest.mark.parametrize(
    ("column", "vector", "found"),
    [
        ("v", "[1.0, 0.0]", [("d1", 0.0), ("d2", 1.0), ("d3", None), ("d4", None)]),
        ("v", "[0.0, 0.0]", [("d1", None), ("d2", None), ("d3", None), ("d4", None)]),
        ("w", "[2.0, 2.0]", [("d1", 5.0), ("d2", 5.0), ("d4", 5.0), ("d3", None)]),
    ],
)
def test_nearest_is_a_distance(column: str, vector: str, found: list[tuple[str, float]]) -> None:
    ranking = f"nearest($d.{column}, {vector})"
    text = f"() {{ match {{ $d: D }} return {{ $d.slug, {ranking} as s }} order {{ s }} limit 9 }}"
    assert ask(text) == found


def test_fusion_adds_reciprocal_ranks() -> None:
    ranking = 'rrf(bm25($d.body, "graph"), nearest($d.w, [3.0, 0.0]), 10)'
    text = f"() {{ match {{ $d: D }} return {{ $d.slug, {ranking} as s }} order {{ s }} limit 9 }}"
    # By text: d2, d1. By distance: d2, then d1 and d4 at one distance.
    assert ask(text) == [
        ("d2", pytest.approx(2 / 11)),
        ("d1", pytest.approx(2 / 12)),
        ("d4", 1 / 13),
        ("d3", None),
    ]
    # An entity ranks once, however many rows have it.
    joined = text.replace("$d: D", "$p wrote $d").replace("$d.slug", "$p.name, $d.slug")
    assert ask(joined) == [
        ("a", "d2", pytest.approx(2 / 11)),
        ("a", "d1", pytest.approx(2 / 12)),
        ("b", "d1", pytest.approx(2 / 12)),
    ]
