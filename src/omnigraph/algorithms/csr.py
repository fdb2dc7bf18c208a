"""Adjacency in compressed rows (CSR), and walking over it in blocks of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Ids: TypeAlias = npt.NDArray[np.int32]
Counts: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

# Measured: with blocks of this size what is gathered stays in the cache of a core.
BLOCK_ENTRIES: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class CsrGraph:
    """Rows of neighbours: those of vertex `v` lie from `offsets[v]` to `offsets[v + 1]`.

    `weights` has a number per entry of `targets`, if the edges have weights.
    """

    offsets: Counts
    targets: Ids
    weights: Floats | None = None

    @property
    def size(self) -> int:
        """The number of vertices."""
        return len(self.offsets) - 1

    def degrees(self) -> Counts:
        """The number of neighbours of each vertex."""
        return np.diff(self.offsets)


def csr_graph(
    sources: Ids | Counts, targets: Ids | Counts, size: int, weights: Floats | None = None
) -> CsrGraph:
    """Rows with an entry per pair, sorted by target within a row unless there are weights."""
    shift = max(1, size).bit_length()
    if weights is not None:
        order = np.argsort(sources, kind="stable")
        offsets = _offsets(np.bincount(sources, minlength=size))
        return CsrGraph(offsets, targets[order].astype(np.int32), weights[order])
    keys = sources.astype(np.int64) << shift
    keys |= targets
    keys.sort()
    return _from_keys(keys, shift, size)


def simple_csr_graph(sources: Ids | Counts, targets: Ids | Counts, size: int) -> CsrGraph:
    """The undirected graph of some pairs: no loops, and each neighbour once, at both ends."""
    shift = max(1, size).bit_length()
    low = np.minimum(sources, targets).astype(np.int64)
    high = np.maximum(sources, targets).astype(np.int64)
    keys = ((low << shift) | high)[low != high]
    keys.sort()
    keys = keys[first_of_runs(keys)]
    mask = (1 << shift) - 1
    keys = np.concatenate([keys, ((keys & mask) << shift) | (keys >> shift)])
    keys.sort()
    return _from_keys(keys, shift, size)


def _from_keys(keys: Counts, shift: int, size: int) -> CsrGraph:
    targets = (keys & ((1 << shift) - 1)).astype(np.int32)
    keys >>= shift
    return CsrGraph(_offsets(np.bincount(keys, minlength=size)), targets)


def _offsets(degrees: npt.NDArray[Any]) -> Counts:
    offsets = np.zeros(len(degrees) + 1, np.int64)
    np.cumsum(degrees, out=offsets[1:])
    return offsets


def row_places(starts: Counts, counts: Counts) -> Counts:
    """The places of several rows, one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.size else 0
    places: Counts = np.repeat(starts - ends + counts, counts)
    places += np.arange(total)
    return places


def first_of_runs(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Marks each value that differs from the one before it."""
    first = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return first


def blocks(offsets: Counts, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[int, int]]:
    """Ranges of rows with about so many entries each; a longer row is a range of its own."""
    row, rows = 0, len(offsets) - 1
    while row < rows:
        end = int(np.searchsorted(offsets, offsets[row] + entries, side="right")) - 1
        end = min(rows, max(row + 1, end))
        yield row, end
        row = end
