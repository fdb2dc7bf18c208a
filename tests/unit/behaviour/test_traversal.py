"""Following edges: which way, how far, how often."""

from __future__ import annotations

import pytest

import omnigraph as og
from tests.behaviour import Make, change, match


@pytest.mark.parametrize(
    ("hop", "pairs"),
    [
        ("$a knows $b", "AB AC BC CA CC"),
        ("$b knows $a", "AC BA CA CB CC"),
        ("$a <knows> $b", "AB AC BA BC CA CB CC"),
        ("$a knows {1,1} $b", "AB AC BC CA CC"),
        ("$a knows {1,2} $b", "AB AC BA BC CA CB CC"),
        ("$a knows {2,2} $b", "BA CB"),
        ("$a knows {2,9} $b", "BA CB"),
        ("$a <knows> {2,3} $b", ""),
        ("$a $k: knows $b", "AB AB AC BC CA CC"),
        ("$a knows $b $b knows $a", "AC CA CC"),
        ("$a knows $m $m knows $b", "AA AC AC BA BC CA CB CC CC"),
    ],
)
def test_people_who_know(people: og.Graph, hop: str, pairs: str) -> None:
    found = match(people, f"$a: Person {hop}", "$a.name, $b.name")
    assert sorted(a[0] + b[0] for a, b in found) == pairs.split()


@pytest.mark.parametrize(
    ("hop", "names"),
    [
        ("$a knows $a", ["Cid"]),
        ("$a <knows> $a", ["Cid"]),
        ("$a knows {1,4} $a", ["Cid"]),
        ("$a knows {2,4} $a", []),
    ],
)
def test_a_node_meets_itself_only_by_its_own_edge(
    people: og.Graph, hop: str, names: list[str]
) -> None:
    assert match(people, f"$a: Person {hop}", "$a.name") == names


def test_the_direction_follows_from_the_types(people: og.Graph) -> None:
    employees = match(people, '$c: Company { name: "Acme" } $c worksAt $p', "$p.name")
    assert employees == match(people, '$p worksAt $c $c.name = "Acme"', "$p.name") == ["Ada", "Bob"]


def test_equal_ids_of_two_types_are_two_nodes(people: og.Graph) -> None:
    # There is a person and a company called Ada.
    assert match(people, '$p: Person { name: "Cid" } $p worksAt $c', "$c.name") == ["Ada"]
    assert match(people, '$c: Company { name: "Ada" } $c worksAt $p', "$p.name") == ["Cid"]
    through = match(people, '$p: Person { name: "Cid" } $p worksAt $c $q worksAt $c', "$q.name")
    assert through == ["Cid"]
    assert match(people, '$p: Person { name: "Cid" } $p worksAt {1,3} $c', "$c.name") == ["Ada"]


def test_a_filter_at_the_far_end_or_on_the_way(people: og.Graph) -> None:
    assert match(people, "$a: Person $a knows $b $b.age > 30", "$a.name") == ["Cid"]
    way = '$a: Person { name: "Ada" } $a knows $m $m knows $b $m.city = "Rome" $b.age > 30'
    assert match(people, way, "$m.name, $b.name") == [("Cid", "Ada")]


def test_two_targets_of_one_source_are_multiplied(people: og.Graph) -> None:
    found = match(
        people, '$a: Person { name: "Ada" } $a knows $b $a worksAt $c', "$b.name, $c.name"
    )
    assert found == [("Bob", "Acme"), ("Cid", "Acme")]
    assert len(match(people, '$a: Person { name: "Ada" } $a knows $b $a knows $c', "$b.name")) == 4


def test_a_closed_ring(people: og.Graph) -> None:
    ring = "$a: Person $a knows $b $b knows $c $c knows $a"
    found = match(people, ring, "$a.name, $b.name, $c.name")
    assert found == [
        ("Ada", "Bob", "Cid"),
        ("Ada", "Cid", "Cid"),
        ("Bob", "Cid", "Ada"),
        ("Cid", "Ada", "Bob"),
        ("Cid", "Ada", "Cid"),
        ("Cid", "Cid", "Ada"),
        ("Cid", "Cid", "Cid"),
    ]


def test_edges_have_properties(people: og.Graph) -> None:
    by_name = "order { $a.name, $b.name }"
    since = '$a $k: knows $b $k.since > date("2021-01-01")'
    assert match(people, since, "$a.name, $b.name, $k.note", by_name) == [
        ("Ada", "Bob", None),
        ("Ada", "Cid", None),
    ]
    assert match(people, "$a $k: knows $b $k.since is null", "$k.from, $k.to", by_name) == [
        ("Bob", "Cid"),
        ("Cid", "Ada"),
        ("Cid", "Cid"),
    ]
    either = "$a $k: <knows> $b $k.note is not null"
    assert match(people, either, "$a.name, $b.name", by_name) == [
        ("Ada", "Bob"),
        ("Ada", "Cid"),
        ("Bob", "Ada"),
        ("Cid", "Ada"),
    ]


@pytest.mark.parametrize(
    ("block", "names"),
    [
        ("not { $p knows $_ }", ["Dan"]),
        ("not { $p worksAt $_ }", ["Dan"]),
        ("not { $p knows $q $q.age > 30 }", ["Ada", "Bob", "Dan"]),
        ("not { $p knows {1,2} $q $q.age > 30 }", ["Ada", "Dan"]),
        ("not { $p <knows> $q $q.age > 30 }", ["Ada", "Dan"]),
        ("not { not { $p knows $_ } }", ["Ada", "Bob", "Cid"]),
        ('not { $p knows $q not { $q worksAt $c $c.name = "Acme" } }', ["Dan"]),
        ("not { $p knows $q $q.age > $p.age }", ["Ada", "Bob", "Dan"]),
        ('not { $p.city = "Rome" }', ["Ada", "Dan"]),
        ("not { $p $k: knows $q $k.since is not null }", ["Bob", "Cid", "Dan"]),
    ],
)
def test_negation(people: og.Graph, block: str, names: list[str]) -> None:
    assert match(people, f"$p: Person {block}", "$p.name") == names


def test_negation_is_asked_for_each_row(people: og.Graph) -> None:
    found = match(people, "$a: Person $b: Person not { $a <knows> $b }", "$a.name, $b.name")
    initials = sorted(a[0] + b[0] for a, b in found)
    assert " ".join(initials) == "AA AD BB BD CD DA DB DC DD"


def test_optional(people: og.Graph) -> None:
    found = match(people, "$p: Person optional { $p worksAt $c }", "$p.name, $c.name")
    assert found == [("Ada", "Acme"), ("Bob", "Acme"), ("Cid", "Ada"), ("Dan", None)]
    half = "$p: Person optional { $p knows $f $f.age > 30 } optional { $f worksAt $c }"
    assert match(people, half, "$p.name, $f.name, $c.name, $c") == [
        ("Ada", None, None, None),
        ("Bob", None, None, None),
        ("Cid", "Ada", "Acme", {"id": "Acme", "name": "Acme"}),
        ("Dan", None, None, None),
    ]
    assert match(
        people, "$p: Person optional { $p worksAt $c } not { $c: Company }", "$p.name"
    ) == ["Dan"]
    assert match(people, "$p: Person optional { $p worksAt $c } $c.name is null", "$p.name") == [
        "Dan"
    ]


def test_an_optional_block_may_ask_about_what_is_missing(people: og.Graph) -> None:
    pattern = "$p: Person optional { $p worksAt $c } optional { $d: Company $c.name is null }"
    assert match(people, pattern, "$p.name, $d.name") == [
        ("Ada", None),
        ("Bob", None),
        ("Cid", None),
        ("Dan", "Acme"),
        ("Dan", "Ada"),
        ("Dan", "Zeta"),
    ]


def test_no_edges_at_all(make: Make) -> None:
    graph = make("node A { name: String @key }  edge Next: A -> A")
    change(graph, 'insert A { name: "x" }')
    assert match(graph, "$a: A $a next $b", "$b.name") == []
    assert match(graph, "$a: A $a next {1,5} $b", "$b.name") == []
    assert match(graph, "$a: A not { $a next $_ }", "$a.name") == ["x"]
    assert match(graph, "$a: A optional { $a next $b }", "$b.name") == [None]


def test_a_long_ring_ends(make: Make) -> None:
    graph = make("node A { n: I32 @key }  edge Next: A -> A")
    nodes = " ".join(f"insert A {{ n: {n} }}" for n in range(10))
    edges = " ".join(f'insert Next {{ from: "{n}", to: "{(n + 1) % 10}" }}' for n in range(10))
    change(graph, nodes + edges)
    reached = match(graph, "$a: A { n: 0 } $a next {1,50} $b", "$b.n")
    assert sorted(reached) == list(range(1, 10))
    assert match(graph, "$a: A { n: 0 } $a next {7,7} $b", "$b.n") == [7]
    assert match(graph, "$a: A { n: 0 } $a <next> {5,50} $b", "$b.n") == [5]
