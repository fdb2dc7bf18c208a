import json
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang import compile_schema
from omnigraph.lang.catalog.model import Check, EdgeType, EntityType, NodeType
from omnigraph.lang.values import DAYS, MILLIS, to_f32
from omnigraph.rules.rows import judge_rows
from omnigraph.rules.violation import Rule, Violation, Violations


def _node(body: str) -> NodeType:
    return compile_schema(f"node T {{ k: String @key  {body} }}").node_by_name["T"]


def _table(entity: EntityType, rows: Iterable[dict[str, Any]]) -> pa.Table:
    blobs = {item.name for item in entity.properties if item.type.base == "Blob"}
    schema = pa.schema([field for field in table_schema(entity) if field.name not in blobs])
    return pa.Table.from_pylist(list(rows), schema=schema)


def _judge(entity: EntityType, *rows: dict[str, Any]) -> tuple[Violation, ...]:
    out = Violations()
    whole = [{"id": f"e{n}", "k": "k", **row} for n, row in enumerate(rows)]
    judge_rows(entity, _table(entity, whole), out)
    assert out.total == len(out.items)
    return out.items


@pytest.mark.parametrize(
    ("body", "value", "rule", "shown"),
    [
        ("p: I32", 0, None, None),
        ("p: I32", None, Rule.REQUIRED, None),
        ("p: I32?", None, None, None),
        ("p: [I32]", [], None, None),
        ("p: [I32]", None, Rule.REQUIRED, None),
        ("p: [I32]?", None, None, None),
        ("p: [I32]", [1, None], Rule.REQUIRED, None),
        ("p: Vector(2)", None, Rule.REQUIRED, None),
        ("p: Vector(2)?", None, None, None),
        ("p: Vector(2)", [1.0, 2.0], None, None),
        ("p: Vector(2)", [1.0, math.inf], Rule.FINITE, "Infinity"),
        ("p: Vector(2)", [math.nan, 1.0], Rule.FINITE, "NaN"),
        ("p: Vector(2)", [1.0, None], Rule.REQUIRED, None),
        ("p: enum(red, green)", "red", None, None),
        ("p: enum(red, green)", "reed", Rule.ENUM, "reed"),
        ("p: enum(red, green)", "", Rule.ENUM, ""),
        ("p: enum(red, green)?", None, None, None),
        ("p: F64", 1e308, None, None),
        ("p: F64", -math.inf, Rule.FINITE, "-Infinity"),
        ("p: F32", math.nan, Rule.FINITE, "NaN"),
        ("p: [F32]", [1.0, math.nan], Rule.FINITE, "NaN"),
        ("p: Date", DAYS.start, None, None),
        ("p: Date", DAYS.stop - 1, None, None),
        ("p: Date", DAYS.start - 1, Rule.TYPE, DAYS.start - 1),
        ("p: [Date]", [0, DAYS.stop], Rule.TYPE, DAYS.stop),
        ("p: DateTime", MILLIS.stop - 1, None, None),
        ("p: DateTime", MILLIS.stop, Rule.TYPE, MILLIS.stop),
        ("p: I32?  @range(p, 1..3)", 1, None, None),
        ("p: I32?  @range(p, 1..3)", 3, None, None),
        ("p: I32?  @range(p, 1..3)", None, None, None),
        ("p: I32?  @range(p, 1..3)", 0, Rule.RANGE, 0),
        ("p: I32?  @range(p, 1..3)", 4, Rule.RANGE, 4),
        ("p: I32  @range(p, 0.5..)", 0, Rule.RANGE, 0),
        ("p: I32  @range(p, 0.5..)", 1, None, None),
        ("p: U32  @range(p, -5..)", 0, None, None),
        ("p: U32  @range(p, ..-5)", 0, Rule.RANGE, 0),
        ("p: I32  @range(p, 3000000000..)", 2**31 - 1, Rule.RANGE, 2**31 - 1),
        ("p: U64  @range(p, ..18446744073709551614)", 2**64 - 2, None, None),
        ("p: U64  @range(p, ..18446744073709551614)", 2**64 - 1, Rule.RANGE, 2**64 - 1),
        ("p: I64  @range(p, 9007199254740993..)", 2**53, Rule.RANGE, 2**53),
        ("p: F32  @range(p, ..0.1)", to_f32(0.1), None, None),
        ("p: F32  @range(p, ..0.1)", to_f32(0.10000001), Rule.RANGE, 0.10000001),
        ("p: F32  @range(p, 1e39..)", 1.0, Rule.RANGE, 1.0),
        ("p: F64  @range(p, ..0.1)", 0.1, None, None),
        ('p: String  @check(p, "^[^@]+@[^@]+$")', "a@b", None, None),
        ('p: String  @check(p, "^[^@]+@[^@]+$")', "a@b@c", Rule.CHECK, "a@b@c"),
        ('p: String  @check(p, "b+")', "abc", None, None),
        ('p: String  @check(p, "^.$")', "é", None, None),
        ('p: String?  @check(p, "b")', None, None, None),
    ],
)
def test_one_value(body: str, value: object, rule: Rule | None, shown: object) -> None:
    found = _judge(_node(body), {"p": value})
    assert [(item.rule, item.value) for item in found] == ([] if rule is None else [(rule, shown)])
    for item in found:
        assert (item.id, item.kind, item.type_name, item.properties) == ("e0", "node", "T", ("p",))
        json.dumps(item.as_json(), allow_nan=False)


def test_not_a_number_is_neither_finite_nor_in_a_range() -> None:
    entity = _node("p: F64  @range(p, 0..)")
    assert [item.rule for item in _judge(entity, {"p": math.nan})] == [Rule.RANGE, Rule.FINITE]


def test_an_enum_names_what_it_allows() -> None:
    (found,) = _judge(_node("p: enum(red, green)"), {"p": "gren"})
    assert found.message.startswith("T.p of 'e0': 'gren' is not one of green, red")


def test_a_list_is_reported_once_with_its_first_bad_element() -> None:
    entity = _node("p: [F64]?")
    lists = [[1.0], [math.nan, math.inf], None, [], [2.0, -math.inf, math.nan]]
    found = _judge(entity, *({"p": numbers} for numbers in lists))
    assert [(item.id, item.value) for item in found] == [("e1", "NaN"), ("e4", "-Infinity")]


def test_all_rules_of_all_rows_are_reported() -> None:
    entity = _node('a: I32  b: String  @range(a, 0..9)  @check(b, "x")  @check(b, "y")')
    found = _judge(entity, {"a": 10, "b": "z"}, {"a": None, "b": "xy"}, {"a": -1, "b": "x"})
    assert [(item.id, item.rule, item.properties) for item in found] == [
        ("e0", Rule.RANGE, ("a",)),
        ("e0", Rule.CHECK, ("b",)),
        ("e0", Rule.CHECK, ("b",)),
        ("e1", Rule.REQUIRED, ("a",)),
        ("e2", Rule.RANGE, ("a",)),
        ("e2", Rule.CHECK, ("b",)),
    ]


def test_a_column_that_is_not_there_is_not_judged() -> None:
    out = Violations()
    judge_rows(_node("a: I32  b: I32"), pa.table({"id": ["x"], "b": pa.nulls(1, pa.int32())}), out)
    assert [item.properties for item in out.items] == [("b",)]


def test_a_blob_is_only_asked_for() -> None:
    entity = _node("b: Blob")
    out = Violations()
    judge_rows(entity, pa.table({"id": ["x", "y"], "b": pa.array([b"1", None])}), out)
    assert [(item.id, item.rule) for item in out.items] == [("y", Rule.REQUIRED)]


def test_a_vector_of_another_length() -> None:
    entity = _node("v: Vector(3)")
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float32(), 2)):
        out = Violations()
        judge_rows(entity, pa.table({"id": ["x"], "v": pa.array([[1.0, 2.0]], kind)}), out)
        assert [(item.rule, item.value) for item in out.items] == [(Rule.VECTOR_LENGTH, 2)]
        assert "Vector(3)" in out.items[0].message


def test_dictionaries_and_columns_of_nulls_are_columns_too() -> None:
    entity = _node("p: enum(a, b)?  n: F64?  @range(n, 0..1)")
    texts = pa.array(["a", "c", None]).dictionary_encode()
    out = Violations()
    judge_rows(entity, pa.table({"id": ["x", "y", "z"], "p": texts, "n": pa.nulls(3)}), out)
    assert [(item.id, item.value) for item in out.items] == [("y", "c")]


def test_the_ends_of_an_edge_and_an_id_without_a_key_are_required() -> None:
    catalog = compile_schema("node N { a: I32? }  edge E: N -> N")
    out = Violations()
    edges = pa.table({"id": ["e"], "src": pa.nulls(1, pa.string()), "dst": ["n"]})
    judge_rows(catalog.edge_by_name["E"], edges, out)
    judge_rows(catalog.node_by_name["N"], pa.table({"id": pa.nulls(1, pa.string())}), out)
    assert [(item.type_name, item.properties) for item in out.items] == [
        ("N", ("id",)),
        ("E", ("src",)),
    ]


def test_the_place_in_the_input_counts_through_batches() -> None:
    entity = _node("p: I32")
    rows = [{"id": f"e{n}", "k": "k", "p": None if n in (1, 4, 5) else n} for n in range(6)]
    table = _table(entity, rows)
    pieces = pa.concat_tables([table.slice(0, 2), table.slice(2, 1), table.slice(3)])
    out = Violations()
    judge_rows(entity, pieces, out, lambda row: ("people.jsonl", 10 + row))
    assert [(item.id, item.file, item.line) for item in out.items] == [
        ("e1", "people.jsonl", 11),
        ("e4", "people.jsonl", 14),
        ("e5", "people.jsonl", 15),
    ]


@pytest.mark.parametrize("located", [False, True])
def test_more_than_can_be_kept_are_counted(located: bool) -> None:
    entity = _node("p: I32")
    ids = [f"{n:03}" for n in reversed(range(100))]
    table = pa.table({"id": ids, "p": pa.nulls(100, pa.int32())})
    out = Violations(kept_max=3)
    judge_rows(entity, table, out, (lambda row: ("f", row)) if located else None)
    assert out.total == 100
    first = ["099", "098", "097"] if located else ["000", "001", "002"]
    assert [item.id for item in out.items] == first


def test_a_check_takes_linear_time() -> None:
    entity = _node('p: String  @check(p, "^(a+)+$")')
    assert [item.rule for item in _judge(entity, {"p": "a" * 10_000 + "b"})] == [Rule.CHECK]


def test_a_pattern_that_cannot_be_evaluated_is_named() -> None:
    """The compiler refuses such a pattern; a schema accepted long ago may still have one."""
    pattern = "a{2000}"
    declared = _node('p: String  @check(p, "a")')
    entity = replace(declared, checks=(Check(property="p", pattern=pattern),))
    with pytest.raises(InvalidInput) as caught:
        _judge(entity, {"p": "a"})
    assert caught.value.code is Code.SCHEMA_INVALID
    assert caught.value.details["pattern"] == pattern


def test_long_values_are_cut() -> None:
    (found,) = _judge(_node('p: String  @check(p, "x")'), {"p": "line\n" * 1000})
    assert isinstance(found.value, str)
    assert len(found.value) < 300
    assert len(found.message) < 300
    assert "\n" not in found.message


# -- against plain Python --------------------------------------------------------------------------

CATALOG = compile_schema("""
node N {
  a: I32  b: U64?  c: F32?  d: [F64]?  e: enum(x, y)?  f: String?  g: Vector(2)?  h: [Date]
  @range(a, -1..2)  @range(b, 1..)  @range(c, -0.5..0.5)  @check(f, "^a.c")
}
edge E: N -> N { e: enum(x, y)  g: [Bool]? }
""")
_NUMBER = st.sampled_from([0.0, 0.5, -0.5, 0.75, math.nan, math.inf, -math.inf])
_CELLS: dict[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from(["p", "q", "r"]),
    "src": st.sampled_from(["p", "q"]),
    "dst": st.sampled_from(["p", "q"]),
    "a": st.none() | st.integers(-3, 4),
    "b": st.none() | st.sampled_from([0, 1, 2**64 - 1]),
    "c": st.none() | _NUMBER,
    "d": st.none() | st.lists(st.none() | _NUMBER, max_size=3),
    "e": st.none() | st.sampled_from(["x", "y", "z", ""]),
    "f": st.none() | st.text("abc\n", max_size=4),
    "g": st.none() | st.lists(st.none() | _NUMBER, min_size=2, max_size=2),
    "h": st.none() | st.lists(st.none() | st.sampled_from([0, DAYS.stop]), max_size=2),
}
_EDGE_CELLS = {
    **{name: _CELLS[name] for name in ("id", "src", "dst", "e")},
    "g": st.none() | st.lists(st.none() | st.booleans(), max_size=2),
}
_NODE_CELLS = {name: cell for name, cell in _CELLS.items() if name not in ("src", "dst")}


def _naive(row: dict[str, Any], entity: EntityType) -> list[tuple[str, Rule, str]]:
    broken: list[tuple[Rule, str]] = []
    for item in entity.properties:
        value, name = row[item.name], item.name
        if value is None:
            if not item.type.nullable:
                broken.append((Rule.REQUIRED, name))
            continue
        cells = value if isinstance(value, list) else [value]
        if None in cells:
            broken.append((Rule.REQUIRED, name))
        cells = [cell for cell in cells if cell is not None]
        if item.type.enum and value not in item.type.enum:
            broken.append((Rule.ENUM, name))
        if any(isinstance(cell, float) and not math.isfinite(cell) for cell in cells):
            broken.append((Rule.FINITE, name))
        if name == "h" and DAYS.stop in cells:
            broken.append((Rule.TYPE, name))
    ranges = {"a": (-1, 2), "b": (1, math.inf), "c": (-0.5, 0.5)}
    if entity.kind == "node":
        for name, (low, high) in ranges.items():
            if row[name] is not None and not low <= row[name] <= high:
                broken.append((Rule.RANGE, name))
        if row["f"] is not None and not re.search("^a.c", row["f"]):
            broken.append((Rule.CHECK, "f"))
    return [(row["id"], rule, name) for rule, name in broken]


def _agree(entity: EntityType, rows: list[dict[str, Any]], cut: int) -> None:
    table = _table(entity, rows)
    pieces = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    for skipped in (0, 1):  # a slice has offsets that a kernel could forget
        out = Violations()
        judge_rows(entity, pieces.slice(skipped), out)
        found = [(item.id, item.rule, item.properties[0]) for item in out.items]
        naive = [each for row in rows[skipped:] for each in _naive(row, entity)]
        assert sorted(found, key=str) == sorted(naive, key=str)


@given(st.lists(st.fixed_dictionaries(_NODE_CELLS), max_size=6), st.integers(0, 6))
def test_nodes_are_judged_as_plain_python_would(rows: list[dict[str, Any]], cut: int) -> None:
    _agree(CATALOG.node_by_name["N"], rows, min(cut, len(rows)))


@given(st.lists(st.fixed_dictionaries(_EDGE_CELLS), max_size=6), st.integers(0, 6))
def test_edges_are_judged_as_plain_python_would(rows: list[dict[str, Any]], cut: int) -> None:
    edge = CATALOG.edge_by_name["E"]
    assert isinstance(edge, EdgeType)
    _agree(edge, rows, min(cut, len(rows)))
