"""Compressed sparse rows as arrays: for each source a sorted row of what it leads to.

Rows are sorted by target, then by edge, so equal graphs give equal arrays however they came about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from omnigraph.algorithms.csr import row_places
from omnigraph.exec.view import Counts, Handles, Mask, NeighbourSlices

_WORD_BITS: Final = 63


@dataclass(frozen=True, slots=True, eq=False)
class Csr:
    """Rows of targets: that of source `s` lies from `offsets[s]` to `offsets[s + 1]`.

    `edges` are the edges that lead there, in the same places. Without them a row names each
    target once. `degrees` are the lengths of the rows.
    """

    offsets: Counts
    targets: Handles
    degrees: Counts
    edges: Handles | None = None

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        edges = 0 if self.edges is None else self.edges.nbytes
        return self.offsets.nbytes + self.targets.nbytes + self.degrees.nbytes + edges

    def slices(self, sources: Handles) -> NeighbourSlices:
        """The neighbours of each source."""
        offsets, targets, edges = self.offsets, self.targets, self.edges
        if sources.size == 1:
            source = sources.item()
            low, high = offsets.item(source), offsets.item(source + 1)
            return NeighbourSlices(
                self.degrees[source : source + 1],
                targets[low:high],
                None if edges is None else edges[low:high],
            )
        counts = self.degrees[sources]
        places = row_places(offsets[sources], counts)
        return NeighbourSlices(counts, targets[places], None if edges is None else edges[places])

    def linked(self, sources: Handles, targets: Handles) -> Mask:
        """True where the row of a source names the target in the same place."""
        if sources.size == 1:
            source, target = sources.item(), targets.item()
            row = self.targets[self.offsets.item(source) : self.offsets.item(source + 1)]
            place = int(row.searchsorted(target))
            return np.array([place < row.size and row.item(place) == target])
        low = self.offsets[sources]
        high = self.offsets[sources + 1]
        places = lower_bounds(self.targets, low, high, targets)
        inside = places < high
        found = np.zeros(len(sources), np.bool_)
        found[inside] = self.targets[places[inside]] == targets[inside]
        return found


def lower_bounds(values: Handles, low: Counts, high: Counts, wanted: Handles | Counts) -> Counts:
    """In each sorted stretch `low..high` of `values`, the first place not below `wanted`."""
    low = low.copy()
    high = high.copy()
    longest = int((high - low).max()) if len(low) else 0
    last = len(values) - 1
    for _ in range(longest.bit_length()):
        middle = (low + high) >> 1
        # A finished stretch may stand one past the end; it does not move any more.
        below = (low < high) & (values[np.minimum(middle, last)] < wanted)
        low = np.where(below, middle + 1, low)
        high = np.where(below, high, middle)
    return low


def distinct_rows(sources: Handles, targets: Handles, rows: int, width: int) -> Csr:
    """Rows that name each target once. Sources are below `rows`, targets below `width`."""
    shift = width.bit_length()
    keys = sources.astype(np.int64) << shift
    keys |= targets
    keys.sort()
    if keys.size:
        fresh = np.empty(len(keys), np.bool_)
        fresh[0] = True
        np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
        if not fresh.all():
            keys = keys[fresh]
    return _rows(keys, shift, (keys & ((1 << shift) - 1)).astype(np.int32), None, rows)


def edge_rows(sources: Handles, targets: Handles, edges: Handles, rows: int, width: int) -> Csr:
    """Rows with an entry per edge."""
    target_bits = width.bit_length()
    edge_bits = (int(edges.max()) if edges.size else 0).bit_length()
    keys = sources.astype(np.int64) << target_bits
    keys |= targets
    if rows.bit_length() + target_bits + edge_bits <= _WORD_BITS:
        # All three in one word: sorting words is much faster than sorting places.
        keys <<= edge_bits
        keys |= edges
        keys.sort()
        ranked = (keys & ((1 << edge_bits) - 1)).astype(np.int32)
        keys >>= edge_bits
    else:
        order = np.lexsort((edges, keys))
        keys, ranked = keys[order], edges[order]
    found = (keys & ((1 << target_bits) - 1)).astype(np.int32)
    return _rows(keys, target_bits, found, ranked, rows)


def from_degrees(degrees: Counts, targets: Handles, edges: Handles | None) -> Csr:
    """Rows of known lengths."""
    offsets = np.zeros(len(degrees) + 1, np.int64)
    np.cumsum(degrees, out=offsets[1:])
    return frozen_rows(offsets, targets, degrees, edges)


def frozen_rows(offsets: Counts, targets: Handles, degrees: Counts, edges: Handles | None) -> Csr:
    """Rows as read-only arrays, since they are shared."""
    for array in (offsets, targets, degrees, edges):
        if array is not None:
            array.flags.writeable = False
    return Csr(offsets, targets, degrees, edges)


def _rows(keys: Counts, shift: int, targets: Handles, edges: Handles | None, rows: int) -> Csr:
    offsets = np.searchsorted(keys, np.arange(rows + 1, dtype=np.int64) << shift)
    return frozen_rows(offsets, targets, np.diff(offsets), edges)
