"""Equality of stored values, column by column: null equals null, and a list is one value."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]


def equal_values(left: pa.Array, right: pa.Array) -> Mask:
    """Compare two columns of the same type and length, row by row."""
    nulls_left, nulls_right = _mask(left.is_null()), _mask(right.is_null())
    same: Mask = nulls_left == nulls_right
    there = same & ~nulls_left
    if there.any():
        rows = pa.array(np.flatnonzero(there))
        same[there] = _equal(left.take(rows), right.take(rows))
    return same


def _equal(left: pa.Array, right: pa.Array) -> Mask:
    """Compare values that are not null."""
    kind = left.type
    if pa.types.is_fixed_size_list(kind):
        return _all_per_row(left, right, np.full(len(left), kind.list_size))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = _numbers(pc.list_value_length(left))
        same: Mask = lengths == _numbers(pc.list_value_length(right))
        rows = pa.array(np.flatnonzero(same))
        same[same] = _all_per_row(left.take(rows), right.take(rows), lengths[same])
        return same
    if pa.types.is_struct(kind):
        fields = range(kind.num_fields)
        parts = [equal_values(left.field(place), right.field(place)) for place in fields]
        every: Mask = np.logical_and.reduce(parts)
        return every
    equal = _mask(pc.equal(left, right))
    if pa.types.is_floating(kind):
        equal |= _mask(pc.is_nan(left)) & _mask(pc.is_nan(right))
    return equal


def _all_per_row(left: pa.Array, right: pa.Array, lengths: npt.NDArray[Any]) -> Mask:
    """Compare lists of equal lengths, by their elements."""
    unequal = ~equal_values(left.flatten(), right.flatten())
    # The number of unequal elements up to the end of each list shows which lists have any.
    ends = np.cumsum(lengths)
    counts = np.concatenate([[0], np.cumsum(unequal)])
    found: Mask = counts[ends] == counts[ends - lengths]
    return found


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False).astype(bool)
    return found


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = values.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
