"""Sums of floats that do not depend on the order of the rows: exact, then rounded once.

A float is a whole number times a power of two. The whole numbers are added up per group and power,
which Spark does exactly with decimals; what is left per group is small and is put together here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.dataplane.spark.kernel import raising

_MANTISSA_BITS: Final = 53


@dataclass(frozen=True, slots=True)
class SplitFloats:
    """Replaces a column of floats by its whole numbers `digits` and its powers of two `power`.

    Attributes:
        column: The column.
        kept: The columns that stay as they are.
    """

    column: str
    kept: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that have a value."""
        with raising():
            for batch in batches:
                rows = batch.filter(batch.column(self.column).is_valid())
                values = rows.column(self.column).cast(pa.float64()).to_numpy(zero_copy_only=False)
                fractions, powers = np.frexp(values)
                digits = np.ldexp(fractions, _MANTISSA_BITS).astype(np.int64)
                arrays = [*map(rows.column, self.kept), pa.array(digits)]
                arrays.append(pa.array(powers - _MANTISSA_BITS, pa.int32()))
                yield pa.RecordBatch.from_arrays(arrays, [*self.kept, "digits", "power"])


@dataclass(frozen=True, slots=True)
class JoinFloats:
    """Puts sums together: a list of (power, digits) becomes the nearest double.

    Attributes:
        column: The column of lists; it becomes one of doubles.
    """

    column: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows with their sums."""
        with raising():
            for batch in batches:
                place = batch.schema.get_field_index(self.column)
                lists = batch.column(place).to_pylist()
                sums = pa.array([None if parts is None else _nearest(parts) for parts in lists])
                yield batch.set_column(place, self.column, sums.cast(pa.float64()))


def _nearest(parts: list[dict[str, int]]) -> float:
    total = sum(
        (Fraction(int(part["digits"])) * Fraction(2) ** part["power"] for part in parts),
        Fraction(0),
    )
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
