"""Ranks, and reciprocal rank fusion.

A rank counts from 1 over all candidates that have a value; equal values rank by id. The fused
score of an entity is the sum of 1 / (k + rank) over the rankings that give it a value.

To know the best few, most ranks need not be known. The n best of one ranking alone score at least
1 / (k + n), so no candidate below rank k + 2n in both rankings can score more. And the rank of one
entity is a count of those before it, for which rough values decide except near its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from omnigraph.exec import tuning
from omnigraph.exec.search.nearest import ApproximateValues
from omnigraph.exec.view import Mask

Scores = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.int64]

_BINS_MAX: Final = 1 << 18
# Values that are rougher than so many bins decide too little.
_REACH_BINS_MAX: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class RankKeys:
    """The sort keys of candidates, smaller first; perhaps known roughly only.

    `exact` gives the true keys at some places, `ties` the numbers that decide between equals.
    """

    rough: npt.NDArray[Any]
    slack: float
    exact: Callable[[Places], Scores]
    ties: npt.NDArray[Any]

    def __len__(self) -> int:
        """The number of candidates that have a value."""
        return len(self.rough)

    def first(self, count: int) -> Places:
        """The places of the `count` first, in no order."""
        if len(self) <= count:
            return np.arange(len(self))
        places = ApproximateValues(self.rough, self.slack).smallest(count)
        if len(places) <= count:
            return places
        order = np.lexsort((self.ties[places], self.exact(places)))
        return np.asarray(places[order[:count]])

    def all_ranks(self) -> Ranks:
        """The rank of every candidate."""
        return ranks_of(self.exact(np.arange(len(self))), self.ties)

    def ranks(self, chosen: Places) -> Ranks:
        """The ranks of some candidates among all."""
        if len(self) <= tuning.active.exact_candidates_max or not np.isfinite(self.rough.sum()):
            return self.all_ranks()[chosen]
        bins, reach = self._bins(self.rough)
        if reach > _REACH_BINS_MAX:
            return self.all_ranks()[chosen]
        own = self._bins(self.exact(chosen))[0]
        # Candidates that may fall into the bin of a chosen one are undecided; all others are
        # certain.
        close = np.zeros(self._count, np.bool_)
        for shift in range(-reach, reach + 1):
            close[np.clip(own + shift, 0, self._count - 1)] = True
        undecided = close[bins]
        undecided[chosen] = True
        places = np.flatnonzero(undecided)
        counts = np.bincount(bins, minlength=self._count)
        counts -= np.bincount(bins[places], minlength=self._count)
        before = np.cumsum(counts)[own]
        standing = ranks_of(self.exact(places), self.ties[places])
        return np.asarray(before + standing[np.searchsorted(places, chosen)])

    def _bins(self, keys: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int32], int]:
        """A bin for each key, never a lower one for a larger key; and how far off it may be."""
        least, most = self._range
        last = self._count - 1
        scale = last / (most - least) if most > least else 0.0
        with np.errstate(invalid="ignore", over="ignore"):
            places = keys - keys.dtype.type(least)
            places *= keys.dtype.type(scale)
        np.clip(places, 0, last, out=places)
        return places.astype(np.int32), min(last, math.ceil(self.slack * scale) + 2)

    @property
    def _count(self) -> int:
        """The number of bins: about one for each candidate."""
        return min(_BINS_MAX, 1 << len(self).bit_length())

    @property
    def _range(self) -> tuple[float, float]:
        return float(self.rough.min()), float(self.rough.max())


def ranks_of(keys: Scores, ties: npt.NDArray[Any]) -> Ranks:
    """The rank of each key, smaller first and equals by their ties."""
    ranks = np.empty(len(keys), np.int64)
    ranks[np.lexsort((ties, keys))] = np.arange(1, len(keys) + 1)
    return ranks


def fuse(k: int, *rankings: tuple[Mask, Ranks]) -> Scores:
    """Fused scores, from the handles and the ranks of each ranking."""
    scores = np.zeros(len(rankings[0][0]), np.float64)
    for valid, ranks in rankings:
        scores[valid] += 1.0 / (k + ranks)
    return scores


def depth(k: int, count: int) -> int:
    """The deepest place in a ranking at which one of the best `count` of a fusion can be."""
    return k + 2 * count
