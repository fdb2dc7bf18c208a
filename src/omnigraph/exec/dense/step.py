"""From one version of a type to a later one: how handles move, and carrying arrays over.

Survivors keep their order, so a step is told by who is gone, who is born and who was rewritten.
All of these are few: a step with many is not worth taking, building anew is as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.exec.large_text import roomy
from omnigraph.exec.view import MISSING, Counts, Handles

_Number = TypeVar("_Number", bound=np.generic)

# Up to here copying the stretches between the changes beats picking value by value.
_STRETCHES_MAX: Final = 128
# Up to here shifting all handles once per change beats looking each of them up.
_SHIFTS_MAX: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """How handles move between two versions.

    Attributes:
        before: How many entities there were.
        after: How many there are.
        gone: Old handles of those that are not there any more, ascending.
        born: New handles of those that were not there, ascending.
        rewritten: New handles of survivors whose values may differ, ascending.
    """

    before: int
    after: int
    gone: Counts
    born: Counts
    rewritten: Counts

    @property
    def changes(self) -> int:
        """How much happened."""
        return len(self.gone) + len(self.born) + len(self.rewritten)

    @property
    def moves(self) -> bool:
        """Whether any handle means something else now."""
        return bool(len(self.gone) or len(self.born))

    @property
    def fresh(self) -> Counts:
        """New handles whose values have to be read, ascending."""
        return np.union1d(self.born, self.rewritten)

    def forward(self) -> Handles:
        """The new handle of each old one, -1 for those that are gone."""
        moved = np.full(self.before, MISSING, np.int32)
        moved[without(np.arange(self.before), self.gone)] = without(
            np.arange(self.after, dtype=np.int32), self.born
        )
        return moved

    def renumbered(self, handles: Handles) -> Handles:
        """The new handles of many old ones, -1 for those that are gone; -1 stays -1."""
        if len(self.gone) + len(self.born) > _SHIFTS_MAX:
            # The last entry serves -1.
            return np.append(self.forward(), np.int32(MISSING))[handles]
        found = handles.copy()
        lost = [np.flatnonzero(handles == each) for each in self.gone.tolist()]
        for gone in self.gone[::-1].tolist():
            found -= found > gone
        for born in self.born.tolist():
            found += found >= born
        for places in lost:
            found[places] = MISSING
        return found

    def moved(self, handles: Counts) -> Counts:
        """The new handles of some old ones that survive."""
        ranks = handles - np.searchsorted(self.gone, handles)
        return _nth_outside(self.born, ranks)

    def origins(self, handles: Counts) -> Counts:
        """The old handles of some new ones that are not born."""
        ranks = handles - np.searchsorted(self.born, handles)
        return _nth_outside(self.gone, ranks)


def still(size: int) -> Step:
    """The step in which nothing happens."""
    none = np.empty(0, np.int64)
    return Step(size, size, none, none, none)


def composed(first: Step, second: Step) -> Step:
    """Two steps as one."""
    dead = np.isin(second.gone, first.born, invert=True)
    gone = np.union1d(first.gone, first.origins(second.gone[dead]))
    left = np.setdiff1d(first.born, second.gone)
    born = np.union1d(second.born, second.moved(left))
    kept = np.setdiff1d(first.rewritten, second.gone)
    rewritten = np.union1d(second.rewritten, second.moved(kept))
    return Step(first.before, second.after, gone, born, np.setdiff1d(rewritten, born))


def without(values: npt.NDArray[_Number], places: Counts) -> npt.NDArray[_Number]:
    """An array without some of its entries."""
    return np.delete(values, places) if len(places) else values


def carried(values: npt.NDArray[_Number], step: Step, born: Any) -> npt.NDArray[_Number]:
    """An array by handle after a step; `born` are the values of the born."""
    kept = without(values, step.gone)
    if not len(step.born):
        return kept
    # Where a born one goes among the survivors: its handle without the born before it.
    return np.insert(kept, step.born - np.arange(len(step.born)), born)


def carried_column(column: pa.Array, step: Step, fresh: pa.Array) -> pa.Array:
    """A column after a step; `fresh` are the values at `step.fresh`."""
    column = roomy(column, column.nbytes + fresh.nbytes)
    if fresh.type != column.type:
        fresh = fresh.cast(column.type)
    places = step.fresh
    lost = np.union1d(step.gone, step.origins(step.rewritten))
    if not len(places) and not len(lost):
        return column
    if len(places) + len(lost) > _STRETCHES_MAX:
        return _picked_column(column, step, fresh, places)
    parts: list[pa.Array] = []
    old = new = 0
    cuts = np.append(places, step.after)
    for number, cut in enumerate(cuts.tolist()):
        # Old values up to the next fresh place, in stretches between the lost ones.
        while new < cut:
            skip = int(np.searchsorted(lost, old))
            end = int(lost[skip]) if skip < len(lost) else step.before
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


def _picked_column(column: pa.Array, step: Step, fresh: pa.Array, places: Counts) -> pa.Array:
    whole = pa.concat_arrays([column, fresh])
    sources = np.empty(step.after, np.int64)
    sources[without(np.arange(step.after), step.born)] = without(np.arange(step.before), step.gone)
    sources[places] = len(column) + np.arange(len(places))
    return whole.take(pa.array(sources))


def _nth_outside(taken: Counts, ranks: Counts) -> Counts:
    """The numbers of these ranks among those that are not taken; `taken` ascends."""
    # Before the i-th taken number lie `taken[i] - i` others.
    shift = np.searchsorted(taken - np.arange(len(taken)), ranks, side="right")
    found: Counts = ranks + shift
    return found
