"""The output of a step: variables that are not read any more go, and equal rows become one."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import numpy as np

from omnigraph.exec import tuning
from omnigraph.exec.read.frame import Frame, Index, distinct, summed, sums_by
from omnigraph.exec.view import Counts, Handles, Mask

_KEY_MAX: Final = 2**62


class Multiplicity(Enum):
    """The treatment of equal rows that the end of a pipeline allows."""

    ROWS = auto()  # every row by itself
    COUNTS = auto()  # how many there are
    SET = auto()  # only that there are some


class StepOutput:
    """The output of a step: its rows with the live variables, equal rows as one where that helps.

    Attributes:
        live: The variables that are read later on.
        mode: What happens to rows that agree in them.
        folds: Whether the step is the last that needs some variable.
        again: Whether later steps multiply rows, so that fewer rows pay off.
    """

    __slots__ = ("again", "folds", "live", "mode")

    def __init__(
        self, live: tuple[str, ...], mode: Multiplicity, *, folds: bool, again: bool
    ) -> None:
        """Keep these variables."""
        self.live = live
        self.mode = mode
        self.folds = folds and mode is not Multiplicity.ROWS
        self.again = again

    def kept(self, frame: Frame) -> Frame:
        """The frame without what is not needed any more."""
        if len(frame.vars) > len(self.live):
            frame = frame.only([name for name in self.live if name in frame.vars])
        return fold(frame, self.mode, again=self.again) if self.folds else frame

    def expanded(
        self,
        frame: Frame,
        counts: Counts,
        fresh: dict[str, Handles],
        mask: Mask | None,
        order: str | None = None,
    ) -> Frame:
        """Each row as many times as `counts` says, beside fresh columns; where the mask is set.

        `order` is a fresh variable whose ids ascend within each row of the frame.
        """
        old = [name for name in self.live if name in frame.vars and name not in fresh]
        new = [name for name in self.live if name in fresh]
        length = len(next(iter(fresh.values())))
        known = frame.order
        if known is not None:
            known = None if order is None else (order,) if frame.rows == 1 else (*known, order)
        places: Index | None = None
        if mask is not None:
            places = np.flatnonzero(mask)
            length = len(places)
        columns: dict[str, Handles] = {}
        for name in new:
            columns[name] = fresh[name] if places is None else fresh[name][places]
        weights: Counts | None = None
        if old or frame.weights is not None:
            if frame.rows == 1:
                rows: Index = np.zeros(length, np.intp)
            else:
                rows = np.repeat(np.arange(frame.rows), counts)
                rows = rows if places is None else rows[places]
            for name in old:
                columns[name] = frame.vars[name][rows]
            if frame.weights is not None:
                weights = frame.weights[rows]
        if self.mode is not Multiplicity.ROWS:
            known = None
        made = Frame(length, columns, weights, known)
        return fold(made, self.mode, again=self.again) if self.folds else made


def fold(frame: Frame, mode: Multiplicity, *, again: bool) -> Frame:
    """Make equal rows one: with the sum of their weights, or just one of them."""
    names = tuple(frame.vars)
    if frame.rows <= 1:
        return frame
    if not names:
        if mode is Multiplicity.SET:
            return Frame(1, {})
        return Frame(
            1, {}, np.array([frame.rows if frame.weights is None else summed(frame.weights)])
        )
    if len(names) == 1:
        return _fold_one(frame, names[0], mode)
    if not again or frame.rows < tuning.active.fold_rows_min:
        return frame
    keys = packed([frame.vars[name] for name in names])
    if keys is None:
        return frame
    if mode is Multiplicity.SET:
        _, first = np.unique(keys, return_index=True)
        return Frame(len(first), {name: frame.vars[name][first] for name in names})
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    weights = sums_by(group, frame.weights, len(first))
    return Frame(len(first), {name: frame.vars[name][first] for name in names}, weights)


def _fold_one(frame: Frame, name: str, mode: Multiplicity) -> Frame:
    handles = frame.vars[name]
    low = int(handles.min())
    size = int(handles.max()) + 2
    shifted = handles + np.int32(1) if low < 0 else handles
    if mode is Multiplicity.SET:
        found = distinct(shifted, size)
        return Frame(len(found), {name: found - np.int32(1) if low < 0 else found})
    if frame.rows * 16 < size:
        found, group = np.unique(handles, return_inverse=True)
        return Frame(len(found), {name: found}, sums_by(group, frame.weights, len(found)))
    counts = sums_by(shifted, frame.weights, size)
    there = np.flatnonzero(counts)
    found = (there - 1 if low < 0 else there).astype(np.int32)
    return Frame(len(found), {name: found}, counts[there])


def packed(columns: list[Handles]) -> Counts | None:
    """One number per row that is equal where all columns are; None when they do not fit."""
    sizes = [int(column.max(initial=-1)) + 2 for column in columns]
    if float(np.prod(np.array(sizes, np.float64))) > _KEY_MAX:
        return None
    keys = columns[0].astype(np.int64) + 1
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        keys = keys * size + (column.astype(np.int64) + 1)
    return keys
