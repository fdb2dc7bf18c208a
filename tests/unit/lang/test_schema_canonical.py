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
        # Values that no text can have.
        ("nodes.0.description", "\ud800", "`catalog.nodes[0].description` is not valid Unicode"),
        ("nodes.0.annotations.0.kwargs", {"\ud800": 1}, "kwargs` is not valid Unicode"),
        ("nodes.0.description", " ", "`catalog.nodes[0].description` is empty"),
        # Names.
        ("nodes.0.name", "doc", "`catalog.nodes[0].name` is not a name"),
        ("nodes.0.properties.0.name", "Name", "properties[0].name` is not a name"),
        ("nodes.0.properties.0.name", "id", "properties[0].name` is taken"),
        ("edges.0.properties.0.name", "src", "properties[0].name` is taken"),
        ("enums.0.name", "Doc", "`catalog.enums[0].name` is the name of another type"),
        ("enums.0.name", "String", "`catalog.enums[0].name` is the name of another type"),
        ("nodes.0.renamed_from", "Doc", "renamed_from` is not the old name of anything"),
        ("nodes.0.properties.0.renamed_from", "A b", "renamed_from` is not the old name"),
        ("nodes.0.annotations.0.args", ["two words"], "has something that is not a name"),
        ("nodes.0.annotations", [{"name": "b"}, {"name": "a"}], "annotations` are not in order"),
        # Types.
        ("nodes.0.properties.4.type.dim", 0, "type.dim` is not a dimension"),
        ("nodes.0.properties.4.type.dim", 2**31, "type.dim` is not a dimension"),
        ("nodes.0.properties.4.type.list", True, "type.list` cannot hold Vector here"),
        ("nodes.0.properties.1.type.dim", 3, "type.dim` belongs to a Vector"),
        ("nodes.0.properties.0.type.enum", ["a"], "type.enum` belongs to a String"),
        ("nodes.0.properties.2.type.enum", ["open", "closed"], "are not in order, each once"),
        ("nodes.0.properties.2.type.enum", ["closed", "closed"], "are not in order, each once"),
        ("nodes.0.properties.2.type.enum", ["a b"], "are not all values of an enum"),
        ("nodes.0.properties.2.type.enum", ["closed"], "enum_name` is not the enum of these"),
        ("nodes.0.properties.2.enum_name", "Other", "enum_name` is not the enum of these"),
        ("nodes.0.properties.1.enum_name", "Status", "enum_name` is not the enum of these"),
        ("enums.0.values", [], "`catalog.enums[0].values` are missing"),
        ("enums.0.values", ["open", "closed"], "are not in order, each once"),
        # Values.
        ("nodes.0.properties.2.default.value", "shut", "default` is not a value of enum("),
        ("nodes.0.properties.2.default", {"kind": "int", "value": 1}, "default` is not a value"),
        ("nodes.0.properties.2.default", {"kind": "null", "value": None}, "is not a value"),
        ("nodes.0.properties.4.default", {"kind": "list", "items": []}, "is not a value"),
        ("nodes.0.properties.0.default", {"kind": "int", "value": 2**31}, "is not a value"),
        ("nodes.0.properties.0.default", {"kind": "int", "value": 9}, "rules the default out"),
        ("edges.0.properties.0.default.value", 10**9, "out of the range of a date literal"),
        ("nodes.0.annotations.0.kwargs.level.value", 10**20, "out of the range of a int literal"),
        ("nodes.0.properties.4.metric", ..., "metric` belongs to a Vector, and every Vector"),
        ("nodes.0.properties.1.metric", "l2", "metric` belongs to a Vector"),
        ("nodes.0.properties.4.embed.source", "nothing", "embed.source` is not a text property"),
        ("nodes.0.properties.4.embed.source", "tags", "embed.source` is not a text property"),
        ("nodes.0.properties.1.embed", {"source": "name"}, "embed` is not on a Vector of a node"),
        ("nodes.0.properties.4.embed.model", " ", "embed` has an empty name"),
        # Constraints.
        ("nodes.0.key", ["name", "name"], "key` are not in order, each once"),
        ("nodes.0.key", ["status"], "`catalog.nodes[0].key` cannot have 'status'"),
        ("nodes.0.key", ["n"], "indexes` leave out the key"),
        ("nodes.0.uniques", [[]], "uniques[0]` is empty"),
        ("nodes.0.uniques", [["n"], ["n"]], "uniques` are not in order, each once"),
        ("nodes.0.uniques", [["tags"]], "uniques` cannot have 'tags'"),
        ("nodes.0.uniques", [["name", "n"]], "uniques[0]` are not in order"),
        ("nodes.0.indexes", [["name"], ["tags"]], "indexes` cannot have 'tags'"),
        ("interfaces.0.properties.0.type.base", "I32", "implements[0]` is not kept"),
        ("edges.0.properties.0.type.nullable", True, "`catalog.edges[0].key` cannot have 'since'"),
        ("edges.0.key", ["dst", "since"], "`catalog.edges[0].key` leaves out an end"),
        ("nodes.0.ranges.0.property", "name", "is on 'name', which is not a number"),
        ("nodes.0.ranges.0.low", 6, "ranges[0]` has bounds that cannot be"),
        ("nodes.0.ranges.0.low", 0.5, "has a bound that its property cannot have"),
        ("nodes.0.ranges.0", {"property": "n"}, "ranges[0]` has bounds that cannot be"),
        ("nodes.0.checks.0.property", "n", "is on 'n', which is not a String"),
        ("nodes.0.checks.0.property", "nothing", "unknown property 'nothing'"),
        ("nodes.0.checks.0.pattern", "(", "checks[0].pattern` cannot be used"),
        ("edges.0.cardinality.low", -1, "cardinality` has bounds that cannot be"),
        ("edges.0.cardinality.low", 6, "cardinality` has bounds that cannot be"),
        ("edges.0.cardinality.high", -1, "cardinality` has bounds that cannot be"),
        ("edges.0.cardinality.high", 2**32, "cardinality` has bounds that cannot be"),
        # Identities and references.
        ("nodes.0.implements", ["Other"], "implements[0]` is the unknown interface 'Other'"),
        ("nodes.0.implements", ["Named", "Named"], "implements` are not in order, each once"),
        ("interfaces.0.properties.0.id", 2, "`catalog.interfaces[0].properties` have ids"),
        ("retired", ["x"], "`catalog.retired[0]` is not an id"),
        ("retired", ["b" * 16, "a" * 16], "`catalog.retired` are not in order"),
        # Other spellings of the same.
        ("nodes.0.uniques", [], "`catalog.nodes[0].uniques` is not what a schema is stored as"),
        ("nodes.0.instruction", None, "is not a text"),
        ("nodes.0.properties.0.default", None, "default` is not what a schema is stored as"),
        ("edges.0.cardinality", ..., "cardinality` is not what a schema is stored as"),
    ],
)
def test_damage_is_refused_with_its_path(path: str, value: object, complaint: str) -> None:
    with pytest.raises(Corrupt) as caught:
        loads(change(path, value))
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        '{"format": NaN}',
        '{"format": 1e999}',
        '{"format": -0.0}',
        '{"format": 1, "format": 1}',
        '{"\\ud800": 1}',
        "[" * 100_000,
        "1" * 5_000,
    ],
)
def test_what_is_no_catalog_at_all_is_refused(text: str) -> None:
    with pytest.raises(Corrupt):
        loads(text)


def test_two_types_cannot_have_one_id() -> None:
    tree: Any = to_json(compile_schema("node A {} node B {}"))
    tree["nodes"][1]["id"] = tree["nodes"][0]["id"]
    with pytest.raises(Corrupt, match="two types with one id"):
        loads(json.dumps(tree))


def test_a_key_given_twice_is_refused_with_its_path() -> None:
    text = dumps(CATALOG).replace('"name":"Doc"', '"name":"Doc","name":"Doc"')
    with pytest.raises(Corrupt) as caught:
        loads(text)
    assert str(caught.value) == "stored schema: `catalog.nodes[0]` has the key 'name' twice"
    assert caught.value.details["path"] == "catalog.nodes[0]"


def test_numbers_that_are_never_stored_are_refused_with_their_path() -> None:
    for number in ("1e999", "-1e999", "-0.0"):
        text = dumps(CATALOG).replace('"high":5,"low":0', f'"high":5,"low":{number}', 1)
        with pytest.raises(Corrupt, match=r"cardinality.low` is not a number that is stored"):
            loads(text)


def test_a_retired_id_may_live_on_in_the_other_kind_only() -> None:
    both = compile_schema("node A {} edge A: A -> A")
    left = adopt(compile_schema("node A {}"), both)
    assert loads(dumps(left)) == left
    tree: Any = to_json(both)
    tree["retired"] = [both.nodes[0].id]
    with pytest.raises(Corrupt, match=r"retired\[0\]` is the id of a type that is there"):
        loads(json.dumps(tree))


def test_an_old_graph_with_a_unique_blob_is_read() -> None:
    old = compile_schema("node A { b: Blob  @unique(b) }", accepted=True)
    assert loads(dumps(old)) == old


def test_equal_values_of_f32_have_equal_digests() -> None:
    first = compile_schema("node A { f: F32 @default(0.1)  @range(f, 0.1..) }")
    second = compile_schema(
        "node A { f: F32 @default(0.10000000149011612)  @range(f, 0.10000000149011612..) }"
    )
    assert digest(first) == digest(second)
