"""Counts of common neighbours of two nodes: triangles without their third corners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.exec import tuning
from omnigraph.exec.read.conditions import EntityCondition
from omnigraph.exec.read.expand import both, counted, present
from omnigraph.exec.read.fold import StepOutput
from omnigraph.exec.read.frame import Frame, Index
from omnigraph.exec.read.run import Run
from omnigraph.exec.view import Counts, Handles, NeighbourSlices
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Expand, Towards

Marks: TypeAlias = npt.NDArray[np.uint64]


class IntersectStep:
    """A hop to nodes that are not read and that another node of the row is linked to as well.

    The nodes that 64 owners lead to are marked, a bit for each owner; then one look at a mark
    is true if a node that the hop leads to is linked to the owner of its row.
    """

    __slots__ = ("closing", "condition", "label", "nullable", "op", "output", "owner", "towards")

    def __init__(
        self,
        op: Expand,
        closing: Expand,
        condition: EntityCondition | None,
        output: StepOutput,
        *,
        nullable: bool,
        label: str,
    ) -> None:
        """Hop along `op` to nodes that `closing` links to another variable, the owner.

        Args:
            op: The hop.
            closing: The edge between its target and the owner, written either way.
            condition: What the target must fulfil.
            output: What is kept.
            nullable: Whether the source or the owner may be missing.
            label: What it is called.
        """
        self.op = op
        self.closing = closing
        forward = closing.target == op.target
        self.owner = closing.source if forward else closing.target
        self.towards = closing.towards if forward else closing.towards.reversed
        self.condition = condition
        self.output = output
        self.nullable = nullable
        self.label = label

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """The rows that have such a node, as often as they do."""
        op = self.op
        if self.nullable:
            frame = present(present(frame, op.source), self.owner)
        hop = _Way(op.edge, op.towards, frame.vars[op.source])
        back = _Way(self.closing.edge, self.towards, frame.vars[self.owner])
        degrees = hop.degrees(run)
        if int(degrees.sum()) <= tuning.active.probed_nodes_max:
            return counted(frame, self._one_by_one(hop, back, run), self.output)
        # What both lead to is found from either side; the shorter way is taken in each row.
        others = back.degrees(run)
        swapped = degrees > others
        counts = np.zeros(frame.rows, np.int64)
        for rows, walked, marked, steps in (
            (np.flatnonzero(~swapped), hop, back, degrees),
            (np.flatnonzero(swapped), back, hop, others),
        ):
            counts[rows] = self._counts(walked.at(rows), marked.at(rows), steps[rows], run)
        return counted(frame, counts, self.output)

    def _one_by_one(self, hop: _Way, back: _Way, run: Run) -> Counts:
        slices = hop.slices(run)
        rows = np.repeat(np.arange(len(hop.nodes)), slices.counts)
        linked = run.view.linked(back.edge, back.towards, back.nodes[rows], slices.targets)
        if self.condition is not None:
            linked = both(linked, self.condition.mask(run, slices.targets))
        return np.bincount(rows[linked], minlength=len(hop.nodes))

    def _counts(self, walked: _Way, marked: _Way, degrees: Counts, run: Run) -> Counts:
        """For each row how many nodes both of its ways lead to."""
        counts = np.zeros(len(degrees), np.int64)
        order = np.argsort(marked.nodes, kind="stable")
        owners = marked.nodes[order]
        fresh = np.flatnonzero(np.diff(owners, prepend=owners[:1] - 1))
        bounds = np.append(fresh, len(order))
        marks = np.zeros(run.view.size(self.op.target_entity), np.uint64)
        size = tuning.active.marked_owners_max
        for begin in range(0, len(fresh), size):
            few = bounds[begin : begin + size + 1]
            rows = order[few[0] : few[-1]]
            bits = np.repeat(np.arange(len(few) - 1, dtype=np.uint64), np.diff(few))
            touched = self._mark(marks, marked.at(order[few[:-1]]), run)
            for part in _parts(degrees[rows]):
                some = rows[part]
                counts[some] = _marked(marks, walked.at(some).slices(run), bits[part])
            marks[touched] = 0
        return counts

    def _mark(self, marks: Marks, owners: _Way, run: Run) -> Handles:
        """Mark what each owner leads to, and return it."""
        slices = owners.slices(run)
        targets = slices.targets
        bits = np.left_shift(np.uint64(1), np.arange(len(slices.counts), dtype=np.uint64))
        values = np.repeat(bits, slices.counts)
        if self.condition is not None:
            passed = np.flatnonzero(self.condition.mask(run, targets))
            targets, values = targets[passed], values[passed]
        np.bitwise_or.at(marks, targets, values)
        return targets


class _Way:
    """An edge type followed from some nodes, a node per row."""

    __slots__ = ("edge", "nodes", "towards")

    def __init__(self, edge: EntityRef, towards: Towards, nodes: Handles) -> None:
        self.edge = edge
        self.towards = towards
        self.nodes = nodes

    def at(self, rows: Index) -> _Way:
        return _Way(self.edge, self.towards, self.nodes[rows])

    def degrees(self, run: Run) -> Counts:
        return run.view.degrees(self.edge, self.towards, self.nodes)

    def slices(self, run: Run) -> NeighbourSlices:
        return run.view.neighbours(self.edge, self.towards, self.nodes)


def _marked(marks: Marks, slices: NeighbourSlices, bits: Marks) -> Counts:
    """For each row of a slices how many of its nodes carry the bit of the row."""
    found = (marks[slices.targets] >> np.repeat(bits, slices.counts)) & np.uint64(1)
    sums = np.zeros(len(found) + 1, np.int64)
    np.cumsum(found, out=sums[1:])
    ends = np.cumsum(slices.counts)
    counted_up: Counts = sums[ends] - sums[ends - slices.counts]
    return counted_up


def _parts(degrees: Counts) -> Iterator[slice]:
    """The rows in parts that lead to a bounded number of nodes, or are single."""
    ends = np.cumsum(degrees)
    begin, done, most = 0, 0, tuning.active.intersected_nodes_max
    while begin < len(ends):
        end = max(begin + 1, int(np.searchsorted(ends, done + most, "right")))
        yield slice(begin, end)
        begin, done = end, int(ends[end - 1])
