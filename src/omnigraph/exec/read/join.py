"""Inner pipelines: rows for which they yield nothing, and rows that stay when they do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from omnigraph.exec import tuning
from omnigraph.exec.read.expand import EdgeStep
from omnigraph.exec.read.fold import Multiplicity, StepOutput, packed
from omnigraph.exec.read.frame import Frame, multiplied
from omnigraph.exec.read.run import Run
from omnigraph.exec.view import Counts, Handles, Mask
from omnigraph.runtime import cancellation


class ReadStep(Protocol):
    """A step of a program: a frame in, a frame out."""

    label: str

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """Run on these rows."""
        ...


def run_steps(steps: Sequence[ReadStep], frame: Frame, run: Run) -> Frame | None:
    """The frame after some operators; None as soon as there are no rows."""
    for step in steps:
        cancellation.check()
        frame = step(frame, run)
        if not frame.rows:
            return None
    return frame


class AntiJoinStep:
    """Keeps the rows for which an inner pipeline yields nothing."""

    __slots__ = ("inner", "label", "number", "outer", "output")

    def __init__(
        self,
        outer: tuple[str, ...],
        inner: Sequence[ReadStep],
        number: str,
        output: StepOutput,
        *,
        label: str,
    ) -> None:
        """`number` is the name under which the inner rows know the outer one."""
        self.outer = outer
        self.inner = tuple(inner)
        self.number = number
        self.output = output
        self.label = label

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """The rows that stay."""
        begin, group = _distinct_outer(frame, self.outer, self.number)
        end = run_steps(self.inner, begin, run)
        alone = np.ones(begin.rows, np.bool_)
        if end is not None:
            alone[end.vars[self.number]] = False
        if not alone.all():
            frame = frame.keep(alone if group is None else alone[group])
        return self.output.kept(frame)


class UnlinkedStep(EdgeStep):
    """Keeps the rows whose node has no edge of a type."""

    __slots__ = ()

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """The rows that stay."""
        op = self.op
        handles = frame.vars[op.source]
        if self.nullable and len(handles) and int(handles.min()) < 0:
            there = handles >= 0
            alone = np.ones(frame.rows, np.bool_)
            alone[there] = run.view.degrees(op.edge, op.towards, handles[there]) == 0
        else:
            sources = None if frame.whole == op.source else handles
            alone = run.view.degrees(op.edge, op.towards, sources) == 0
        return self.output.kept(frame.keep(alone))


class OptionalStep:
    """Joins the rows with what an inner pipeline yields, or with nothing."""

    __slots__ = ("binds", "inner", "label", "number", "outer", "output")

    def __init__(
        self,
        outer: tuple[str, ...],
        binds: tuple[str, ...],
        inner: Sequence[ReadStep],
        number: str,
        output: StepOutput,
        *,
        label: str,
    ) -> None:
        """`binds` are the variables of the inner pipeline that are read later on."""
        self.outer = outer
        self.binds = binds
        self.inner = tuple(inner)
        self.number = number
        self.output = output
        self.label = label

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """All rows, some of them several times."""
        begin = Frame(frame.rows, {name: frame.vars[name] for name in self.outer})
        begin.vars[self.number] = np.arange(frame.rows, dtype=np.int32)
        end = run_steps(self.inner, begin, run)
        alone = np.ones(frame.rows, np.bool_)
        places: Counts = np.empty(0, np.int64)
        if end is not None:
            places = end.vars[self.number].astype(np.int64)
            alone[places] = False
        lonely = np.flatnonzero(alone)
        missing = np.full(len(lonely), -1, np.int32)
        kept = frame.only([name for name in self.output.live if name in frame.vars])
        run.limits.check(len(places) + len(lonely), len(self.output.live))
        joined = kept.pick(np.concatenate([places, lonely]))
        for name in self.binds:
            found = missing if end is None else np.concatenate([end.vars[name], missing])
            joined.vars[name] = found
        if end is not None and end.weights is not None and self.output.mode is Multiplicity.COUNTS:
            counts = np.concatenate([end.weights, np.ones(len(lonely), np.int64)])
            joined.weights = multiplied(joined.weights, counts)
        return self.output.kept(joined)


def _distinct_outer(
    frame: Frame, outer: tuple[str, ...], number: str
) -> tuple[Frame, Handles | Counts | Mask | None]:
    """The rows an inner pipeline starts from, and which of them each outer row has."""
    columns = [frame.vars[name] for name in outer]
    if frame.rows >= tuning.active.inner_rows_min and columns and set(outer) != set(frame.vars):
        keys = packed(columns)
        if keys is not None:
            _, first, group = np.unique(keys, return_index=True, return_inverse=True)
            begin = {name: frame.vars[name][first] for name in outer}
            begin[number] = np.arange(len(first), dtype=np.int32)
            return Frame(len(first), begin), group
    begin = {name: frame.vars[name] for name in outer}
    begin[number] = np.arange(frame.rows, dtype=np.int32)
    return Frame(frame.rows, begin), None
