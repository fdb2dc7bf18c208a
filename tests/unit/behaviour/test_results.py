"""Aggregates, distinct rows, order, limit and offset."""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.behaviour import Make, ask, change, match

AGES = "count($p), count($p.age), count(distinct $p.age), sum($p.age), avg($p.age), min($p.age)"


def test_aggregates_skip_nulls(people: og.Graph) -> None:
    assert match(people, "$p: Person", AGES) == [(4, 3, 2, 86.0, pytest.approx(86 / 3), 25)]
    assert match(people, "$p: Person", "min($p.name), max($p.city)") == [("Ada", "Rome")]


def test_aggregates_of_nothing(people: og.Graph) -> None:
    assert match(people, "$p: Person $p.age > 99", AGES) == [(0, 0, 0, None, None, None)]
    assert match(people, "$p: Person $p.age > 99", "$p.city, count($p)") == []
    assert match(people, '$p: Person { name: "Dan" }', "sum($p.age), count($p)") == [(None, 1)]


def test_groups(people: og.Graph) -> None:
    assert match(people, "$p: Person", "$p.city, count($p) as n, avg($p.age) as age") == [
        ("Acme", 1, None),
        ("London", 1, 36.0),
        ("Rome", 2, 25.0),
    ]
    assert match(people, "$p: Person", "$p.age, count($p) as n", "order { n desc } limit 1") == [
        (25, 2)
    ]
    whole = match(
        people, "$c: Company $c worksAt $p", "$c, count($p) as n", "order { n desc, $c.name desc }"
    )
    assert [(company["name"], n) for company, n in whole] == [("Acme", 2), ("Ada", 1)]
    assert match(people, "$p: Person", "$p.tags, count($p)") == [
        (None, 2),
        ([], 1),
        (["math", "code"], 1),
    ]


def test_edges_count_once_each_only_when_they_are_named(people: og.Graph) -> None:
    assert match(people, '$a: Person { name: "Ada" } $a knows $b', "count($b)") == [2]
    assert match(people, '$a: Person { name: "Ada" } $a $k: knows $b', "count($b)") == [3]
    named = '$a: Person { name: "Ada" } $a $k: knows $b'
    assert match(people, named, "$b.name, count($k), max($k.since)")[0][:2] == ("Bob", 2)
    two = "$a: Person $a knows $b $b knows $c"
    assert match(people, two, "$a.name, count($c), count(distinct $c)") == [
        ("Ada", 3, 2),
        ("Bob", 2, 2),
        ("Cid", 4, 3),
    ]


def test_optional_values_in_aggregates(people: og.Graph) -> None:
    found = match(people, "$c: Company optional { $c worksAt $p }", "$c.name, count($p) as n")
    assert found == [("Acme", 2), ("Ada", 1), ("Zeta", 0)]


def test_aggregates_of_every_ordered_type(make: Make) -> None:
    graph = make("node T { k: I32 @key  d: Date?  m: DateTime?  b: Bool?  u: U64?  f: F32? }")
    change(
        graph,
        'insert T { k: 1, d: date("2024-01-01"), b: false, u: 18446744073709551615, f: 0.5 } '
        'insert T { k: 2, d: date("2023-01-01"), b: true, u: 1, f: 0.25 } insert T { k: 3 }',
    )
    ((day, moment, truth, huge, total),) = match(
        graph, "$t: T", "min($t.d), max($t.m), max($t.b), max($t.u), sum($t.f)"
    )
    assert (str(day), moment, truth, huge, total) == ("2023-01-01", None, True, 2**64 - 1, 0.75)


def test_distinct(people: og.Graph) -> None:
    text = "match { $p: Person } return distinct { $p.age }"
    assert ask(people, text) == [(None,), (25,), (36,)]
    assert ask(people, text + " order { $p.age desc } limit 2") == [(36,), (25,)]
    pairs = "match { $a knows $b } return distinct { $b.city }"
    assert ask(people, pairs) == [("London",), ("Rome",)]


@pytest.mark.parametrize(
    ("tail", "found"),
    [
        ("", "Ada Bob Cid Dan"),
        ("order { $p.age }", "Dan Bob Cid Ada"),
        ("order { $p.age desc }", "Ada Bob Cid Dan"),
        ("order { $p.age, $p.name desc }", "Dan Cid Bob Ada"),
        ("order { $p.city desc, $p.age desc, $p.name desc }", "Cid Bob Ada Dan"),
        ("order { $p.id desc }", "Dan Cid Bob Ada"),
        ("order { $p.age } limit 2", "Dan Bob"),
        ("order { $p.age } limit 2 offset 1", "Bob Cid"),
        ("limit 0", ""),
        ("offset 4", ""),
        ("limit 9223372036854775807 offset 3", "Dan"),
    ],
)
def test_order_limit_offset(people: og.Graph, tail: str, found: str) -> None:
    assert match(people, "$p: Person", "$p.name", tail) == found.split()


def test_pages_neither_overlap_nor_lose_rows(people: og.Graph) -> None:
    text = "match { $a: Person $b: Person } return { $a.name, $b.name } order { $a.age } "
    whole = ask(people, text)
    paged = [
        row
        for page in range(6)
        for row in ask(
            people, text + "limit $n offset $o", types="$n: I32, $o: U64", n=3, o=3 * page
        )
    ]
    assert paged == whole
    assert len(whole) == 16


def test_bounds_must_not_be_negative(people: og.Graph) -> None:
    for tail in ("limit $n", "offset $n"):
        with pytest.raises(og.errors.InvalidInput):
            ask(
                people, f"match {{ $p: Person }} return {{ $p.name }} {tail}", types="$n: I32", n=-1
            )


def test_parallel_edges_are_ordered_by_their_ids(people: og.Graph) -> None:
    pattern = '$a: Person { name: "Ada" } $a $k: knows $b $b.name = "Bob"'
    ids = match(people, pattern, "$k.id")
    assert ids == sorted(ids)
    assert len(set(ids)) == 2
