import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.errors import InvalidInput
from omnigraph.lang import compile_schema
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.values import DAYS, INT_RANGES, MILLIS, Base, ValueType, to_f32
from omnigraph.rules.identity import entity_id, entity_ids, scalar_id

CATALOG = compile_schema("""
node Pair { b: String @description("first") a: String  z: String?  @key(b, a) }
node Every {
  s: String  t: Bool  i: I32  j: I64  u: U32  v: U64  f: F32  g: F64  d: Date  m: DateTime
  @key(s, t, i, j, u, v, f, g, d, m)
}
edge Link: Pair -> Every { since: Date  @key(since, src, dst) }
""")
PAIR, EVERY = CATALOG.node_by_name["Pair"], CATALOG.node_by_name["Every"]
LINK = CATALOG.edge_by_name["Link"]

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_VALUES: dict[Base, st.SearchStrategy[Any]] = {
    Base.STRING: _TEXT | st.sampled_from(['"', "\\", '","', "\n", "\x00", "a", "é"]),
    Base.BOOL: st.booleans(),
    **{base: st.integers(*bounds) for base, bounds in INT_RANGES.items()},
    Base.F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Base.F64: st.floats(allow_nan=False, allow_infinity=False),
    Base.DATE: st.sampled_from([DAYS.start, -1, 0, DAYS.stop - 1]) | st.integers(-9999, 9999),
    Base.DATETIME: st.sampled_from([MILLIS.start, -1, 0, MILLIS.stop - 1]),
}


def _single(base: Base) -> EntityType:
    schema = f"node T {{ k: {base.value} @key }}"
    return compile_schema(schema).node_by_name["T"]


@pytest.mark.parametrize(
    ("base", "value", "text"),
    [
        (Base.STRING, "Ada", "Ada"),
        (Base.STRING, 'say "hi"', 'say "hi"'),
        (Base.BOOL, True, "true"),
        (Base.BOOL, False, "false"),
        (Base.I32, -7, "-7"),
        (Base.U64, 2**64 - 1, "18446744073709551615"),
        (Base.DATE, 0, "0"),
        (Base.DATE, -1, "-1"),
        (Base.DATETIME, 1_700_000_000_123, "1700000000123"),
        (Base.F64, 0.1, "0.1"),
        (Base.F64, 1.0, "1"),
        (Base.F64, 100.0, "100"),
        (Base.F64, -0.0, "0"),
        (Base.F64, 1e21, "1000000000000000000000"),
        (Base.F64, 1.5e-7, "0.00000015"),
        (Base.F32, to_f32(0.1), "0.1"),
        (Base.F32, to_f32(16777216.0), "16777216"),
        (Base.F32, 3.4028234663852886e38, "340282350000000000000000000000000000000"),
        (Base.F32, -0.0, "0"),
    ],
)
def test_the_canonical_text_of_a_value(base: Base, value: Any, text: str) -> None:
    entity = _single(base)
    assert scalar_id(value, ValueType(base)) == text
    assert entity_id(entity, {"k": value}) == text
    column = pa.array([value], arrow_type(ValueType(base)))
    assert entity_ids(entity, {"k": column}).to_pylist() == [text]


def test_a_composite_key_is_a_json_array_in_the_order_of_property_ids() -> None:
    assert PAIR.key == ("a", "b")  # in a new graph properties are numbered by name
    assert entity_id(PAIR, {"b": "x", "a": 'é"\\\n'}) == '["é\\"\\\\\\n","x"]'


def test_the_key_of_an_edge_starts_with_its_ends() -> None:
    assert entity_id(LINK, {"since": 3, "dst": "d", "src": "s"}) == '["s","d","3"]'
    columns = {
        "since": pa.array([3, None, 4], pa.int32()).cast(pa.date32()),
        "src": pa.chunked_array([["s"], ["s", None]], pa.string()),
        "dst": pa.array(["d", "d", "d"], pa.large_string()),
    }
    ids = entity_ids(LINK, columns)
    assert ids.type == pa.string()
    assert ids.to_pylist() == ['["s","d","3"]', None, None]


def test_separators_in_values_do_not_make_keys_equal() -> None:
    first = entity_id(PAIR, {"a": 'x","y', "b": "z"})
    second = entity_id(PAIR, {"a": "x", "b": 'y","z'})
    assert first != second


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_is_missing_or_not_finite_identifies_nothing(value: float | None) -> None:
    entity = _single(Base.F64)
    with pytest.raises(InvalidInput):
        entity_id(entity, {"k": value})
    with pytest.raises(InvalidInput):
        entity_id(entity, {})
    assert entity_ids(entity, {"k": pa.array([value], pa.float64())}).to_pylist() == [None]


def test_no_rows_give_no_ids() -> None:
    columns = {name: pa.array([], pa.string()) for name in ("a", "b")}
    assert entity_ids(PAIR, columns).to_pylist() == []
    empty = pa.chunked_array([], pa.string())
    assert entity_ids(PAIR, {"a": empty, "b": empty}).to_pylist() == []


@given(_VALUES[Base.F32])
def test_an_f32_key_reads_back_with_the_fewest_digits(value: float) -> None:
    text = scalar_id(value, ValueType(Base.F32))
    assert to_f32(float(text)) == value
    digits = text.replace(".", "").replace("-", "").strip("0")
    shortest = np.format_float_scientific(np.float32(abs(value)), unique=True, trim="-")
    assert len(digits) == len(shortest.split("e")[0].replace(".", "").strip("0"))


@given(st.fixed_dictionaries({base: _VALUES[base] for base in _VALUES}))
def test_equal_values_are_what_equal_ids_are_made_of(values: dict[Base, Any]) -> None:
    row = {item.name: values[item.type.base] for item in EVERY.properties}
    parts = [scalar_id(row[name], EVERY.property_by_name[name].type) for name in EVERY.key]
    assert json.loads(entity_id(EVERY, row)) == parts


_PART = st.sampled_from(["a", '"', "\\", "\x1f", "é", "", None])


@given(st.lists(st.tuples(_PART, _PART)))
def test_escapes_stay_with_their_rows(pairs: list[tuple[str | None, str | None]]) -> None:
    columns = {
        name: pa.array([pair[at] for pair in pairs], pa.string()) for at, name in enumerate("ab")
    }
    expected = [
        None if None in pair else json.dumps(pair, ensure_ascii=False, separators=(",", ":"))
        for pair in pairs
    ]
    assert entity_ids(PAIR, columns).to_pylist() == expected


_ROWS = st.lists(
    st.fixed_dictionaries({base: st.none() | _VALUES[base] for base in _VALUES}), max_size=8
)


@given(_ROWS)
def test_rows_and_columns_give_the_same_ids(values: list[dict[Base, Any]]) -> None:
    rows = [{item.name: row[item.type.base] for item in EVERY.properties} for row in values]
    columns = {
        item.name: pa.array([row[item.name] for row in rows], arrow_type(item.type))
        for item in EVERY.properties
    }
    expected = [
        None if any(row[name] is None for name in EVERY.key) else entity_id(EVERY, row)
        for row in rows
    ]
    assert entity_ids(EVERY, columns).to_pylist() == expected
    for item in EVERY.properties:
        entity = _single(item.type.base)
        alone = [row[item.name] for row in rows]
        expected = [None if v is None else entity_id(entity, {"k": v}) for v in alone]
        assert entity_ids(entity, {"k": columns[item.name]}).to_pylist() == expected
