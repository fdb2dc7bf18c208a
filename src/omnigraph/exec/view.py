"""The protocol by which a query reads one snapshot: its entities, named by small numbers.

A handle is the number of an entity within its type and its view, from 0 upwards; -1 stands for a
missing one. The operators of a query work on arrays of handles and ask the view for everything
else. There are two implementations: the dense view keeps whole columns and adjacency in memory,
the direct view reads from the store the few entities that a selective query touches. Both give the
same answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Towards

Handles: TypeAlias = npt.NDArray[np.int32]
Counts: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

MISSING: Final = -1


@dataclass(frozen=True, slots=True)
class NeighbourSlices:
    """The neighbours of several sources, source after source.

    `counts` has an entry per source and sums up to the length of `targets`. `edges` are the edges
    that lead there, in the same places, when they were asked for.
    """

    counts: Counts
    targets: Handles
    edges: Handles | None = None


class GraphView(Protocol):
    """One snapshot, read-only. Safe to share between threads. Sources are never missing (-1)."""

    def size(self, entity: EntityRef) -> int:
        """The number of entities of a type."""
        ...

    def find(self, entity: EntityRef, ids: Sequence[str]) -> Handles:
        """The handle of each id; -1 where there is no such entity."""
        ...

    def take(self, entity: EntityRef, column: str, handles: Handles | None) -> pa.Array:
        """The values of a column (`id`, `src`, `dst` or a property), null for -1.

        `None` is the whole type in the order of the handles, which costs no copy.
        """
        ...

    def rank(self, entity: EntityRef, handles: Handles) -> Counts | Handles:
        """Numbers that sort as the ids of the entities do; -1 stays -1."""
        ...

    def neighbours(self, edge: EntityRef, towards: Towards, sources: Handles) -> NeighbourSlices:
        """The distinct nodes one edge away from each source, in the order of their ids."""
        ...

    def edges(self, edge: EntityRef, towards: Towards, sources: Handles) -> NeighbourSlices:
        """Every stored edge at each source, with the node at its other end.

        With `Towards.BOTH` an edge appears once at each of its ends, a self-loop once in all.
        """
        ...

    def degrees(self, edge: EntityRef, towards: Towards, sources: Handles | None) -> Counts:
        """The number of distinct nodes one edge away from each source, or from every node."""
        ...

    def linked(self, edge: EntityRef, towards: Towards, sources: Handles, targets: Handles) -> Mask:
        """True where an edge leads from a source to the target in the same place."""
        ...
