"""Type ids, property ids and how they are carried from one schema to the next."""

from __future__ import annotations

import pytest

from omnigraph.lang.catalog.identity import adopt, fnv1a64, hint_cycles, match_names, mint_type_id
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.schema import compile_schema


def evolve(*texts: str) -> list[Catalog]:
    """The catalogs of a graph that goes through these schemas."""
    catalogs: list[Catalog] = []
    accepted = Catalog()
    for text in texts:
        accepted = adopt(compile_schema(text), accepted)
        catalogs.append(accepted)
    return catalogs


def property_ids(catalog: Catalog, name: str) -> dict[str, int]:
    return {item.name: item.id for item in catalog.node_by_name[name].properties}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The published test values of the hash.
        ("", "cbf29ce484222325"),
        ("a", "af63dc4c8601ec8c"),
        ("foobar", "85944171f73967e8"),
    ],
)
def test_the_hash_is_fnv1a64(text: str, expected: str) -> None:
    assert fnv1a64(text) == expected


def test_a_new_type_is_named_by_its_hash_unless_that_is_taken() -> None:
    first = mint_type_id("Person", set())
    assert first == fnv1a64("Person")
    second = mint_type_id("Person", {first})
    assert second == fnv1a64("Person#2")
    assert mint_type_id("Person", {first, second}) == fnv1a64("Person#3")


def test_ids_survive_a_rename() -> None:
    before, after = evolve(
        "node Person { name: String  age: I32 }",
        'node Human @rename_from("Person") { age: I32  title: String @rename_from("name") }',
    )
    assert after.node_by_name["Human"].id == before.node_by_name["Person"].id
    assert property_ids(after, "Human") == {"age": 1, "title": 2}


def test_an_adopted_catalog_carries_no_hints() -> None:
    (catalog,) = evolve('node A @rename_from("B") { x: I32 @rename_from("y") }')
    assert catalog.nodes[0].renamed_from is None
    assert catalog.nodes[0].properties[0].renamed_from is None


def test_what_is_dropped_and_added_again_is_new() -> None:
    first, second, third = evolve("node A {} node B {}", "node A {}", "node A {} node B {}")
    old = first.node_by_name["B"].id
    assert second.retired == (old,)
    assert third.retired == (old,)
    assert third.node_by_name["B"].id == fnv1a64("B#2")


def test_a_property_that_comes_back_gets_a_new_id() -> None:
    first, second, third = evolve(
        "node A { x: I32  y: I32 }", "node A { x: I32 }", "node A { x: I32  y: I32 }"
    )
    assert property_ids(first, "A") == {"x": 1, "y": 2}
    assert second.nodes[0].next_property_id == 3
    assert property_ids(third, "A") == {"x": 1, "y": 3}


def test_the_old_name_of_a_renamed_type_is_free_again() -> None:
    first, second = evolve("node A {}", 'node A {} node B @rename_from("A") {}')
    assert second.node_by_name["B"].id == first.node_by_name["A"].id
    assert second.node_by_name["A"].id == fnv1a64("A#2")
    assert second.retired == ()


def test_nodes_and_edges_have_ids_of_their_own() -> None:
    first, second = evolve("node A {} edge A: A -> A", "node A {}")
    assert first.nodes[0].id == first.edges[0].id
    assert second.retired == (first.edges[0].id,)
    assert second.nodes[0].id == first.nodes[0].id


def test_the_order_of_a_composite_key_survives_renames() -> None:
    first, second = evolve(
        "node A { a: String  b: String  @key(a, b) @unique(b, a) }",
        'node A { z: String @rename_from("a")  b: String  @key(b, z) @unique(b, z) }',
    )
    assert first.nodes[0].key == ("a", "b")
    assert second.nodes[0].key == ("z", "b")
    assert second.nodes[0].uniques == (("z", "b"),)
    assert second.nodes[0].indexes == (("z", "b"),)


def test_the_ends_come_first_in_the_key_of_an_edge() -> None:
    first, second = evolve(
        "node A {} edge E: A -> A { m: I32  @key(m, dst, src) }",
        'node A {} edge E: A -> A { a: I32 @rename_from("m")  @key(a, src, dst) }',
    )
    assert first.edges[0].key == ("src", "dst", "m")
    assert second.edges[0].key == ("src", "dst", "a")


@pytest.mark.parametrize(
    ("wanted", "accepted", "expected"),
    [
        ({"A": None}, {"A"}, {"A": "A"}),
        ({"A": None}, set(), {}),
        ({"B": "A"}, {"A"}, {"B": "A"}),
        ({"B": "A"}, {"B"}, {"B": "B"}),
        ({"B": "A"}, {"A", "B"}, {"B": "A"}),
        ({"B": "A", "A": None}, {"A", "B"}, {"A": "A", "B": "B"}),
        ({"B": "A", "A": None}, {"A"}, {"B": "A"}),
        ({"B": "A", "C": "B"}, {"A", "B"}, {"B": "A", "C": "B"}),
        ({"B": "A", "C": "B", "D": "C"}, {"A", "B", "C"}, {"B": "A", "C": "B", "D": "C"}),
        ({"B": "A", "C": "B", "D": "C"}, {"B", "C", "D"}, {"B": "B", "C": "C", "D": "D"}),
        ({"B": "A", "C": "B"}, {"A", "B", "C"}, {"B": "A", "C": "B"}),
        ({"B": "A", "C": "B"}, {"B"}, {"C": "B"}),
        ({"z": "y", "y": "x"}, {"x", "y", "z"}, {"y": "x", "z": "y"}),
        # Cycles cannot be told from applied ones; the planner refuses them.
        ({"A": "B", "B": "A"}, {"A", "B"}, {"A": "A", "B": "B"}),
        ({"A": "C", "B": "A", "C": "B"}, {"A", "B", "C"}, {"A": "A", "B": "B", "C": "C"}),
        ({"A": "B", "B": "A", "C": "B"}, {"A", "B", "C"}, {"A": "A", "B": "B", "C": "C"}),
        ({"B": "A", "C": "A"}, {"A"}, {"B": "A"}),
        ({"A": "A"}, {"A"}, {"A": "A"}),
        ({"B": "X"}, {"A"}, {}),
    ],
)
def test_which_name_continues_which(
    wanted: dict[str, str | None], accepted: set[str], expected: dict[str, str]
) -> None:
    assert match_names(wanted.items(), accepted) == expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"A": None, "B": "A", "C": "B"}, []),
        ({"A": "A"}, []),
        ({"A": "B", "B": "A"}, [("A", "B")]),
        ({"C": "B", "B": "A", "A": "C", "D": "A"}, [("A", "C", "B")]),
        ({"A": "B", "B": "A", "X": "Y", "Y": "X"}, [("A", "B"), ("X", "Y")]),
    ],
)
def test_which_hints_lead_back_to_themselves(
    wanted: dict[str, str | None], expected: list[tuple[str, ...]]
) -> None:
    assert hint_cycles(wanted.items()) == expected


def test_a_long_chain_of_hints_is_no_problem() -> None:
    names = [f"n{number:05}" for number in range(20_000)]
    chain: dict[str, str | None] = dict(zip(names[1:], names, strict=False))
    assert match_names(chain.items(), set(names)) == chain
