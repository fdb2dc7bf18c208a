"""The rows of a running query: for each bound variable an array of handles.

A frame may carry weights. A row of weight n stands for n rows that agree in all variables that
a later step still reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.errors import Code, LimitExceeded
from omnigraph.exec.view import Counts, Handles, Mask

Index: TypeAlias = npt.NDArray[np.integer[Any]]

WEIGHT_MAX: Final = float(2**63 - 1024)


class Frame:
    """Rows of bound variables. Never changed once it is made.

    Attributes:
        rows: How many rows there are.
        vars: The handles of each variable; -1 where it is missing.
        weights: How many rows each row stands for, or None when it is one.
        order: The variables by whose ids the rows are known to be sorted; every other variable
            has the same value in all rows. None when nothing is known.
        whole: The variable that runs over its whole type, once each and in order, if one does.
    """

    __slots__ = ("order", "rows", "vars", "weights", "whole")

    def __init__(
        self,
        rows: int,
        variables: dict[str, Handles],
        weights: Counts | None = None,
        order: tuple[str, ...] | None = None,
        whole: str | None = None,
    ) -> None:
        """Hold these columns, which have `rows` entries each."""
        self.rows = rows
        self.vars = variables
        self.weights = weights
        self.order = order
        self.whole = whole

    def keep(self, mask: Mask) -> Frame:
        """The rows for which the mask is set."""
        return self.pick(np.flatnonzero(mask), self.order)

    def pick(self, places: Index, order: tuple[str, ...] | None = None) -> Frame:
        """The rows at these places, any number of times each."""
        variables = {name: column[places] for name, column in self.vars.items()}
        weights = None if self.weights is None else self.weights[places]
        return Frame(len(places), variables, weights, order)

    def only(self, names: Iterable[str]) -> Frame:
        """The same rows with fewer variables; the order of the rows is forgotten with them."""
        kept = {name: self.vars[name] for name in names}
        if len(kept) == len(self.vars):
            return self
        order = self.order if self.order is not None and set(self.order) <= set(kept) else None
        return Frame(self.rows, kept, self.weights, order, self.whole)


# The one empty row that every pipeline begins with.
START: Final = Frame(1, {}, None, ())


def multiplied(weights: Counts | None, counts: Counts) -> Counts:
    """The weights of rows that each lead to so many more."""
    if weights is None:
        return counts
    if len(weights) and float(weights.max()) * float(counts.max()) > WEIGHT_MAX:
        raise _too_many()
    return weights * counts


def summed(weights: Counts) -> int:
    """The sum of weights, which must fit what a count can be."""
    total = int(weights.sum())
    if total < 0 or float(weights.sum(dtype=np.float64)) > WEIGHT_MAX:
        raise _too_many()
    return total


def _too_many() -> LimitExceeded:
    text = "the pattern matches more often than a 64-bit integer can count"
    return LimitExceeded(Code.LIMIT_EXCEEDED, text, limit="count", most=2**63 - 1)


def sums_by(places: Index, weights: Counts | None, size: int) -> Counts:
    """The sum of the weights at each of `size` places."""
    if weights is None:
        return np.bincount(places, minlength=size)
    if summed(weights) < 2**53:
        # A double is exact up to there, and this is the fastest sum that numpy has.
        return np.bincount(places, weights, minlength=size).astype(np.int64)
    found = np.zeros(size, np.int64)
    np.add.at(found, places, weights)
    return found


def ascending(handles: Handles) -> Handles:
    """Each handle once, ascending."""
    if len(handles) < 2:
        return handles
    found = np.sort(handles)
    fresh = np.empty(len(found), np.bool_)
    fresh[0] = True
    np.not_equal(found[1:], found[:-1], out=fresh[1:])
    return found[fresh]


def distinct(handles: Handles, size: int) -> Handles:
    """Each handle once, ascending; none is missing, all are below `size`."""
    if len(handles) * 32 < size:
        return ascending(handles)
    seen = np.zeros(size, np.bool_)
    seen[handles] = True
    return np.flatnonzero(seen).astype(np.int32)
