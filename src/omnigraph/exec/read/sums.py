"""Sums per group that do not depend on the order of the rows: exact, then rounded once."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from omnigraph.exec.view import Counts

Floats = npt.NDArray[np.float64]

_EXACT_MAX: Final = 2.0**53
_LOW_BITS: Final = np.int64((1 << 26) - 1)
_WEIGHT_BITS: Final = 26


def sum_integers(
    values: npt.NDArray[np.integer], weights: Counts | None, group: Counts, groups: int
) -> list[float]:
    """The sum of integers in each group, as the nearest double."""
    most = float(max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0)))))
    total = float(len(values)) if weights is None else float(weights.sum(dtype=np.float64))
    if most * total < _EXACT_MAX:
        factors = values if weights is None else values * weights
        found: list[float] = np.bincount(group, factors, minlength=groups).tolist()
        return found
    exact = [0] * groups
    weighed = [1] * len(values) if weights is None else weights.tolist()
    for value, weight, place in zip(values.tolist(), weighed, group.tolist(), strict=True):
        exact[place] += value * weight
    return [float(item) for item in exact]


def sum_floats(values: Floats, weights: Counts | None, group: Counts, groups: int) -> list[float]:
    """The sum of floats in each group, as the double nearest to their exact sum."""
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(groups + 1)).tolist()
    values = values[order]
    weights = None if weights is None else weights[order]
    parts = [values] if weights is None else _products(values, weights)
    found: list[float] = []
    for begin, end in pairwise(bounds):
        try:
            total = math.fsum([item for part in parts for item in part[begin:end].tolist()])
        except (OverflowError, ValueError):
            total = math.inf
        if not math.isfinite(total):
            # Something on the way is too large for a double; the sum itself need not be.
            few = None if weights is None else weights[begin:end]
            total = _sum_fractions(values[begin:end], few)
        found.append(total)
    return found


def _products(values: Floats, weights: Counts) -> list[Floats]:
    """Parts whose sum is each value times its weight, none of them rounded."""
    high = (values.view(np.int64) & ~_LOW_BITS).view(np.float64)
    low = values - high
    parts: list[Floats] = []
    shift = 0
    while True:
        digit = ((weights >> shift) & _LOW_BITS).astype(np.float64) * 2.0**shift
        with np.errstate(over="ignore"):
            parts += [high * digit, low * digit]
        shift += _WEIGHT_BITS
        if not (weights >> shift).any():
            return parts


def _sum_fractions(values: Floats, weights: Counts | None) -> float:
    factors = [1] * len(values) if weights is None else weights.tolist()
    pairs = zip(values.tolist(), factors, strict=True)
    total = sum((Fraction(value) * factor for value, factor in pairs), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf
