"""Counting triangles: for each vertex, how many it is a corner of.

Edges are directed from the end with fewer neighbours to the one with more, which bounds the number
of pairs that leave one vertex. Each such pair is a triangle if its ends are connected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.algorithms.csr import Counts, CsrGraph, row_places
from omnigraph.runtime.cancellation import check

Colours: TypeAlias = npt.NDArray[np.uint8]

_PAIRS_AT_ONCE: Final = 1 << 20
_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)
_FILTER_BITS_EXTRA: Final = 3  # bits; the filter has eight places per edge


def triangle_counts(neighbours: CsrGraph, colours: Colours | None = None) -> Counts:
    """The number of triangles that each vertex is in.

    Args:
        neighbours: A simple undirected graph: each neighbour once, at both ends, no loops.
        colours: A bit for each vertex. Then only triangles count that have all bits there are.
    """
    edges = ranked_edges(neighbours)
    return edges.by_vertex(corners_by_rank(edges.keys, len(edges.rank), edges.in_order(colours)))


@dataclass(frozen=True, slots=True, eq=False)
class RankedEdges:
    """Edges between vertices that are numbered by how many neighbours they have.

    Attributes:
        keys: The smaller end, shifted by `key_shift`, and the larger one; sorted.
        rank: The number of each vertex.
    """

    keys: Counts
    rank: Counts

    def in_order(self, colours: Colours | None) -> Colours | None:
        """The colours by rank."""
        if colours is None:
            return None
        ordered = np.empty_like(colours)
        ordered[self.rank] = colours
        return ordered

    def by_vertex(self, counts: Counts) -> Counts:
        """The count of each vertex, of counts by rank."""
        found: Counts = counts[self.rank]
        return found


def key_shift(size: int) -> int:
    """The number of bits by which the smaller end is shifted in a key."""
    return max(1, size).bit_length()


def ranked_edges(neighbours: CsrGraph) -> RankedEdges:
    """The edges of a simple undirected graph, each once."""
    size, degrees = neighbours.size, neighbours.degrees()
    rank = np.empty(size, np.int64)
    rank[np.argsort(degrees, kind="stable")] = np.arange(size)
    starts = rank[np.repeat(np.arange(size), degrees)]
    ends = rank[neighbours.targets]
    upward = starts < ends
    keys = (starts[upward] << key_shift(size)) | ends[upward]
    keys.sort()
    return RankedEdges(keys, rank)


def corners_by_rank(
    keys: Counts, size: int, colours: Colours | None = None, share: tuple[int, int] = (0, 1)
) -> Counts:
    """The number of triangles that each vertex is in; vertices are numbered by rank.

    Args:
        keys: The edges, see `RankedEdges`.
        size: How many vertices there are.
        colours: A bit for each vertex, see `triangle_counts`.
        share: Which share of the triangles counts, of how many about equal ones.
    """
    every = None if colours is None else np.bitwise_or.reduce(colours)
    shift = key_shift(size)
    mask = (1 << shift) - 1
    first, second = keys >> shift, keys & mask
    row_ends = np.cumsum(np.bincount(first, minlength=size))
    # An edge is completed by each edge that follows in its row.
    pairs = row_ends[first] - np.arange(len(keys)) - 1
    known = _Filter(keys)
    total = np.zeros(size, np.int64)
    of_edges = np.zeros(len(keys), np.int64)
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(pairs)])
    number, shares = share
    # Of the edges, by how many pairs they begin.
    low, end = (
        int(np.searchsorted(sums[1:], int(sums[-1]) * each // shares))
        for each in (number, number + 1)
    )
    end = len(keys) if number + 1 == shares else end
    while low < end:
        check()
        high = int(np.searchsorted(sums, sums[low] + _PAIRS_AT_ONCE, side="right")) - 1
        high = min(end, max(low + 1, high))
        counts = pairs[low:high]
        thirds = second[row_places(np.arange(low + 1, high + 1), counts)]
        middles = np.repeat(second[low:high] << shift, counts)
        hits = known.find(middles | thirds)
        owners = np.repeat(np.arange(high - low), counts)[hits]
        if colours is not None:
            edges = owners + low
            seen = colours[first[edges]] | colours[second[edges]] | colours[thirds[hits]]
            hits, owners = hits[seen == every], owners[seen == every]
        of_edges[low:high] = np.bincount(owners, minlength=high - low)
        total += np.bincount(thirds[hits], minlength=size)
        low = high
    some = np.flatnonzero(of_edges)
    # Sums of weights are floats; they are exact up to 2**53.
    for corner in (first[some], second[some]):
        total += np.bincount(corner, weights=of_edges[some], minlength=size).astype(np.int64)
    return total


class _Filter:
    """Finds which of many keys are among the known ones: first by one bit, then by search."""

    def __init__(self, keys: Counts) -> None:
        self._keys = keys
        self._shift = np.uint64(64 - (max(1, len(keys)).bit_length() + _FILTER_BITS_EXTRA))
        self._marks = np.zeros(1 << (64 - int(self._shift)), np.bool_)
        self._marks[self._places(keys)] = True

    def find(self, keys: Counts) -> Counts:
        """The places of keys that are known."""
        maybe = np.flatnonzero(self._marks[self._places(keys)])
        wanted = keys[maybe]
        at = np.searchsorted(self._keys, wanted)
        at[at == len(self._keys)] = 0
        found: Counts = maybe[self._keys[at] == wanted]
        return found

    def _places(self, keys: Counts) -> npt.NDArray[np.intp]:
        mixed = keys.view(np.uint64) * _MIXER
        mixed >>= self._shift
        return mixed.view(np.intp)
