"""The canonical JSON of catalogs, its digests, and what it does with damage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omnigraph.errors import Corrupt
from omnigraph.lang.catalog.canonical import (
    digest,
    dumps,
    loads,
    shape_digest,
    to_json,
    type_digests,
)
from omnigraph.lang.catalog.identity import adopt
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.schema import compile_schema

TEXT = """
enum Status { open, closed }
interface Named { name: String @key }
node Doc @description("x") @owner(team, level=3) implements Named {
  status: Status? @default("open") @index
  tags: [String] @default(["a"])
  v: Vector(3)? @embed(name, model="m")
  n: I32
  @range(n, 0..5)
  @check(name, "^a")
}
edge Cites: Doc -> Doc @card(0..5) { since: Date @default("2024-01-01")  @key(src, dst, since) }
"""
CATALOG = compile_schema(TEXT)


def test_the_text_is_canonical() -> None:
    text = dumps(CATALOG)
    assert text == json.dumps(
        json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    assert to_json(CATALOG) == json.loads(text)


def test_the_text_of_a_small_catalog() -> None:
    catalog = compile_schema("node A { n: I32 @default(1)  @range(n, 0..) }")
    assert to_json(catalog) == {
        "format": 1,
        "nodes": [
            {
                "name": "A",
                "id": "af63fc4c860222ec",
                "next_property_id": 2,
                "properties": [
                    {
                        "name": "n",
                        "id": 1,
                        "type": {"base": "I32"},
                        "default": {"kind": "int", "value": 1},
                    }
                ],
                "ranges": [{"property": "n", "low": 0}],
            }
        ],
    }


def test_it_round_trips() -> None:
    assert loads(dumps(CATALOG)) == CATALOG
    assert loads(dumps(Catalog())) == Catalog()


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("\n", " \n // comment\n"),
        TEXT[TEXT.index("edge") :] + TEXT[: TEXT.index("edge")],
        TEXT.replace("@key }", '@key @rename_from("title") }'),
        TEXT.replace("open, closed", "closed, open"),
        TEXT.replace("@key(src, dst, since)", "@key(since, dst, src)"),
        TEXT.replace(
            '@description("x") @owner(team, level=3)', '@owner(team, level=3) @description("x")'
        ),
    ],
)
def test_the_shape_ignores_order_comments_and_hints(other: str) -> None:
    assert shape_digest(compile_schema(other)) == shape_digest(CATALOG)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I32", "I64"),
        ("I32", "I32?"),
        ("0..5)", "0..6)"),
        ("^a", "^b"),
        ("open, closed", "open, done"),
        ('"x"', '"y"'),
        ("level=3", "level=3.0"),
        ('"m"', '"n"'),
        ("@index", ""),
        ("@card(0..5)", "@card(0..)"),
        ("@key(src, dst, since)", ""),
        ('"2024-01-01"', '"2024-01-02"'),
        ("Cites", "Cited"),
        ("status: Status", "status: enum(closed, open)"),
    ],
)
def test_the_shape_sees_everything_else(old: str, new: str) -> None:
    assert old in TEXT
    assert shape_digest(compile_schema(TEXT.replace(old, new))) != shape_digest(CATALOG)


def test_the_digest_sees_identity_and_the_shape_does_not() -> None:
    moved = adopt(CATALOG, adopt(Catalog(), CATALOG))
    assert digest(moved) != digest(CATALOG)
    assert shape_digest(moved) == shape_digest(CATALOG)


def test_type_digests_change_one_by_one() -> None:
    before = type_digests(CATALOG)
    after = type_digests(compile_schema(TEXT.replace("n: I32", "n: I64")))
    assert before.keys() == after.keys() == {"node:Doc", "edge:Cites"}
    assert before["edge:Cites"] == after["edge:Cites"]
    assert before["node:Doc"] != after["node:Doc"]


def change(path: str, value: object) -> str:
    """The catalog's text with one place changed; a path like `nodes.0.name`."""
    tree: Any = to_json(CATALOG)
    tree = json.loads(json.dumps(tree))
    *holders, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    place = tree
    for key in holders:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(tree)


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("format", 2, "`catalog.format` is 2, this version reads 1"),
        ("format", ..., "`catalog.format` is not an integer"),
        ("surprise", 1, "`catalog.surprise` is not known here"),
        ("nodes", {}, "`catalog.nodes` is not a list"),
        ("nodes.0", [], "`catalog.nodes[0]` is not an object"),
        ("nodes.0.name", ..., "`catalog.nodes[0].name` is not a text"),
        ("nodes.0.id", "xyz", "`catalog.nodes[0].id` is not an id"),
        ("nodes.0.surprise", 1, "`catalog.nodes[0].surprise` is not known here"),
        ("nodes.0.key", ["nothing"], "has a constraint on an unknown property"),
        ("nodes.0.key", [1], "`catalog.nodes[0].key[0]` is not a text"),
        ("nodes.0.uniques", ["a"], "`catalog.nodes[0].uniques[0]` is not a list"),
        ("nodes.0.next_property_id", 2, "have ids that cannot be"),
        ("nodes.0.ranges.0.property", "x", "has a rule for the unknown property 'x'"),
        ("nodes.0.ranges.0.low", "x", "`catalog.nodes[0].ranges[0].low` is not a number"),
        ("nodes.0.properties.0.type", ..., "`catalog.nodes[0].properties[0].type` is missing"),
        ("nodes.0.properties.0.type.base", "Int", "is not a known type"),
        ("nodes.0.properties.0.type.nullable", False, "is not true"),
        ("nodes.0.properties.0.id", True, "is not an integer"),
        ("nodes.0.properties.0.id", 2, "have ids that cannot be"),
        ("nodes.0.properties.0.name", "zzz", "are not in the order of their names"),
        ("nodes.0.properties.2.default.kind", "word", "is not a known kind of literal"),
        ("nodes.0.properties.2.default.value", 5, "is not the value of a string literal"),
        ("nodes.0.properties.4.metric", "manhattan", "is not a known metric"),
        ("nodes.0.annotations.0.kwargs", [1], "is not an object"),
        ("edges.0.source", "Nowhere", "connects the unknown type 'Nowhere'"),
        ("edges.0.cardinality", 5, "`catalog.edges[0].cardinality` is not an object"),
    ],
)
def test_damage_is_refused_with_its_path(path: str, value: object, complaint: str) -> None:
    with pytest.raises(Corrupt) as caught:
        loads(change(path, value))
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", '{"format": NaN}', "[" * 100_000, "1" * 5_000]
)
def test_what_is_no_catalog_at_all_is_refused(text: str) -> None:
    with pytest.raises(Corrupt):
        loads(text)


def test_two_types_cannot_have_one_id() -> None:
    tree: Any = to_json(compile_schema("node A {} node B {}"))
    tree["nodes"][1]["id"] = tree["nodes"][0]["id"]
    with pytest.raises(Corrupt, match="two types with one id"):
        loads(json.dumps(tree))
