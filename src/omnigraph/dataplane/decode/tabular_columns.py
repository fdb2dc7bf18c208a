"""Columns of any Arrow type, turned into columns as tables store them.

Strict: a value either is one of the stored type or it is a fault. Nothing is rounded but floats,
nothing is parsed but dates, moments and blobs, whose text is a form of theirs everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.dataplane.decode.convert import (
    ConversionFailed,
    blobs,
    dates,
    datetimes,
    days,
    moments,
    parse_blob,
)
from omnigraph.lang.values import (
    FLOATS,
    INT_RANGES,
    INTEGERS,
    Base,
    ValueType,
    parse_date,
    parse_datetime,
)
from omnigraph.rules.violation import Rule

Places: TypeAlias = npt.NDArray[np.int64]

_PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_PER_MILLI: Final = {"us": 1_000, "ns": 1_000_000}
_INT32: Final = INT_RANGES[Base.I32]
_INT64: Final = INT_RANGES[Base.I64]
_F32: Final = ValueType(Base.F32)


@dataclass(frozen=True, slots=True)
class CellFault:
    """Rows whose value is none of the type, ascending."""

    rule: Rule
    rows: Places


@dataclass(frozen=True, slots=True)
class Converted:
    """A column in its stored type. Rows with a fault have any value or none."""

    values: pa.Array
    faults: tuple[CellFault, ...] = ()


def convert(column: pa.Array, kind: ValueType) -> Converted:
    """Turn a column into the stored type of a property; nulls stay."""
    column = plain(column)
    if column.null_count == len(column) or pa.types.is_null(column.type):
        return Converted(pa.nulls(len(column), arrow_type(kind)))
    if kind.base is Base.VECTOR:
        return _vectors(column, kind)
    if kind.is_list:
        return _lists(column, kind)
    return _SCALARS[kind.base](column, kind)


def plain(column: pa.Array) -> pa.Array:
    """The values of a column as they are, without dictionaries and other wrapping."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column.type, pa.BaseExtensionType):
        return plain(column.storage)
    if pa.types.is_dictionary(column.type):
        return plain(_spelled_out(column))
    if pa.types.is_run_end_encoded(column.type):
        return plain(pc.run_end_decode(column))
    return column


def _spelled_out(column: pa.DictionaryArray) -> pa.Array:
    # Arrow cannot pick from the views that some libraries put into a dictionary.
    values = column.dictionary
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        is_text = pa.types.is_string_view(values.type)
        values = values.cast(pa.large_string() if is_text else pa.large_binary())
        column = pa.DictionaryArray.from_arrays(column.indices, values)
    return column.dictionary_decode()


def is_text(kind: pa.DataType) -> bool:
    """True for the types of text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


# -- scalars ---------------------------------------------------------------------------------------


def _mismatch(column: pa.Array, kind: ValueType) -> Converted:
    """No value of the column is one of the type."""
    return _faulty(pa.nulls(len(column), arrow_type(kind)), _mask(column.is_valid()))


def _faulty(values: pa.Array, bad: npt.NDArray[np.bool_]) -> Converted:
    rows = np.flatnonzero(bad)
    return Converted(values, (CellFault(Rule.TYPE, rows),) if len(rows) else ())


def _mask(values: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return found


def _booleans(column: pa.Array, kind: ValueType) -> Converted:
    return Converted(column) if pa.types.is_boolean(column.type) else _mismatch(column, kind)


def _texts(column: pa.Array, kind: ValueType) -> Converted:
    return as_texts(column) if is_text(column.type) else _mismatch(column, kind)


def as_texts(column: pa.Array) -> Converted:
    """Texts of any type, checked to be valid UTF-8."""
    # From foreign hands: Arrow checks texts only when they were bytes before.
    data = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
    try:
        return Converted(data.cast(pa.string()))
    except pa.ArrowInvalid:
        texts = [None if item is None else _decoded(item) for item in data.to_pylist()]
        values = pa.array(texts, pa.string())
        return _faulty(values, _mask(pc.and_(values.is_null(), data.is_valid())))


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _integers(column: pa.Array, kind: ValueType) -> Converted:
    return _whole_numbers(column, kind, arrow_type(kind), INT_RANGES[kind.base])


def _whole_numbers(
    column: pa.Array, kind: ValueType, target: pa.DataType, bounds: tuple[int, int]
) -> Converted:
    source = column.type
    # Spark has no unsigned integers: a U64 comes as a decimal without a fraction.
    is_whole = pa.types.is_decimal(source) and source.scale == 0
    if not is_whole and not pa.types.is_integer(source):
        return _mismatch(column, kind)
    try:
        return Converted(column.cast(target))
    except pa.ArrowInvalid:
        low, high = bounds
        numbers = [None if n is None else int(n) for n in column.to_pylist()]
        bad = np.array([n is not None and not low <= n <= high for n in numbers])
        return _faulty(pa.array(numbers, target, mask=bad), bad)


def _floats(column: pa.Array, kind: ValueType) -> Converted:
    source, target = column.type, arrow_type(kind)
    is_number = pa.types.is_floating(source) or pa.types.is_integer(source)
    if not is_number and not pa.types.is_decimal(source):
        return _mismatch(column, kind)
    values = column.cast(target, safe=False)
    if source == target or pa.types.is_float16(source):
        return Converted(values)
    # Whether a number is finite is a rule of rows; one that was is not to become infinite.
    bad = pc.invert(pc.is_finite(values))
    if pa.types.is_floating(source):
        bad = pc.and_(bad, pc.is_finite(column))
    return _faulty(values, _mask(bad.fill_null(False)))


def _blobs(column: pa.Array, kind: ValueType) -> Converted:
    source = column.type
    if is_text(source):
        return _parsed(column, kind, blobs, parse_blob)
    if pa.types.is_fixed_size_binary(source):
        column = column.cast(pa.binary())
    elif not (
        pa.types.is_binary(source)
        or pa.types.is_large_binary(source)
        or pa.types.is_binary_view(source)
    ):
        return _mismatch(column, kind)
    return Converted(column.cast(pa.large_binary()))


def _parsed(
    column: pa.Array,
    kind: ValueType,
    fast: Callable[[pa.Array], pa.Array],
    slow: Callable[[str], int | bytes | None],
) -> Converted:
    """Converts texts all at once, and one at a time if one of them is faulty."""
    texts = as_texts(column)
    try:
        if not texts.faults:
            return Converted(fast(texts.values))
    except ConversionFailed:
        pass
    found = [None if text is None else slow(text) for text in texts.values.to_pylist()]
    values = pa.array(found, arrow_type(kind))
    return _faulty(values, _mask(pc.and_(values.is_null(), column.is_valid())))


# -- dates and moments -----------------------------------------------------------------------------


def _dates(column: pa.Array, kind: ValueType) -> Converted:
    source = column.type
    if pa.types.is_date32(source):
        return Converted(column)
    if is_text(source):
        return _parsed(column, kind, dates, parse_date)
    if pa.types.is_integer(source):
        numbers = _whole_numbers(column, kind, pa.int32(), _INT32)
        return Converted(days(numbers.values), numbers.faults)
    unit = _unit(source)
    if unit is None:
        return _mismatch(column, kind)
    # A moment is a date if it is the beginning of a day.
    found, rest = np.divmod(_ticks(column), _PER_DAY[unit])
    bad = (rest != 0) | (found < _INT32[0]) | (found > _INT32[1])
    return _with_nulls(np.where(bad, 0, found).astype(np.int32), column, bad, pa.date32())


def _moments(column: pa.Array, kind: ValueType) -> Converted:
    source = column.type
    if is_text(source):
        return _parsed(column, kind, datetimes, parse_datetime)
    if pa.types.is_integer(source):
        numbers = _whole_numbers(column, kind, pa.int64(), _INT64)
        return Converted(moments(numbers.values), numbers.faults)
    if pa.types.is_date32(source):
        found = _ticks(column) * _PER_DAY["ms"]
        return _with_nulls(found, column, np.zeros(len(found), np.bool_), arrow_type(kind))
    unit = _unit(source)
    if unit is None:
        return _mismatch(column, kind)
    ticks = _ticks(column)
    bad = np.zeros(len(ticks), np.bool_)
    if unit == "s":
        bad = np.abs(ticks.astype(np.float64)) > _INT64[1] // 1_000
        ticks = np.where(bad, 0, ticks) * 1_000
    elif unit in _PER_MILLI:
        ticks = ticks // _PER_MILLI[unit]  # towards the past, as one cuts digits off
    return _with_nulls(ticks, column, bad, arrow_type(kind))


def _unit(source: pa.DataType) -> str | None:
    if pa.types.is_date64(source):
        return "ms"
    if not pa.types.is_timestamp(source):
        return None
    # With a zone it counts from 1970 in UTC; without one it is taken for UTC.
    unit: str = source.unit
    return unit


def _ticks(column: pa.Array) -> npt.NDArray[np.int64]:
    width = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
    numbers = column.view(width).cast(pa.int64()).fill_null(0)
    found: npt.NDArray[np.int64] = numbers.to_numpy(zero_copy_only=False)
    return found


def _with_nulls(
    numbers: npt.NDArray[Any],
    column: pa.Array,
    bad: npt.NDArray[np.bool_],
    target: pa.DataType,
) -> Converted:
    missing = _mask(column.is_null())
    values = pa.array(numbers, mask=missing | bad).view(target)
    return _faulty(values, bad & ~missing)


_SCALARS: Final[dict[Base, Callable[[pa.Array, ValueType], Converted]]] = {
    Base.STRING: _texts,
    Base.BOOL: _booleans,
    **dict.fromkeys(INTEGERS, _integers),
    **dict.fromkeys(FLOATS, _floats),
    Base.DATE: _dates,
    Base.DATETIME: _moments,
    Base.BLOB: _blobs,
}


# -- lists and vectors -----------------------------------------------------------------------------


def is_list(kind: pa.DataType) -> bool:
    """True for the types of lists."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    lengths = pc.list_value_length(column).fill_null(0)
    found: npt.NDArray[np.int64] = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    # The length of a null in a list of fixed size is that size.
    found[_mask(column.is_null())] = 0
    return found


def _lists(column: pa.Array, kind: ValueType) -> Converted:
    if not is_list(column.type):
        return _mismatch(column, kind)
    lengths = _lengths(column)
    ends = np.cumsum(lengths)
    elements = convert(column.flatten(), kind.element())
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    values = pa.ListArray.from_arrays(
        pa.array(offsets), elements.values, mask=column.is_null() if column.null_count else None
    )
    return Converted(values, _owned(elements.faults, ends, np.arange(len(column))))


def _owned(faults: tuple[CellFault, ...], ends: Places, rows: Places) -> tuple[CellFault, ...]:
    """Faults of elements as faults of the rows whose lists they are in."""
    return tuple(
        CellFault(fault.rule, rows[np.unique(np.searchsorted(ends, fault.rows, side="right"))])
        for fault in faults
    )


def _vectors(column: pa.Array, kind: ValueType) -> Converted:
    target = arrow_type(kind)
    if column.type == target:
        return Converted(column)
    if not is_list(column.type):
        return _mismatch(column, kind)
    lengths, known = _lengths(column), _mask(column.is_valid())
    good = known & (lengths == kind.dim)
    rows = np.flatnonzero(good)
    kept = column if good.all() else column.filter(pa.array(good))
    elements = convert(kept.flatten(), _F32)
    values = pa.FixedSizeListArray.from_arrays(elements.values, kind.dim)
    if len(rows) < len(column):
        # The good ones to their places, the others null.
        values = values.take(pa.array(np.cumsum(good) - 1, mask=~good))
    faults = list(_owned(elements.faults, np.cumsum(lengths[rows]), rows))
    wrong = np.flatnonzero(known & ~good)
    if len(wrong):
        faults.append(CellFault(Rule.VECTOR_LENGTH, wrong))
    return Converted(values, tuple(faults))
