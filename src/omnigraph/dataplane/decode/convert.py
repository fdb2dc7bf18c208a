"""Columns as an input spells them, turned into columns as tables store them.

Each function takes a whole column and gives a whole column, nulls included, or raises
`ConversionFailed`, which does not say which row is wrong. The values are exactly those
of `omnigraph.lang.values`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.values import DAYS, MILLIS, parse_datetime

BLOB_PREFIX: Final = "base64:"

_DATE: Final = pa.date32()
_MOMENT: Final = pa.timestamp("ms", tz="UTC")
_SHORTEST: Final = "2024-03-31T12:00"


class ConversionFailed(Exception):
    """Some value of a column is not of its type."""


def rows_schema(entity: EntityType) -> pa.Schema:
    """The columns of decoded rows: those of the type's table, and all of them nullable."""
    return pa.schema([field.with_nullable(True) for field in table_schema(entity)])


# -- dates and moments -----------------------------------------------------------------------------


def dates(texts: pa.Array) -> pa.Date32Array:
    """Dates from texts such as `2024-03-31`.

    Raises:
        ConversionFailed: A text is no date.
    """
    try:
        found = texts.cast(_DATE)
    except pa.ArrowInvalid:
        raise ConversionFailed from None  # Arrow takes every text that is a date
    least = pc.min(found.cast(pa.int32())).as_py()
    if least is not None and least < DAYS.start:  # the year 0000
        raise ConversionFailed
    return found


def datetimes(texts: pa.Array) -> pa.TimestampArray:
    """Moments from texts such as `2024-03-31T12:00:00Z`.

    Raises:
        ConversionFailed: A text is no date-time.
    """
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), _MOMENT)
    form = _common_form(texts)
    found = None if form is None else _cast_moments(texts, form)
    return _parsed(texts) if found is None else found


def days(numbers: pa.Array) -> pa.Date32Array:
    """Dates from day numbers, as 32-bit integers. The range of years is a rule of rows."""
    return numbers.view(_DATE)


def moments(numbers: pa.Array) -> pa.TimestampArray:
    """Moments from milliseconds, as 64-bit integers. The range of years is a rule of rows."""
    return numbers.view(_MOMENT)


def _common_form(texts: pa.Array) -> pa.DataType | None:
    """The type that Arrow can cast all texts to; None if it does not know some spellings.

    Arrow also takes an hour without minutes and an offset without minutes, which are no
    date-times here. The lengths and the last bytes show whether there can be any. They also show
    whether there are digits below a millisecond: a cast that fails takes its time.
    """
    known = texts.is_valid().to_numpy(zero_copy_only=False)
    offsets = _offsets(texts)
    lengths = np.diff(offsets)[known]
    if int(lengths.min()) < len(_SHORTEST):
        return None
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    last = offsets[1:][known] - 1
    sign = data[last - 5]
    zones = np.zeros(len(last), np.int64)  # how long they are
    zones[((sign == ord("+")) | (sign == ord("-"))) & (data[last - 2] == ord(":"))] = 6
    zones[data[last] == ord("Z")] = 1
    bodies = lengths - zones
    if int(bodies.min()) < len(_SHORTEST) or (zones.any() and not zones.all()):
        return None
    longest = int(bodies.max()) - len("2024-03-31T12:00:00.")
    if longest > 6:
        return None
    return pa.timestamp("us" if longest > 3 else "ms", tz="UTC" if zones.any() else None)


def _offsets(texts: pa.Array) -> npt.NDArray[np.int64]:
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    offsets = np.frombuffer(texts.buffers()[1], kind)
    return offsets[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)


def _cast_moments(texts: pa.Array, form: pa.DataType) -> pa.TimestampArray | None:
    try:
        found = texts.cast(form).cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    if form.unit == "us":
        # Towards the past, as one cuts digits off: Arrow's own division cuts towards 1970.
        numbers = found.fill_null(0).to_numpy(zero_copy_only=False) // 1000
        found = pa.array(numbers, mask=texts.is_null().to_numpy(zero_copy_only=False))
    bounds = pc.min_max(found).as_py()
    if bounds["min"] not in MILLIS or bounds["max"] not in MILLIS:
        return None
    return found.view(_MOMENT)


def _parsed(texts: pa.Array) -> pa.TimestampArray:
    """Converts texts one at a time, for spellings that Arrow does not know."""
    numbers: list[int | None] = []
    for text in texts.to_pylist():
        number = None if text is None else parse_datetime(text)
        if number is None and text is not None:
            raise ConversionFailed
        numbers.append(number)
    return pa.array(numbers, _MOMENT)


# -- numbers, vectors, blobs -----------------------------------------------------------------------


def finite(numbers: pa.Array) -> pa.Array:
    """The same floats.

    Raises:
        ConversionFailed: One of them is infinite or no number.
    """
    if not _is_finite(numbers):
        raise ConversionFailed
    return numbers


def vectors(lists: pa.ListArray, dim: int) -> pa.FixedSizeListArray:
    """Vectors from lists of 32-bit floats; without a copy, unless some are null.

    Raises:
        ConversionFailed: A list is longer or shorter, an element is missing or not finite.
    """
    if lists.null_count == len(lists):
        return pa.nulls(len(lists), pa.list_(pa.float32(), dim))
    lengths = np.diff(lists.offsets.to_numpy())
    known = lists.is_valid().to_numpy(zero_copy_only=False)
    if (lengths[known] != dim).any():
        raise ConversionFailed
    elements = lists.flatten()
    if elements.null_count or not _is_finite(elements):
        raise ConversionFailed
    found = pa.FixedSizeListArray.from_arrays(elements, dim)
    if lists.null_count:
        places = np.cumsum(known) - 1
        found = found.take(pa.array(places, mask=~known))
    return found


def blobs(texts: pa.Array) -> pa.LargeBinaryArray:
    """Bytes from texts such as `base64:aGk=`.

    Raises:
        ConversionFailed: A text is not that.
    """
    values: list[bytes | None] = []
    for text in texts.to_pylist():
        data = None if text is None else parse_blob(text)
        if data is None and text is not None:
            raise ConversionFailed
        values.append(data)
    return pa.array(values, pa.large_binary())


def parse_blob(text: str) -> bytes | None:
    """The bytes of `base64:…`, or None when it is not that."""
    if not text.startswith(BLOB_PREFIX):
        return None
    try:
        return base64.b64decode(text.removeprefix(BLOB_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None


def parse_f32s(texts: Sequence[str]) -> list[float]:
    """The F32 nearest to each decimal number, infinite where there is none.

    Rounded once, as Arrow does it. By way of an F64 a number would be rounded twice.
    """
    numbers: list[float] = pa.array(texts, pa.string()).cast(pa.float32()).to_pylist()
    return numbers


def _is_finite(numbers: pa.Array) -> bool:
    if not len(numbers):
        return True
    values = numbers.to_numpy(zero_copy_only=False) if not numbers.null_count else None
    if values is None:
        values = numbers.drop_null().to_numpy(zero_copy_only=False)
    return bool(np.isfinite(values).all())
