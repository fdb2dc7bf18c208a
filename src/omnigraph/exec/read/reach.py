"""Nodes at a shortest distance within bounds, from each of several sources."""

from __future__ import annotations

import numpy as np

from omnigraph.exec import tuning
from omnigraph.exec.read.frame import distinct
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.view import Counts, GraphView, Handles, Mask, NeighbourSlices
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Towards
from omnigraph.runtime import cancellation


class Walk:
    """Bounded traversal along one edge type between nodes of one type.

    A node counts at its shortest distance. The source is at distance 1 of itself by a stored
    self-loop, and at none otherwise.
    """

    __slots__ = ("edge", "high", "low", "towards")

    def __init__(self, edge: EntityRef, towards: Towards, low: int, high: int) -> None:
        """Take from `low` to `high` hops."""
        self.edge = edge
        self.towards = towards
        self.low = low
        self.high = high

    def reach(
        self, view: GraphView, sources: Handles, size: int, limits: Limits
    ) -> NeighbourSlices:
        """The nodes that each of some distinct sources reaches; `size` is the number of nodes."""
        if len(sources) == 1:
            targets = self._from_one(view, int(sources[0]), size)
            return NeighbourSlices(np.array([len(targets)]), targets)
        step = max(1, tuning.active.marked_pairs_max // max(size, 1))
        seen = np.zeros(min(step, len(sources)) * size, np.bool_)
        counts: list[Counts] = []
        targets_of: list[Handles] = []
        total = 0
        for begin in range(0, len(sources), step):
            slices = self._from_some(view, sources[begin : begin + step], size, seen)
            total += len(slices.targets)
            limits.check(total)
            counts.append(slices.counts)
            targets_of.append(slices.targets)
        return NeighbourSlices(np.concatenate(counts), np.concatenate(targets_of))

    def _from_one(self, view: GraphView, source: int, size: int) -> Handles:
        frontier = np.array([source], np.int32)
        seen = np.zeros(size, np.bool_)
        seen[source] = True
        found: list[Handles] = []
        for distance in range(1, self.high + 1):
            cancellation.check()
            targets = view.neighbours(self.edge, self.towards, frontier).targets
            if distance == 1:
                fresh = targets
                frontier = targets[targets != source]
            else:
                fresh = distinct(targets[~seen[targets]], size)
                frontier = fresh
            seen[frontier] = True
            if distance >= self.low:
                found.append(fresh)
            if not len(frontier):
                break
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int32), *found])

    def _from_some(
        self, view: GraphView, sources: Handles, size: int, seen: Mask
    ) -> NeighbourSlices:
        """The same from several sources; pairs of source and node are numbered together."""
        base = np.arange(len(sources), dtype=np.int64) * size
        own = base + sources
        seen[own] = True
        touched: list[Counts] = [own]
        found: list[Counts] = [np.empty(0, np.int64)]
        frontier = own
        for distance in range(1, self.high + 1):
            if distance == 1:
                fresh = self._step(view, frontier, size, None)
                frontier = fresh[~seen[fresh]]
            else:
                fresh = frontier = self._step(view, frontier, size, seen)
            seen[frontier] = True
            touched.append(frontier)
            if distance >= self.low:
                found.append(fresh)
            if not len(frontier):
                break
        for keys in touched:
            seen[keys] = False
        pairs = np.sort(np.concatenate(found))
        counts = np.bincount(pairs // size, minlength=len(sources)) if size else base
        return NeighbourSlices(counts, (pairs % max(size, 1)).astype(np.int32))

    def _step(self, view: GraphView, frontier: Counts, size: int, seen: Mask | None) -> Counts:
        """The pairs one hop from those of the frontier, each once; without those seen before."""
        nodes = (frontier % size).astype(np.int32)
        ends = np.cumsum(view.degrees(self.edge, self.towards, nodes))
        # A dense graph leads to far more than there are pairs: it is walked piece by piece.
        most = tuning.active.walked_targets_max
        cuts = np.searchsorted(ends, np.arange(most, int(ends[-1]), most)) + 1
        found: list[Counts] = []
        for part, near in zip(np.split(frontier, cuts), np.split(nodes, cuts), strict=True):
            if not len(part):
                continue
            cancellation.check()
            slices = view.neighbours(self.edge, self.towards, near)
            keys: Counts = np.repeat(part - near, slices.counts)
            keys = keys + slices.targets
            found.append(keys if seen is None else np.unique(keys[~seen[keys]]))
        if len(found) == 1:
            return found[0]
        whole: Counts = np.concatenate([np.empty(0, np.int64), *found])
        return whole if seen is None else np.unique(whole)
