"""Distances of vectors, exact.

A distance is computed in double precision from the stored numbers, by a way that is the same for
every row wherever it stands, so equal vectors are equally far. Smaller is nearer:

- cosine: 1 - cos, rounded to 12 decimals, so that vectors of one direction are equally far; a
  vector of length zero has no direction and no value;
- l2: the square of the euclidean distance;
- dot: 1 - the dot product.

Ranking a whole type goes through single precision first. Its error is bounded, so the few rows
that may be among the best are known for certain, and only these are computed exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from omnigraph.exec import tuning
from omnigraph.exec.view import Handles, Mask
from omnigraph.runtime.cancellation import checked
from omnigraph.types import Metric

Matrix = npt.NDArray[np.float32]
Scores = npt.NDArray[np.float64]

_DECIMALS: Final = 12
# Numbers that are picked or turned into doubles at once: what fits into a cache.
_CHUNK_CELLS: Final = 1 << 17
_ROUNDING_ERROR: Final = 2.0**-23


@dataclass(frozen=True, eq=False)
class Vectors:
    """The vectors of one property of a whole type. Holds the matrix, never a copy of it."""

    matrix: Matrix
    valid: Mask

    @cached_property
    def lengths(self) -> Scores:
        """The length of each vector; 0 where there is none."""
        found = np.empty(len(self.matrix), np.float64)
        for span in _spans(self.matrix):
            wide = self.matrix[span].astype(np.float64)
            found[span] = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        found[~self.valid] = 0
        return found

    @cached_property
    def longest(self) -> float:
        """The length of the longest vector."""
        return float(self.lengths.max(initial=0))

    @property
    def nbytes(self) -> int:
        """The memory it takes, and that of the matrix, which it keeps alive."""
        return int(self.matrix.nbytes) + len(self.matrix) * 24

    @cached_property
    def all_valid(self) -> bool:
        """True if no vector is missing."""
        return bool(self.valid.all())

    @cached_property
    def directed(self) -> Mask:
        """The mask of vectors that are there and have a direction."""
        return np.asarray(self.lengths > 0)

    @cached_property
    def all_directed(self) -> bool:
        """True if every vector has a direction."""
        return bool(self.directed.all())

    @cached_property
    def inverse(self) -> npt.NDArray[np.float32]:
        """One over the length of each vector; 0 where it has no direction."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(self.directed, 1 / self.lengths, 0).astype(np.float32)

    @cached_property
    def squares(self) -> npt.NDArray[np.float32]:
        """The square of the length of each vector."""
        with np.errstate(over="ignore"):
            return (self.lengths * self.lengths).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class NearestQuery:
    """One nearest-neighbour query over the vectors of a type."""

    vectors: Vectors
    metric: Metric
    target: Scores

    def has_value(self, handles: Handles | None) -> Mask | None:
        """The mask of entities that have a distance at all; None when all have."""
        vectors = self.vectors
        if self.metric is not Metric.COSINE:
            there, everyone = vectors.valid, vectors.all_valid
        elif self.target.any():
            there, everyone = vectors.directed, vectors.all_directed
        else:
            there, everyone = np.zeros_like(vectors.valid), False
        if everyone:
            return None
        return there if handles is None else there[handles]

    def with_value(self, handles: Handles | None) -> Handles | None:
        """Those of the entities that have a distance; None when it is the whole type."""
        there = self.has_value(handles)
        if there is None:
            return handles
        places = np.flatnonzero(there)
        return places.astype(np.int32) if handles is None else handles[places]

    def distances(self, handles: Handles) -> Scores:
        """The exact distance of each entity. Meaningless for those without a value."""
        matrix = self.vectors.matrix
        found = np.empty(len(handles), np.float64)
        for span in checked(_spans(matrix, len(handles))):
            rows = _picked(matrix, handles[span]).astype(np.float64)
            if self.metric is Metric.L2:
                rows -= self.target
                found[span] = np.einsum("ij,ij->i", rows, rows)
            else:
                found[span] = np.einsum("ij,j->i", rows, self.target)
        if self.metric is Metric.L2:
            return found
        if self.metric is Metric.COSINE:
            with np.errstate(divide="ignore", invalid="ignore"):
                found /= self.vectors.lengths[handles] * _length(self.target)
            np.clip(found, -1, 1, out=found)
        np.subtract(1, found, out=found)
        if self.metric is Metric.COSINE:
            np.round(found, _DECIMALS, out=found)
        return found

    def best(self, handles: Handles | None, count: int) -> Handles:
        """The entities that may be among the `count` nearest, ties at the end included.

        Args:
            handles: The candidates, or None for the whole type.
            count: How many are asked for.

        Returns:
            Candidates in the order given, all of them with a value. None that is left out is as
            near as the last of the `count` nearest.
        """
        handles = self.with_value(handles)
        size = len(self.vectors.matrix) if handles is None else len(handles)
        if size <= count or count <= 0:
            everyone = np.arange(size, dtype=np.int32) if handles is None else handles
            return everyone if count > 0 else everyone[:0]
        places = self.rough(handles).smallest(count)
        return places.astype(np.int32) if handles is None else handles[places]

    def rough(self, handles: Handles | None) -> ApproximateValues:
        """Distances in single precision and how wrong they may be; for entities with values."""
        vectors = self.vectors
        dim = vectors.matrix.shape[1]
        own = _length(self.target)
        # The sum of `dim` products, the roundings of both factors, and what follows below.
        relative = (dim + 16) * _ROUNDING_ERROR
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._products(handles)
            if self.metric is Metric.COSINE:
                values *= _at(vectors.inverse, handles)
                values *= np.float32(-1 / own)
                values += np.float32(1)
                return ApproximateValues(values, relative + 2 * 10.0**-_DECIMALS)
            if self.metric is Metric.DOT:
                np.subtract(np.float32(1), values, out=values)
                return ApproximateValues(values, relative * (vectors.longest * own + 1))
            values *= np.float32(-2)
            values += _at(vectors.squares, handles)
            values += np.float32(own * own)
            return ApproximateValues(values, 2 * relative * (vectors.longest + own) ** 2)

    def _products(self, handles: Handles | None) -> npt.NDArray[np.float32]:
        """The dot product of each vector with the target."""
        matrix = self.vectors.matrix
        target = self.target.astype(np.float32)
        if handles is None:
            return np.asarray(matrix @ target)
        if len(handles) * tuning.active.picked_vectors_share > len(matrix):
            # Reading all rows in a row is faster than picking so many of them.
            return np.asarray((matrix @ target)[handles])
        found = np.empty(len(handles), np.float32)
        for span in checked(_spans(matrix, len(handles))):
            np.matmul(_picked(matrix, handles[span]), target, out=found[span])
        return found


@dataclass(frozen=True, slots=True, eq=False)
class ApproximateValues:
    """Values that are wrong by at most `slack`; those that are not finite may be anything."""

    values: npt.NDArray[Any]
    slack: float

    def smallest(self, count: int) -> npt.NDArray[np.int64]:
        """The places whose true value may be among the `count` smallest, out of more than that."""
        values = self.values
        strange = None
        with np.errstate(over="ignore", invalid="ignore"):
            # A sum is finite only if all terms are, and it is quick.
            if not np.isfinite(values.sum()):
                strange = ~np.isfinite(values)
                values = np.where(strange, np.inf, values)
            bound = values.dtype.type(_kth(values, count) + 2 * self.slack)
        # One step more, so that its own rounding can only let more through.
        chosen = values <= np.nextafter(bound, values.dtype.type(np.inf))
        return np.flatnonzero(chosen if strange is None else chosen | strange)


def _kth(values: npt.NDArray[Any], count: int) -> float:
    """The `count`-th smallest value."""
    lines = 64
    width = len(values) // lines
    if width > 4 * count:
        # The smallest of each of many groups: of these, the `count`-th is a bound that few pass.
        least = values[: width * lines].reshape(lines, width).min(axis=0)
        few = values[values <= np.partition(least, count - 1)[count - 1]]
        return float(np.partition(few, count - 1)[count - 1])
    return float(np.partition(values, count - 1)[count - 1])


def _picked(matrix: Matrix, handles: Handles) -> Matrix:
    # Handles are never out of bounds, and `clip` is what spares numpy a second copy of the rows.
    return np.take(matrix, handles, axis=0, mode="clip")


def _at(values: npt.NDArray[Any], handles: Handles | None) -> npt.NDArray[Any]:
    return values if handles is None else values[handles]


def _length(vector: Scores) -> float:
    return math.sqrt(float(np.dot(vector, vector)))


def _spans(matrix: Matrix, count: int | None = None) -> list[slice]:
    total = len(matrix) if count is None else count
    step = max(1, _CHUNK_CELLS // max(1, matrix.shape[1]))
    return [slice(start, min(start + step, total)) for start in range(0, total, step)]
