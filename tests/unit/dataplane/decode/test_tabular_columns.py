"""Foreign Arrow columns into stored ones: what fits, what does not, and what is said of it."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.dataplane.decode.tabular import reason
from omnigraph.dataplane.decode.tabular_columns import Converted, convert
from omnigraph.lang.values import Base, ValueType

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12, 30, 15, 123_000, tzinfo=dt.UTC)


def of(base: Base, *, is_list: bool = False, dim: int = 0) -> ValueType:
    return ValueType(base, nullable=True, is_list=is_list, dim=dim)


def stored(column: pa.Array, kind: ValueType) -> list[Any]:
    """The values of a column that fits, which must have the stored type."""
    found = convert(column, kind)
    assert found.faults == ()
    return typed(found, column, kind)


def typed(found: Converted, column: pa.Array, kind: ValueType) -> list[Any]:
    assert found.values.type == arrow_type(kind)
    assert len(found.values) == len(column)
    found.values.validate(full=True)
    values: list[Any] = found.values.to_pylist()
    return values


def faults(column: pa.Array, kind: ValueType) -> dict[int, str]:
    """What is wrong, by row."""
    found = convert(column, kind)
    typed(found, column, kind)
    return {
        int(row): reason(column, int(row), kind)[1] for fault in found.faults for row in fault.rows
    }


# -- texts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
        pa.run_end_encoded(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_texts_of_every_type(kind: pa.DataType) -> None:
    column = pa.array(["a", None, "", "ü", "a"]).cast(pa.string())
    column = column.cast(kind) if not pa.types.is_run_end_encoded(kind) else encoded(column)
    assert stored(column, of(Base.STRING)) == ["a", None, "", "ü", "a"]
    assert stored(column.slice(2, 2), of(Base.STRING)) == ["", "ü"]


def encoded(column: pa.Array) -> pa.Array:
    return pa.compute.run_end_encode(column)


def test_texts_that_are_not_utf8() -> None:
    data = pa.array([b"ok", b"\xff\xfe", None, b"\xc3"], pa.binary())
    column = pa.Array.from_buffers(pa.string(), 4, data.buffers())
    found = convert(column, of(Base.STRING))
    assert found.values.to_pylist() == ["ok", None, None, None]
    assert faults(column, of(Base.STRING)) == {
        1: "the text is not UTF-8",
        3: "the text is not UTF-8",
    }
    assert 1 in faults(column, of(Base.DATE))


def test_nothing_but_nulls_is_of_every_type() -> None:
    for kind in (of(Base.I32), of(Base.VECTOR, dim=3), of(Base.STRING, is_list=True)):
        assert stored(pa.nulls(2), kind) == [None, None]
        assert stored(pa.nulls(2, pa.duration("s")), kind) == [None, None]
        assert stored(pa.array([], pa.int64()), kind) == []


# -- numbers ---------------------------------------------------------------------------------------

BOUNDS = {
    Base.I32: (-(2**31), 2**31 - 1),
    Base.I64: (-(2**63), 2**63 - 1),
    Base.U32: (0, 2**32 - 1),
    Base.U64: (0, 2**64 - 1),
}
INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("base", list(BOUNDS))
@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integers_that_fit_and_those_that_do_not(base: Base, kind: pa.DataType) -> None:
    low, high = BOUNDS[base]
    width = kind.bit_width
    least, most = (
        (0, 2**width - 1) if str(kind)[0] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    )
    edges = [least, most, 0, 1, *(n for n in (low, high, low - 1, high + 1) if least <= n <= most)]
    column = pa.array([*edges, None], kind)
    wrong = {row for row, number in enumerate(edges) if not low <= number <= high}
    if not wrong:
        assert stored(column, of(base)) == [*edges, None]
        return
    found = convert(column, of(base))
    assert faults(column, of(base)) == {
        row: f"{edges[row]} is out of range of {base}" for row in wrong
    }
    good = [found.values[row].as_py() for row in range(len(edges)) if row not in wrong]
    assert good == [number for row, number in enumerate(edges) if row not in wrong]


def test_decimals_without_a_fraction_are_integers() -> None:
    column = pa.array([Decimal(2**64 - 1), None, Decimal(0)], pa.decimal128(20, 0))
    assert stored(column, of(Base.U64)) == [2**64 - 1, None, 0]
    assert faults(column, of(Base.I64)) == {0: f"{2**64 - 1} is out of range of I64"}
    wide = pa.array([Decimal(-1), Decimal(10**30)], pa.decimal256(40, 0))
    assert set(faults(wide, of(Base.U64))) == {0, 1}
    assert set(faults(pa.array([Decimal("1.0")], pa.decimal128(5, 1)), of(Base.I64))) == {0}


def test_what_is_no_integer() -> None:
    hint = "; the column holds floats: cast it to integers first (pandas: astype('Int64'))"
    assert faults(pa.array([1.0, None, 2.5]), of(Base.I32)) == {
        0: f"expected I32, got 1.0{hint}",
        2: f"expected I32, got 2.5{hint}",
    }
    assert faults(pa.array([True]), of(Base.I64)) == {0: "expected I64, got true"}
    assert faults(pa.array(["1"]), of(Base.U64)) == {0: "expected U64, got text '1'"}
    assert faults(pa.array([DAY]), of(Base.I32)) == {
        0: "expected I32, got date32[day] '2024-02-29'"
    }
    assert faults(pa.array([b"1"]), of(Base.I32)) == {0: "expected I32, got binary"}
    assert faults(pa.array([{"a": 1}]), of(Base.I32)) == {0: "expected I32, got struct<a: int64>"}


def test_floats() -> None:
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        column = pa.array(np.array([1.5, -2.0, 0.0], kind.to_pandas_dtype()))
        for base in (Base.F32, Base.F64):
            assert stored(column, of(base)) == [1.5, -2.0, 0.0]
    assert stored(pa.array([1, None, 2**53 + 1]), of(Base.F64)) == [1.0, None, float(2**53)]
    assert stored(pa.array([2**24 + 1]), of(Base.F32)) == [float(2**24)]
    assert stored(pa.array([Decimal("1.25")]), of(Base.F32)) == [1.25]


def test_floats_beyond_the_range() -> None:
    column = pa.array([1e39, 1.0, None, -1e300, 3.4028234663852886e38])
    assert faults(column, of(Base.F32)) == {
        0: "1e+39 is out of range of F32",
        3: "-1e+300 is out of range of F32",
    }
    assert stored(column, of(Base.F64)) == column.to_pylist()


def test_what_is_not_finite_is_left_to_the_rules_of_rows() -> None:
    column = pa.array([float("inf"), float("-inf")])
    for base in (Base.F32, Base.F64):
        assert stored(column, of(base)) == [float("inf"), float("-inf")]
    assert np.isnan(stored(pa.array([float("nan")]), of(Base.F32))[0])


def test_what_is_no_float() -> None:
    assert set(faults(pa.array(["1.5"]), of(Base.F64))) == {0}
    assert set(faults(pa.array([True]), of(Base.F64))) == {0}


def test_booleans() -> None:
    assert stored(pa.array([True, None, False]), of(Base.BOOL)) == [True, None, False]
    assert faults(pa.array([1, None, 0]), of(Base.BOOL)) == {
        0: "expected Bool, got 1",
        2: "expected Bool, got 0",
    }
    assert set(faults(pa.array(["true"]), of(Base.BOOL))) == {0}


# -- dates and moments -----------------------------------------------------------------------------

MIDNIGHT = dt.datetime(2024, 2, 29)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([DAY, None]),
        pa.array([DAY, None], pa.date64()),
        pa.array(["2024-02-29", None]),
        pa.array(["2024-02-29", None]).dictionary_encode(),
        pa.array([19782, None], pa.int16()),
        pa.array([19782, None], pa.uint64()),
        *(pa.array([MIDNIGHT, None], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
        pa.array([MIDNIGHT, None], pa.timestamp("us", "UTC")),
    ],
    ids=lambda column: str(column.type),
)
def test_dates(column: pa.Array) -> None:
    assert stored(column, of(Base.DATE)) == [DAY, None]


def test_what_is_no_date() -> None:
    column = pa.array(["2024-02-29", "29.2.2024", None, "2023-02-29", "0000-01-01"])
    assert faults(column, of(Base.DATE)) == {
        1: "expected Date, got text '29.2.2024'",
        3: "expected Date, got text '2023-02-29'",
        4: "expected Date, got text '0000-01-01'",
    }
    assert set(faults(pa.array([2**31, 5]), of(Base.DATE))) == {0}
    assert set(faults(pa.array([1.0]), of(Base.DATE))) == {0}
    moments = pa.array([NOON.replace(tzinfo=None), MIDNIGHT], pa.timestamp("us"))
    assert faults(moments, of(Base.DATE)) == {
        0: "expected Date, got timestamp[us] '2024-02-29 12:30:15.123000'"
    }
    far = pa.array([2**62], pa.int64()).view(pa.timestamp("s"))
    assert set(faults(far, of(Base.DATE))) == {0}


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["2024-02-29T12:30:15.123Z", None]),
        pa.array(["2024-02-29 12:30:15.1239+00:00", None], pa.large_string()),
        pa.array(["2024-02-29T14:30:15.123456789+0200", None], pa.string_view()),
        pa.array([1_709_209_815_123, None]),
        *(
            pa.array([NOON, None], pa.timestamp(unit, zone))
            for unit in ("ms", "us", "ns")
            for zone in ("UTC", "+02:00", "Europe/Berlin")
        ),
        pa.array([NOON.replace(tzinfo=None), None], pa.timestamp("us")),
    ],
    ids=lambda column: str(column.type),
)
def test_moments(column: pa.Array) -> None:
    assert stored(column, of(Base.DATETIME)) == [NOON, None]


def test_moments_of_other_precision() -> None:
    whole = NOON.replace(microsecond=0)
    seconds = pa.array([whole.replace(tzinfo=None), None], pa.timestamp("s"))
    assert stored(seconds, of(Base.DATETIME)) == [whole, None]
    midnight = dt.datetime(2024, 2, 29, tzinfo=dt.UTC)
    assert stored(pa.array([DAY, None]), of(Base.DATETIME)) == [midnight, None]
    assert stored(pa.array([DAY, None], pa.date64()), of(Base.DATETIME)) == [midnight, None]
    # Digits are cut off towards the past, as those of a text are.
    before = pa.array([-1], pa.int64()).view(pa.timestamp("ns"))
    expected = EPOCH - dt.timedelta(milliseconds=1)
    assert stored(before, of(Base.DATETIME)) == [expected]
    assert stored(pa.array(["1969-12-31T23:59:59.999999Z"]), of(Base.DATETIME)) == [expected]


def test_what_is_no_moment() -> None:
    assert set(faults(pa.array(["2024-02-29T12:30:15Z", "noon"]), of(Base.DATETIME))) == {1}
    far = pa.array([2**60, 0], pa.int64()).view(pa.timestamp("s"))
    assert set(faults(far, of(Base.DATETIME))) == {0}
    assert set(faults(pa.array([2**63], pa.uint64()), of(Base.DATETIME))) == {0}
    assert set(faults(pa.array([dt.time(1)]), of(Base.DATETIME))) == {0}
    assert set(faults(pa.array([dt.timedelta(1)]), of(Base.DATETIME))) == {0}


# -- blobs, lists, vectors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)], ids=str
)
def test_blobs(kind: pa.DataType) -> None:
    assert stored(pa.array([b"hi", None], kind), of(Base.BLOB)) == [b"hi", None]


def test_blobs_as_texts() -> None:
    column = pa.array(["base64:aGk=", None, "base64:", "hi", "base64:?", "base64:aGk"])
    assert set(faults(column, of(Base.BLOB))) == {3, 4, 5}
    found = convert(column, of(Base.BLOB)).values.to_pylist()
    assert found[:3] == [b"hi", None, b""]
    assert set(faults(pa.array([1]), of(Base.BLOB))) == {0}


LISTS = [
    pa.list_(pa.int32()),
    pa.large_list(pa.int64()),
    pa.list_view(pa.uint8()),
    pa.large_list_view(pa.int16()),
]


@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_lists(kind: pa.DataType) -> None:
    values = [[1, 2], None, [], [3, None], [4]]
    column = pa.array(values, kind)
    assert stored(column, of(Base.I64, is_list=True)) == values
    assert stored(column.slice(1, 3), of(Base.I64, is_list=True)) == values[1:4]


def test_lists_of_one_length() -> None:
    column = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int16(), 2))
    assert stored(column, of(Base.I64, is_list=True)) == [[1, 2], None, [3, 4]]
    assert stored(column.slice(1), of(Base.I64, is_list=True)) == [None, [3, 4]]


def test_lists_of_dates_and_texts() -> None:
    days = pa.array([["2024-02-29"], None, [None, "1970-01-01"]])
    assert stored(days, of(Base.DATE, is_list=True)) == [
        [DAY],
        None,
        [None, dt.date(1970, 1, 1)],
    ]
    words = pa.array([["a"], ["b", "ü"]], pa.list_(pa.dictionary(pa.int8(), pa.string())))
    assert stored(words, of(Base.STRING, is_list=True)) == [["a"], ["b", "ü"]]


def test_an_element_that_does_not_fit_is_a_fault_of_its_row() -> None:
    column = pa.array([[1], None, [2, 2**40, 2**41], [], [-(2**40)], [3]])
    kind = of(Base.I32, is_list=True)
    assert faults(column, kind) == {
        2: f"in the list: {2**40} is out of range of I32",
        4: f"in the list: {-(2**40)} is out of range of I32",
    }
    assert faults(column.slice(2, 1), kind) == {0: f"in the list: {2**40} is out of range of I32"}
    assert set(faults(pa.array([1, 2]), kind)) == {0, 1}
    assert set(faults(pa.array(["a"]), of(Base.STRING, is_list=True))) == {0}
    assert set(faults(pa.array([["a"]]), of(Base.STRING))) == {0}


VECTOR = of(Base.VECTOR, dim=3)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float32()),
        pa.list_(pa.float64()),
        pa.large_list(pa.float32()),
        pa.list_view(pa.float32()),
        pa.list_(pa.float32(), 3),
        pa.list_(pa.float64(), 3),
        pa.list_(pa.int8()),
    ],
    ids=str,
)
def test_vectors(kind: pa.DataType) -> None:
    values = [[1, 2, 3], None, [4, 5, 6], [0, 0, 0]]
    column = pa.array(values, kind)
    assert stored(column, VECTOR) == values
    assert stored(column.slice(1, 2), VECTOR) == values[1:3]
    assert stored(column.slice(2), VECTOR) == values[2:]


def test_a_vector_that_is_stored_as_it_comes_is_not_copied() -> None:
    column = pa.array([[1, 2, 3], None], pa.list_(pa.float32(), 3))
    assert convert(column, VECTOR).values is column


def test_vectors_of_the_wrong_length() -> None:
    column = pa.array([[1.0, 2.0], [1.0, 2.0, 3.0], None, [], [4.0, 5.0, 6.0]])
    found = convert(column, VECTOR)
    assert [fault.rule.value for fault in found.faults] == ["vector_length"]
    assert faults(column, VECTOR) == {
        0: "expected Vector(3), got a vector of 2",
        3: "expected Vector(3), got a vector of 0",
    }
    assert found.values.to_pylist() == [None, [1, 2, 3], None, None, [4, 5, 6]]
    assert set(faults(pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), VECTOR)) == {0}


def test_elements_of_vectors() -> None:
    column = pa.array([[1.0, 1e39, 3.0], [1.0, 2.0], [1.0, 2.0, 3.0], [1e39, 1e39, 0.0]])
    assert faults(column, VECTOR) == {
        0: "1e+39 is out of range of F32",
        1: "expected Vector(3), got a vector of 2",
        3: "1e+39 is out of range of F32",
    }
    assert set(faults(pa.array([["a", "b", "c"]]), VECTOR)) == {0}
    assert set(faults(pa.array(["[1,2,3]"]), VECTOR)) == {0}
    # Missing elements are left to the rules of rows.
    assert stored(pa.array([[1.0, None, 3.0]]), VECTOR) == [[1.0, None, 3.0]]
