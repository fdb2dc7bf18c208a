"""The lines of an export, against `json` and values made one by one."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.dataplane import tuning
from omnigraph.dataplane.decode.model import DecodeSpec, DecodeStats
from omnigraph.dataplane.decode.ndjson import decode_ndjson
from omnigraph.dataplane.export.files import LineEncoder
from omnigraph.lang import compile_schema
from omnigraph.lang.catalog.model import EntityType, Property
from omnigraph.lang.values import (
    DAYS,
    INT_RANGES,
    INTEGERS,
    MILLIS,
    Base,
    ValueType,
    format_date,
    format_datetime,
)
from omnigraph.rules.violation import Violations

SCALARS = [base for base in Base if base not in (Base.BLOB, Base.VECTOR, Base.ENTITY)]
CATALOG = compile_schema(
    "\n".join(
        [
            "node All {",
            *(f"p{base.value}: {base.value}?" for base in SCALARS),
            *(f"l{base.value}: [{base.value}]?" for base in SCALARS),
            "v: Vector(2)?  blob: Blob?  must: String",
            "}",
            "node Few { a: String? }",
            "edge Has: All -> All { note: String?  weight: F64? }",
        ]
    )
)
ENTITIES: dict[str, EntityType] = {item.name: item for item in (*CATALOG.nodes, *CATALOG.edges)}

# Quotes, backslashes, control characters, and what only some readers stumble over.
TEXTS = st.text(
    st.one_of(
        st.sampled_from('"\\/\b\f\n\r\t\x00\x1f\x7f\u2028\u2029\ufeff é🌍'),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=12,
)
PLAIN = st.text("abc ", max_size=5)


def scalars(base: Base) -> st.SearchStrategy[Any]:
    """Values in the form of the languages."""
    if base in INTEGERS:
        low, high = INT_RANGES[base]
        return st.one_of(
            st.integers(0, 200), st.integers(low, high), st.sampled_from([low, high, 0])
        )
    if base is Base.DATE:
        return st.one_of(st.integers(DAYS.start, DAYS.stop - 1), st.sampled_from([DAYS.start, -1]))
    if base is Base.DATETIME:
        return st.one_of(
            st.integers(MILLIS.start, MILLIS.stop - 1),
            st.sampled_from([MILLIS.start, MILLIS.stop - 1, -1, 0]),
        )
    return {
        Base.STRING: st.one_of(PLAIN, TEXTS),
        Base.BOOL: st.booleans(),
        Base.F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
        Base.F64: st.floats(allow_nan=False, allow_infinity=False),
        Base.BLOB: st.binary(max_size=20),
    }[base]


def values(kind: ValueType) -> st.SearchStrategy[Any]:
    if kind.base is Base.VECTOR:
        value = st.lists(scalars(Base.F32), min_size=kind.dim, max_size=kind.dim)
    elif kind.is_list:
        value = st.lists(scalars(kind.base), max_size=4)
    else:
        value = scalars(kind.base)
    return st.one_of(st.none(), value) if kind.nullable else value


def rows_of(entity: EntityType) -> st.SearchStrategy[list[dict[str, Any]]]:
    ends = {} if entity.kind == "node" else {"src": TEXTS, "dst": PLAIN}
    properties = {item.name: values(item.type) for item in entity.properties}
    return st.lists(st.fixed_dictionaries({"id": TEXTS, **ends, **properties}), max_size=8)


def batch_of(entity: EntityType, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    types = {item.name: item.type for item in entity.properties}
    ends = [] if entity.kind == "node" else ["src", "dst"]
    columns = {
        name: column([row[name] for row in rows], types.get(name, ValueType(Base.STRING)))
        for name in ["id", *ends, *types]
    }
    return pa.RecordBatch.from_pydict(columns)


def column(given: list[Any], kind: ValueType) -> pa.Array:
    """Arrow takes numbers for dates only by way of numbers."""
    plain = {Base.DATE: pa.int32(), Base.DATETIME: pa.int64()}.get(kind.base)
    target = arrow_type(kind)
    if plain is None:
        return pa.array(given, target)
    return pa.array(given, pa.list_(plain) if kind.is_list else plain).cast(target)


def expected(entity: EntityType, row: dict[str, Any]) -> list[tuple[str, Any]]:
    """The envelope, one value at a time, as pairs: their order is part of the format."""
    data = [("id", row["id"])]
    data += [(item.name, plain(row[item.name], item)) for item in entity.properties]
    if entity.kind == "node":
        return [("type", entity.name), ("data", data)]
    return [("edge", entity.name), ("from", row["src"]), ("to", row["dst"]), ("data", data)]


def plain(value: Any, item: Property) -> Any:
    if isinstance(value, list):
        return [scalar(each, item.type.base) for each in value]
    return None if value is None else scalar(value, item.type.base)


def scalar(value: Any, base: Base) -> Any:
    if base is Base.DATE:
        return format_date(value)
    if base is Base.DATETIME:
        return format_datetime(value)
    if base in (Base.F32, Base.VECTOR):
        return float(str(np.float32(value)))
    if base is Base.BLOB:
        return "base64:" + base64.b64encode(value).decode()
    return value


def exact(found: Any) -> Any:
    """So that -0.0 is not 0, True is not 1, and 1 may stand for 1.0."""
    if isinstance(found, list | tuple):
        return [exact(each) for each in found]
    if isinstance(found, float) or (isinstance(found, int) and not isinstance(found, bool)):
        return (float(found), math.copysign(1, found), found if found == int(found) else None)
    return (type(found).__name__, found)


@given(st.data(), st.sampled_from(sorted(ENTITIES)), st.sampled_from([1, 2, 1 << 20]))
def test_every_line_says_what_its_row_has(data: st.DataObject, name: str, rows_min: int) -> None:
    """With tables of small numbers from so many rows on: they must not be seen in the result."""
    entity = ENTITIES[name]
    encoder = LineEncoder(entity)
    # One after another, because tables are kept and grow.
    for _ in range(data.draw(st.integers(1, 3))):
        rows = data.draw(rows_of(entity))
        start = data.draw(st.integers(0, len(rows)))
        # A slice shares the buffers of the whole, other rows included.
        batch = batch_of(entity, rows).slice(start)
        with tuning.tuned(spelled_rows_min=rows_min):
            lines = bytes(encoder.encode(batch)).split(b"\n")
        assert lines.pop() == b""
        found = [exact(json.loads(line, object_pairs_hook=list)) for line in lines]
        assert found == [exact(expected(entity, row)) for row in rows[start:]]


@given(st.data(), st.sampled_from(sorted(ENTITIES)))
def test_a_load_reads_back_what_an_export_wrote(data: st.DataObject, name: str) -> None:
    entity = ENTITIES[name]
    rows = [row for row in data.draw(rows_of(entity)) if row["id"]]
    batch = batch_of(entity, rows)
    text = bytes(LineEncoder(entity).encode(batch))
    out, stats = Violations(), DecodeStats()
    decoded = list(
        decode_ndjson([text], DecodeSpec(catalog=CATALOG), out, stats, file="f", is_start=True)
    )
    assert (out.items, stats.lines) == ((), len(rows))
    assert {item.entity.name for item in decoded} <= {name}
    found = pa.concat_tables([item.rows for item in decoded]) if decoded else None
    numbered = [] if found is None else found.select(batch.schema.names).to_batches()
    again = b"".join(bytes(LineEncoder(entity).encode(each)) for each in numbered)
    assert again == text
    assert found is None or plain_rows(found) == plain_rows(pa.Table.from_batches([batch]))


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Rows without the years that Python has no dates for in other zones."""
    for place, field in enumerate(table.schema):
        whole = {pa.timestamp("ms", "UTC"): pa.int64(), pa.date32(): pa.int32()}
        listed = {pa.list_(key): pa.list_(value) for key, value in whole.items()}
        if kind := {**whole, **listed}.get(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(kind))
    return [dict(sorted(row.items())) for row in table.to_pylist()]


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_singles_have_the_fewest_digits_that_read_back(numbers: list[float]) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"id": [""] * len(numbers), "x": pa.array(numbers, pa.float32())}
    )
    entity = compile_schema("node A { x: F32 }").nodes[0]
    for line, number in zip(
        bytes(LineEncoder(entity).encode(batch)).splitlines(), numbers, strict=True
    ):
        spelled = line.rpartition(b":")[2].rstrip(b"}").decode()
        assert np.float32(spelled) == np.float32(number)
        shortest = np.format_float_scientific(np.float32(number), unique=True, trim="-")
        assert len(digits(spelled)) <= len(digits(shortest))


def digits(spelled: str) -> str:
    """The significant digits of a number."""
    return spelled.lower().partition("e")[0].lstrip("-").replace(".", "").strip("0")
