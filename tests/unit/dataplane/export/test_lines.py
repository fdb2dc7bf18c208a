"""The lines of an export: spellings one by one, and the tables that make them fast."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.dataplane import tuning
from omnigraph.dataplane.export import small_numbers
from omnigraph.dataplane.export.cells import escaped
from omnigraph.dataplane.export.files import LineEncoder
from omnigraph.lang import compile_schema
from omnigraph.lang.values import DAYS, INT_RANGES, Base, ValueType


def spelled(kind: str, values: list[Any], plain: pa.DataType | None = None) -> list[str]:
    """How values of a type come out, without the envelope."""
    entity = compile_schema(f"node A {{ x: {kind}? }}").nodes[0]
    target = arrow_type(entity.properties[0].type)
    column = pa.array(values, plain or target).cast(target)
    batch = pa.RecordBatch.from_pydict({"id": [""] * len(values), "x": column})
    *lines, end = bytes(LineEncoder(entity).encode(batch)).decode().split("\n")
    assert end == ""
    start, end = '{"type":"A","data":{"id":"","x":', "}}"
    assert all(line.startswith(start) and line.endswith(end) for line in lines)
    return [line.removeprefix(start).removesuffix(end) for line in lines]


def test_numbers() -> None:
    assert spelled("U64", [2**64 - 1, 0, None]) == ["18446744073709551615", "0", "null"]
    assert spelled("I64", [-(2**63)]) == ["-9223372036854775808"]
    assert spelled("F64", [0.1, -0.0, 0.0, 1e300, 5e-324, None]) == [
        *("0.1", "-0.0", "0", "1e+300", "5e-324", "null")
    ]
    assert spelled("F32", [0.1, 16777216.0, 1e-45, 3.4028234663852886e38]) == [
        *("0.1", "16777216", "1e-45", "3.4028235e+38")
    ]
    assert spelled("Bool", [True, False, None]) == ["true", "false", "null"]


def test_dates() -> None:
    days = [DAYS.start, -1, 0, DAYS.stop - 1, None]
    assert spelled("Date", days, pa.int32()) == [
        *('"0001-01-01"', '"1969-12-31"', '"1970-01-01"', '"9999-12-31"', "null")
    ]
    millis = [DAYS.start * 86_400_000, -1, 0, DAYS.stop * 86_400_000 - 1, None]
    assert spelled("DateTime", millis, pa.int64()) == [
        '"0001-01-01T00:00:00.000Z"',
        '"1969-12-31T23:59:59.999Z"',
        '"1970-01-01T00:00:00.000Z"',
        '"9999-12-31T23:59:59.999Z"',
        "null",
    ]
    assert spelled("DateTime", [None, None]) == ["null", "null"]


def test_texts_lists_vectors_and_blobs() -> None:
    assert spelled("String", ['a"\\\n\x01\x7f', "é\u2028🌍", "", None]) == [
        *('"a\\"\\\\\\n\\u0001\x7f"', '"é\u2028🌍"', '""', "null")
    ]
    assert spelled("[String]", [["a", '"'], [], [""], None]) == [
        *('["a","\\""]', "[]", '[""]', "null")
    ]
    assert spelled("[I32]", [[1, None, 3], []]) == ["[1,null,3]", "[]"]
    assert spelled("Vector(2)", [[0.5, -0.0], None]) == ["[0.5,-0.0]", "null"]
    assert spelled("Blob", [b"", b"\x00\xff", None]) == ['"base64:"', '"base64:AP8="', "null"]


def test_a_type_without_properties() -> None:
    catalog = compile_schema("node A { x: I32? }  edge E: A -> A")
    batch = pa.RecordBatch.from_pydict({"id": ["1"], "src": ["a"], "dst": ["b"]})
    line = bytes(LineEncoder(catalog.edges[0]).encode(batch))
    assert line == b'{"edge":"E","from":"a","to":"b","data":{"id":"1"}}\n'
    assert bytes(LineEncoder(catalog.edges[0]).encode(batch.slice(1))) == b""


def test_only_texts_that_need_it_are_escaped() -> None:
    plain = pa.array(["a", None, "b"])
    assert escaped(plain) is plain
    assert escaped(pa.array([], pa.string())).to_pylist() == []
    assert escaped(pa.array([None, None], pa.string())).to_pylist() == [None, None]
    every = "".join(map(chr, range(128)))
    mixed = pa.array(["x", every, None, "", '"'])
    assert escaped(mixed)[1].as_py() == json.dumps(every, ensure_ascii=False)[1:-1]
    assert escaped(mixed.slice(2)).to_pylist() == [None, "", '\\"']


def test_bytes_below_a_null_mean_nothing() -> None:
    validity = pa.py_buffer(bytes([0b101]))
    offsets = pa.py_buffer(np.array([0, 1, 3, 4], np.int32))
    texts = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b'a"\n"'), validity)
    assert escaped(texts).to_pylist() == ["a", None, '\\"']


# -- small numbers ---------------------------------------------------------------------------------

INT = ValueType(Base.I32, nullable=True)


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> small_numbers.SmallNumbers:
    monkeypatch.setattr(tuning.active, "spelled_rows_min", 1)
    monkeypatch.setattr(tuning.active, "spelled_numbers_max", 100)
    return small_numbers.SmallNumbers()


def test_close_numbers_are_looked_up(numbers: small_numbers.SmallNumbers) -> None:
    for values in ([5, None, 7], [0, -3], [90], [None, 90]):
        found = numbers.spelled("x=", pa.array(values, pa.int32()), INT)
        assert found is not None
        assert found.to_pylist() == [f"x={'null' if v is None else v}" for v in values]


def test_numbers_far_apart_are_not(numbers: small_numbers.SmallNumbers) -> None:
    assert numbers.spelled("x=", pa.array([0, 50], pa.int32()), INT) is not None
    assert numbers.spelled("x=", pa.array([0, 100], pa.int32()), INT) is None
    # And nobody tries again.
    assert numbers.spelled("x=", pa.array([0, 50], pa.int32()), INT) is None
    assert numbers.spelled("y=", pa.array([0, 50], pa.int32()), INT) is not None


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        (Base.I32, pa.int32()),
        (Base.U32, pa.uint32()),
        (Base.I64, pa.int64()),
        (Base.U64, pa.uint64()),
    ],
)
def test_tables_stop_where_the_type_does(
    numbers: small_numbers.SmallNumbers, base: Base, kind: pa.DataType
) -> None:
    for edge, inside in zip(INT_RANGES[base], (1, -1), strict=True):
        label = f"{edge}="
        for value in (edge + 5 * inside, edge + inside, edge):
            found = numbers.spelled(label, pa.array([value], kind), ValueType(base))
            assert found is None or found.to_pylist() == [f"{label}{value}"]


def test_what_has_no_number_has_no_table(numbers: small_numbers.SmallNumbers) -> None:
    assert numbers.spelled("x=", pa.array([None], pa.int32()), INT) is None
    assert numbers.spelled("x=", pa.array(["a"]), ValueType(Base.STRING)) is None
    listed = ValueType(Base.I32, is_list=True)
    assert numbers.spelled("x=", pa.array([[1]], pa.list_(pa.int32())), listed) is None
    flags = numbers.spelled("x=", pa.array([True, None, False]), ValueType(Base.BOOL))
    assert flags is not None
    assert flags.to_pylist() == ["x=true", "x=null", "x=false"]
