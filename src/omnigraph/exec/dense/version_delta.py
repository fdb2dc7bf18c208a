"""Deltas between two versions of a type by handle, and deriving arrays of the later version.

Rows that stay keep their order, so a delta consists of the deleted, inserted and updated handles.
It is used only while they are few; otherwise building anew is as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.exec import tuning
from omnigraph.exec.large_text import with_wide_offsets
from omnigraph.exec.view import MISSING, Counts, Handles

_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class VersionDelta:
    """The change of a type between two versions, by handle.

    Attributes:
        before: How many entities there were.
        after: How many there are.
        deleted: Old handles of those that are not there any more, ascending.
        inserted: New handles of those that were not there, ascending.
        updated: New handles of survivors whose values may differ, ascending.
    """

    before: int
    after: int
    deleted: Counts
    inserted: Counts
    updated: Counts

    @property
    def changes(self) -> int:
        """The number of changes."""
        return len(self.deleted) + len(self.inserted) + len(self.updated)

    @property
    def renumbers(self) -> bool:
        """True if any handle changes."""
        return bool(len(self.deleted) or len(self.inserted))

    @property
    def written(self) -> Counts:
        """New handles whose values have to be read, ascending."""
        return np.union1d(self.inserted, self.updated)

    def forward_map(self) -> Handles:
        """The new handle of each old one, -1 for those that are deleted."""
        moved = np.full(self.before, MISSING, np.int32)
        moved[without(np.arange(self.before), self.deleted)] = without(
            np.arange(self.after, dtype=np.int32), self.inserted
        )
        return moved

    def renumbered(self, handles: Handles) -> Handles:
        """The new handles of many old ones, -1 for those that are deleted; -1 stays -1."""
        if len(self.deleted) + len(self.inserted) > tuning.active.shifted_handles_max:
            # The last entry serves -1.
            return np.append(self.forward_map(), np.int32(MISSING))[handles]
        found = handles.copy()
        lost = [np.flatnonzero(handles == each) for each in self.deleted.tolist()]
        for deleted in self.deleted[::-1].tolist():
            found -= found > deleted
        for inserted in self.inserted.tolist():
            found += found >= inserted
        for places in lost:
            found[places] = MISSING
        return found

    def new_handles(self, handles: Counts) -> Counts:
        """The new handles of some old ones that survive."""
        ranks = handles - np.searchsorted(self.deleted, handles)
        return _nth_outside(self.inserted, ranks)

    def old_handles(self, handles: Counts) -> Counts:
        """The old handles of some new ones that are not inserted."""
        ranks = handles - np.searchsorted(self.inserted, handles)
        return _nth_outside(self.deleted, ranks)


def unchanged(size: int) -> VersionDelta:
    """The delta between equal versions."""
    none = np.empty(0, np.int64)
    return VersionDelta(size, size, none, none, none)


def composed(first: VersionDelta, second: VersionDelta) -> VersionDelta:
    """The delta over two consecutive deltas."""
    dead = np.isin(second.deleted, first.inserted, invert=True)
    deleted = np.union1d(first.deleted, first.old_handles(second.deleted[dead]))
    left = np.setdiff1d(first.inserted, second.deleted)
    inserted = np.union1d(second.inserted, second.new_handles(left))
    kept = np.setdiff1d(first.updated, second.deleted)
    updated = np.union1d(second.updated, second.new_handles(kept))
    return VersionDelta(
        first.before, second.after, deleted, inserted, np.setdiff1d(updated, inserted)
    )


def without(values: npt.NDArray[_Number], places: Counts) -> npt.NDArray[_Number]:
    """An array without some of its entries."""
    return np.delete(values, places) if len(places) else values


def derived_array(
    values: npt.NDArray[_Number], delta: VersionDelta, inserted: Any
) -> npt.NDArray[_Number]:
    """An array by handle after a delta; `inserted` are the values of the inserted rows."""
    kept = without(values, delta.deleted)
    if not len(delta.inserted):
        return kept
    # The place of an inserted one among those that stay: its handle less the inserted before it.
    return np.insert(kept, delta.inserted - np.arange(len(delta.inserted)), inserted)


def derived_column(column: pa.Array, delta: VersionDelta, fresh: pa.Array) -> pa.Array:
    """A column after a delta; `fresh` are the values at `delta.written`."""
    column = with_wide_offsets(column, column.nbytes + fresh.nbytes)
    if fresh.type != column.type:
        fresh = fresh.cast(column.type)
    places = delta.written
    lost = np.union1d(delta.deleted, delta.old_handles(delta.updated))
    if not len(places) and not len(lost):
        return column
    if len(places) + len(lost) > tuning.active.copied_slices_max:
        return _picked_column(column, delta, fresh, places)
    parts: list[pa.Array] = []
    old = new = 0
    cuts = np.append(places, delta.after)
    for number, cut in enumerate(cuts.tolist()):
        # Old values up to the next fresh place, in stretches between the lost ones.
        while new < cut:
            skip = int(np.searchsorted(lost, old))
            end = int(lost[skip]) if skip < len(lost) else delta.before
            length = min(end - old, cut - new)
            if length:
                parts.append(column.slice(old, length))
            old, new = old + length, new + length
            if old == end and skip < len(lost):
                old += 1
        if number < len(places):
            parts.append(fresh.slice(number, 1))
            new += 1
    return pa.concat_arrays(parts) if parts else column.slice(0, 0)


def _picked_column(
    column: pa.Array, delta: VersionDelta, fresh: pa.Array, places: Counts
) -> pa.Array:
    whole = pa.concat_arrays([column, fresh])
    sources = np.empty(delta.after, np.int64)
    sources[without(np.arange(delta.after), delta.inserted)] = without(
        np.arange(delta.before), delta.deleted
    )
    sources[places] = len(column) + np.arange(len(places))
    return whole.take(pa.array(sources))


def _nth_outside(taken: Counts, ranks: Counts) -> Counts:
    """The numbers of these ranks among those that are not taken; `taken` ascends."""
    # Before the i-th taken number lie `taken[i] - i` others.
    shift = np.searchsorted(taken - np.arange(len(taken)), ranks, side="right")
    found: Counts = ranks + shift
    return found
