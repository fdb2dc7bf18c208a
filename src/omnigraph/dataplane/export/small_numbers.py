"""Whole numbers that lie close together, spelled once and then looked up.

Ages, years, flags and dates take a few thousand values at most. Looking a text up is faster than
making it, and it comes with the text that stands before it in every line, which saves as much
again. Lines with two integers, a date and a flag take 1.6 times as long without it
(`python -m bench kernels`, processor time).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane import tuning
from omnigraph.dataplane.export.cells import NULL, cells, glued
from omnigraph.lang.values import DAYS, INT_RANGES, INTEGERS, Base, ValueType

_MARGIN_SHARE: Final = 8  # a table that must grow gets this part of itself on top, at either end
_BASES: Final = INTEGERS | {Base.BOOL, Base.DATE}
_BOUNDS: Final = {Base.BOOL: (0, 1), Base.DATE: (DAYS.start, DAYS.stop - 1)}


@dataclass(frozen=True, slots=True)
class _Table:
    """The texts of the numbers from `low`, one after another, and at the end that of null."""

    low: int
    texts: pa.StringArray

    @property
    def high(self) -> int:
        """The last number that it has."""
        return self.low + len(self.texts) - 2


class SmallNumbers:
    """Tables for the columns of one type. Threads may share it: at worst they make a table twice.

    A table belongs to a column and to what stands before it, which depends on the nulls of the
    column before.
    """

    def __init__(self) -> None:
        """Start without tables."""
        self._tables: dict[str, _Table | None] = {}  # by what stands before

    def spelled(self, before: str, column: pa.Array, kind: ValueType) -> pa.Array | None:
        """The text before and the value, for each row; None where a table is not worth it."""
        if len(column) < tuning.active.spelled_rows_min or kind.base not in _BASES or kind.is_list:
            return None
        numbers = _whole(column)
        bounds = pc.min_max(numbers)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        table = None if low is None else self._table(before, kind, low, high)
        if table is None:
            return None
        places = pc.subtract(numbers, pa.scalar(table.low, numbers.type)) if table.low else numbers
        if places.null_count:
            places = places.fill_null(len(table.texts) - 1)
        return pc.take(table.texts, places, boundscheck=False)

    def _table(self, before: str, kind: ValueType, low: int, high: int) -> _Table | None:
        known = self._tables.get(before)
        if known is None and before in self._tables:
            return None  # its numbers lie too far apart
        if known is not None:
            if known.low <= low and high <= known.high:
                return known
            low, high = min(low, known.low), max(high, known.high)
            wide = _widened(low, high, kind.base)
            low, high = wide if _is_small(*wide) else (low, high)
        made = _made(before, kind, low, high) if _is_small(low, high) else None
        self._tables[before] = made
        return made


def _whole(column: pa.Array) -> pa.Array:
    if pa.types.is_boolean(column.type):
        return column.cast(pa.uint8())
    return column.view(pa.int32()) if pa.types.is_date32(column.type) else column


def _is_small(low: int, high: int) -> bool:
    return high - low < tuning.active.spelled_numbers_max and high < INT_RANGES[Base.I64][1]


def _widened(low: int, high: int, base: Base) -> tuple[int, int]:
    """The range of a table, with some margin for the next batches."""
    margin = (high - low) // _MARGIN_SHARE + 1
    least, most = _BOUNDS.get(base) or INT_RANGES[base]
    return max(low - margin, least), min(high + margin, most)


def _made(before: str, kind: ValueType, low: int, high: int) -> _Table:
    numbers = np.arange(low, high + 1)
    if kind.base is Base.DATE:
        values = pa.array(numbers.astype(np.int32)).view(pa.date32())
    else:
        values = pa.array(numbers.astype(np.bool_) if kind.base is Base.BOOL else numbers)
    whole = cells(values, kind).whole()
    return _Table(low, glued([before, pa.concat_arrays([whole, pa.array([NULL])])]))
