"""Aggregates over the groups of a frame.

Sums do not depend on the order of the rows: they are exact, then rounded once.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.exec.large_text import is_long, taken
from omnigraph.exec.read.columns import ComputedColumn, ConstantColumn, ResultColumn, StoredColumn
from omnigraph.exec.read.frame import ascending, summed, sums_by
from omnigraph.exec.read.keys import column_codes, text_ranks
from omnigraph.exec.view import Counts, Mask
from omnigraph.lang.ir.expr import Aggregate, AggregateFunction

_NUMBERS = {
    pa.bool_(): pa.int8(),
    pa.date32(): pa.int32(),
    pa.timestamp("ms", tz="UTC"): pa.int64(),
}
Floats = npt.NDArray[np.float64]
_EXACT_MAX: Final = 2.0**53
_LOW_BITS: Final = np.int64((1 << 26) - 1)
_WEIGHT_BITS: Final = 26


class Groups:
    """The group of each row of a frame."""

    __slots__ = ("count", "of", "rows", "weights")

    def __init__(self, of: Counts | None, count: int, weights: Counts | None, rows: int) -> None:
        """`of` is None when all rows are one group."""
        self.of = of
        self.count = count
        self.weights = weights
        self.rows = rows

    def where(self, mask: Mask) -> Groups:
        """The same groups with only some of the rows."""
        places = np.flatnonzero(mask)
        of = None if self.of is None else self.of[places]
        weights = None if self.weights is None else self.weights[places]
        return Groups(of, self.count, weights, len(places))

    def each(self) -> Counts:
        """The group of each row."""
        return np.zeros(self.rows, np.int64) if self.of is None else self.of

    def counts(self) -> Counts:
        """The number of rows in each group, by weight."""
        if self.of is not None:
            return sums_by(self.of, self.weights, self.count)
        total = self.rows if self.weights is None else summed(self.weights)
        return np.array([total], np.int64)


def aggregate(item: Aggregate, arg: ResultColumn | None, groups: Groups) -> ComputedColumn:
    """The value of an aggregate for each group; `arg` is None when no row can lack it."""
    if arg is None:
        return ComputedColumn(pa.array(groups.counts()), item.type)
    if item.function is AggregateFunction.COUNT:
        return ComputedColumn(pa.array(_count(item, arg, groups)), item.type)
    array = arg.arrow()
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        groups, array = groups.where(valid), array.drop_null()
    if item.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        least = item.function is AggregateFunction.MIN
        return ComputedColumn(_extreme(array, groups, least=least), item.type)
    return ComputedColumn(
        _sum(array, groups, mean=item.function is AggregateFunction.AVG), item.type
    )


def _count(item: Aggregate, arg: ResultColumn, groups: Groups) -> Counts:
    if not item.distinct:
        mask = _valid(arg)
        return groups.counts() if mask is None else groups.where(mask).counts()
    if groups.of is None and isinstance(arg, StoredColumn) and arg.column == "id":
        return np.array([_distinct_handles(arg)], np.int64)
    values, bound = column_codes(arg)
    if isinstance(arg, ConstantColumn):
        values = np.full(groups.rows, 0 if arg.value is None else 1)
        bound = 2
    there = values > 0
    pairs = np.unique(groups.each()[there] * bound + values[there])
    return np.bincount(pairs // bound, minlength=groups.count)


def _distinct_handles(arg: StoredColumn) -> int:
    handles = arg.handles
    if not len(handles):
        return 0
    if len(handles) < 4096:
        found = ascending(handles)
        return len(found) - int(found[0] < 0)
    seen = np.zeros(int(handles.max()) + 2, np.bool_)
    seen[handles] = True  # a missing one marks the last place
    return int(np.count_nonzero(seen[:-1]))


def _valid(arg: ResultColumn) -> Mask | None:
    """The mask of rows that have a value; None when all do."""
    if isinstance(arg, StoredColumn) and arg.column == "id":
        return arg.handles >= 0
    if isinstance(arg, ConstantColumn):
        return None if arg.value is not None else np.zeros(arg.rows, np.bool_)
    array = arg.arrow()
    if not array.null_count:
        return None
    mask: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _sum(array: pa.Array, groups: Groups, *, mean: bool) -> pa.Array:
    counts = groups.counts()
    of = groups.each()
    if pa.types.is_integer(array.type):
        numbers = array.to_numpy(zero_copy_only=False)
        sums = sum_integers(numbers, groups.weights, of, groups.count)
    else:
        floats = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
        sums = sum_floats(floats, groups.weights, of, groups.count)
    divisors = counts.tolist()
    found = [
        None if not count else total / count if mean else total
        for total, count in zip(sums, divisors, strict=True)
    ]
    return pa.array(found, pa.float64())


def _extreme(array: pa.Array, groups: Groups, *, least: bool) -> pa.Array:
    """The least or greatest value of each group."""
    kind = array.type
    of = groups.each()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if not len(array):
            return pa.nulls(groups.count, kind)
        if is_long(array):
            ranks, first = text_ranks(array)
            best, there = _reduce(ranks, of, groups.count, least=least)
            best[~there] = 0
            return taken(array, np.where(there, first[best], -1))
        encoded = array.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy(zero_copy_only=False)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        places = ranks[encoded.indices.to_numpy(zero_copy_only=False)]
        best, there = _reduce(places, of, groups.count, least=least)
        best[~there] = 0
        return taken(encoded.dictionary, np.where(there, order[best], -1))
    numbers = array.cast(_NUMBERS.get(kind, kind)).to_numpy(zero_copy_only=False)
    best, there = _reduce(numbers, of, groups.count, least=least)
    return pa.array(best, mask=~there).cast(kind)


def _reduce(
    values: npt.NDArray[Any], of: Counts, count: int, *, least: bool
) -> tuple[npt.NDArray[Any], Mask]:
    there = np.bincount(of, minlength=count) > 0
    limits = np.finfo(values.dtype) if values.dtype.kind == "f" else np.iinfo(values.dtype)
    best = np.full(count, limits.max if least else limits.min, values.dtype)
    (np.minimum if least else np.maximum).at(best, of, values)
    return best, there


def nothing(item: Aggregate) -> ComputedColumn:
    """The value of an aggregate over no rows, in the one group that there is then."""
    if item.function is AggregateFunction.COUNT:
        return ComputedColumn(pa.array([0], pa.int64()), item.type)
    return ComputedColumn(pa.nulls(1, arrow_type(item.type)), item.type)


def sum_integers(
    values: npt.NDArray[np.integer], weights: Counts | None, group: Counts, groups: int
) -> list[float]:
    """The sum of integers in each group, as the nearest double."""
    most = float(max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0)))))
    total = float(len(values)) if weights is None else float(weights.sum(dtype=np.float64))
    if most * total < _EXACT_MAX:
        factors = values if weights is None else values * weights
        found: list[float] = np.bincount(group, factors, minlength=groups).tolist()
        return found
    exact = [0] * groups
    weighed = [1] * len(values) if weights is None else weights.tolist()
    for value, weight, place in zip(values.tolist(), weighed, group.tolist(), strict=True):
        exact[place] += value * weight
    return [float(item) for item in exact]


def sum_floats(values: Floats, weights: Counts | None, group: Counts, groups: int) -> list[float]:
    """The sum of floats in each group, as the double nearest to their exact sum."""
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(groups + 1)).tolist()
    values = values[order]
    weights = None if weights is None else weights[order]
    parts = [values] if weights is None else _products(values, weights)
    found: list[float] = []
    for begin, end in pairwise(bounds):
        try:
            total = math.fsum([item for part in parts for item in part[begin:end].tolist()])
        except (OverflowError, ValueError):
            total = math.inf
        if not math.isfinite(total):
            # Something on the way is too large for a double; the sum itself need not be.
            few = None if weights is None else weights[begin:end]
            total = _sum_fractions(values[begin:end], few)
        found.append(total)
    return found


def _products(values: Floats, weights: Counts) -> list[Floats]:
    """Parts whose sum is each value times its weight, none of them rounded."""
    high = (values.view(np.int64) & ~_LOW_BITS).view(np.float64)
    low = values - high
    parts: list[Floats] = []
    shift = 0
    while True:
        digit = ((weights >> shift) & _LOW_BITS).astype(np.float64) * 2.0**shift
        with np.errstate(over="ignore"):
            parts += [high * digit, low * digit]
        shift += _WEIGHT_BITS
        if not (weights >> shift).any():
            return parts


def _sum_fractions(values: Floats, weights: Counts | None) -> float:
    factors = [1] * len(values) if weights is None else weights.tolist()
    pairs = zip(values.tolist(), factors, strict=True)
    total = sum((Fraction(value) * factor for value, factor in pairs), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
