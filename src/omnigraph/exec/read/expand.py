"""Following edges: one hop, several, with or without the edges themselves, open or closed."""

from __future__ import annotations

import numpy as np

from omnigraph.exec import tuning
from omnigraph.exec.read.conditions import EntityCondition
from omnigraph.exec.read.fold import Multiplicity, StepOutput
from omnigraph.exec.read.frame import Frame, distinct, multiplied
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.read.run import Run
from omnigraph.exec.view import Counts, GraphView, Handles, Mask, NeighbourSlices
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Expand, Towards
from omnigraph.runtime import cancellation


class BoundedTraversal:
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


class EdgeStep:
    """A step along one edge of the plan; `nullable` says that an end may be missing."""

    __slots__ = ("label", "nullable", "op", "output")

    def __init__(self, op: Expand, output: StepOutput, *, nullable: bool, label: str) -> None:
        """Follow `op`."""
        self.op = op
        self.output = output
        self.nullable = nullable
        self.label = label

    def _ask_first(self, sources: Handles, run: Run) -> None:
        """Refuse what would not fit before it is made."""
        if len(sources) >= tuning.active.bounded_sources_min:
            found = int(run.view.degrees(self.op.edge, self.op.towards, sources).sum())
            run.limits.check(found, len(self.output.live))


class HopStep(EdgeStep):
    """One hop to the distinct nodes at the other end."""

    __slots__ = ("condition",)

    def __init__(
        self,
        op: Expand,
        condition: EntityCondition | None,
        output: StepOutput,
        *,
        nullable: bool,
        label: str,
    ) -> None:
        """Follow `op` to nodes that meet a condition."""
        super().__init__(op, output, nullable=nullable, label=label)
        self.condition = condition

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """The rows with their targets."""
        op = self.op
        if self.nullable:
            frame = present(frame, op.source)
        sources = frame.vars[op.source]
        self._ask_first(sources, run)
        slices = run.view.neighbours(op.edge, op.towards, sources)
        run.limits.check(len(slices.targets), len(self.output.live))
        mask = None if self.condition is None else self.condition.mask(run, slices.targets)
        return self.output.expanded(
            frame, slices.counts, {op.target: slices.targets}, mask, op.target
        )


class HopEdgesStep(EdgeStep):
    """One hop with a row per edge; closed when the target is bound already."""

    __slots__ = ("condition", "edge_condition", "edge_var")

    def __init__(
        self,
        op: Expand,
        condition: EntityCondition | None,
        edge_condition: EntityCondition | None,
        output: StepOutput,
        *,
        nullable: bool,
        label: str,
    ) -> None:
        """Follow `op`, which names its edges."""
        super().__init__(op, output, nullable=nullable, label=label)
        self.edge_var = op.edge_var or ""
        self.condition = condition
        self.edge_condition = edge_condition

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """The rows with their edges and targets."""
        op = self.op
        if self.nullable:
            frame = present(frame, op.source)
        sources = frame.vars[op.source]
        self._ask_first(sources, run)
        slices = run.view.edges(op.edge, op.towards, sources)
        run.limits.check(len(slices.targets), len(self.output.live))
        edges = slices.edges
        assert edges is not None
        mask: Mask | None = None
        if op.closes:
            mask = np.repeat(frame.vars[op.target], slices.counts) == slices.targets
        if self.edge_condition is not None:
            mask = both(mask, self.edge_condition.mask(run, edges))
        if self.condition is not None:
            mask = both(mask, self.condition.mask(run, slices.targets))
        fresh = {self.edge_var: edges}
        if not op.closes:
            fresh[op.target] = slices.targets
        return self.output.expanded(frame, slices.counts, fresh, mask)


class ClosedHopStep(EdgeStep):
    """A hop between two bound nodes: keeps the rows in which it exists."""

    __slots__ = ()

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """The rows whose two nodes are linked."""
        op = self.op
        if self.nullable:
            frame = present(present(frame, op.source), op.target)
        sources, targets = frame.vars[op.source], frame.vars[op.target]
        linked = run.view.linked(op.edge, op.towards, sources, targets)
        return self.output.kept(frame.keep(linked))


class MultiHopStep(EdgeStep):
    """Several hops, open or closed."""

    __slots__ = ("chains", "condition", "walk")

    def __init__(
        self,
        op: Expand,
        condition: EntityCondition | None,
        output: StepOutput,
        *,
        chains: bool,
        nullable: bool,
        label: str,
    ) -> None:
        """Follow `op`; an edge between two types cannot be followed twice, it never `chains`."""
        super().__init__(op, output, nullable=nullable, label=label)
        self.condition = condition
        self.chains = chains
        self.walk = BoundedTraversal(op.edge, op.towards, op.low, op.high if chains else 1)

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """The rows with what they reach."""
        op = self.op
        if self.nullable:
            frame = present(frame, op.source)
            frame = present(frame, op.target) if op.closes else frame
        slices, rows = self._slices(frame.vars[op.source], run)
        if op.closes:
            wanted = rows.astype(np.int64) * _width(slices) + frame.vars[op.target]
            owners = np.repeat(np.arange(len(slices.counts)), slices.counts)
            keys = owners * _width(slices) + slices.targets
            there = np.isin(wanted, keys) & (frame.vars[op.target] < _width(slices))
            return self.output.kept(frame.keep(there))
        if op.target not in self.output.live and self.condition is None:
            return counted(frame, slices.counts[rows], self.output)
        run.limits.check(int(slices.counts[rows].sum()), len(self.output.live))
        spread = _spread(slices, rows)
        mask = None if self.condition is None else self.condition.mask(run, spread.targets)
        return self.output.expanded(frame, spread.counts, {op.target: spread.targets}, mask)

    def _slices(self, sources: Handles, run: Run) -> tuple[NeighbourSlices, Counts]:
        """The nodes that each distinct source reaches, and the source of each row."""
        if len(sources) == 1:
            distinct, rows = sources, np.zeros(1, np.int64)
        else:
            distinct, rows = np.unique(sources, return_inverse=True)
        if not len(distinct) or (self.op.low > 1 and not self.chains):
            return NeighbourSlices(np.zeros(len(distinct), np.int64), np.empty(0, np.int32)), rows
        if not self.chains:
            return run.view.neighbours(self.op.edge, self.op.towards, distinct), rows
        size = run.view.size(self.op.target_entity)
        return self.walk.reach(run.view, distinct, size, run.limits), rows


class DegreeStep(EdgeStep):
    """A hop to nodes that are not read: only their number counts."""

    __slots__ = ()

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """The rows that lead anywhere, as often as they do."""
        op = self.op
        if self.nullable:
            frame = present(frame, op.source)
        sources = None if frame.whole == op.source else frame.vars[op.source]
        if op.edge_var is None:
            counts = run.view.degrees(op.edge, op.towards, sources)
        else:
            counts = run.view.edges(op.edge, op.towards, frame.vars[op.source]).counts
        return counted(frame, counts, self.output)


class HopFromAllStep:
    """A hop from all nodes of a type that are not read: its targets, as often as reached."""

    __slots__ = ("condition", "label", "op", "output")

    def __init__(
        self, op: Expand, condition: EntityCondition | None, output: StepOutput, *, label: str
    ) -> None:
        """Arrive along `op` from everywhere."""
        self.op = op
        self.condition = condition
        self.output = output
        self.label = label

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """The targets; the frame is the one empty row."""
        counts = run.view.degrees(self.op.edge, self.op.towards.reversed, None)
        if self.condition is not None:
            counts = np.where(self.condition.whole(run), counts, 0)
        targets = np.flatnonzero(counts)
        weights = None if self.output.mode is Multiplicity.SET else counts[targets]
        found = Frame(len(targets), {self.op.target: targets.astype(np.int32)}, weights)
        return self.output.kept(found)


def counted(frame: Frame, counts: Counts, output: StepOutput) -> Frame:
    """The rows whose count is not zero, each counting that many times more."""
    there = counts > 0
    whole = frame.whole
    if not there.all():
        places = np.flatnonzero(there)
        frame, counts, whole = frame.pick(places, frame.order), counts[places], None
    weights = (
        frame.weights if output.mode is Multiplicity.SET else multiplied(frame.weights, counts)
    )
    return output.kept(Frame(frame.rows, frame.vars, weights, frame.order, whole))


def present(frame: Frame, var: str) -> Frame:
    """The rows in which a variable is not missing."""
    there = frame.vars[var] >= 0
    return frame if there.all() else frame.keep(there)


def both(first: Mask | None, second: Mask) -> Mask:
    """The mask of rows where both hold; None stands for all rows."""
    return second if first is None else first & second


def _width(slices: NeighbourSlices) -> int:
    return int(slices.targets.max(initial=0)) + 1


def _spread(slices: NeighbourSlices, rows: Counts) -> NeighbourSlices:
    """The targets of each row, from those of its source."""
    if len(rows) == len(slices.counts) and (len(rows) < 2 or bool((rows[1:] > rows[:-1]).all())):
        return slices
    counts = slices.counts[rows]
    begins = np.cumsum(slices.counts) - slices.counts
    return NeighbourSlices(counts, slices.targets[ranges(begins[rows], counts)])


def ranges(begins: Counts, counts: Counts) -> Counts:
    """The numbers from each begin on, as many as its count, one range after the other."""
    shifts = begins - (np.cumsum(counts) - counts)
    found: Counts = np.repeat(shifts, counts) + np.arange(int(counts.sum()))
    return found
