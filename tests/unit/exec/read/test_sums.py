"""Sums are exact before they are rounded, so that no order of the rows shows in them."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.exec.read.aggregate import sum_floats, sum_integers

finite = st.floats(allow_nan=False, allow_infinity=False)
weights = st.integers(1, 2**40)


@given(st.lists(st.tuples(finite, weights, st.integers(0, 2)), max_size=30))
def test_floats(rows: list[tuple[float, int, int]]) -> None:
    values = np.array([row[0] for row in rows], np.float64)
    counts = np.array([row[1] for row in rows], np.int64)
    group = np.array([row[2] for row in rows], np.int64)
    for weighed in (None, counts):
        wanted = []
        for place in range(3):
            total = sum(
                (Fraction(v) * (w if weighed is not None else 1) for v, w, g in rows if g == place),
                Fraction(0),
            )
            try:
                wanted.append(float(total))
            except OverflowError:
                wanted.append(math.inf if total > 0 else -math.inf)
        assert sum_floats(values, weighed, group, 3) == wanted


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), weights), max_size=20))
def test_integers(rows: list[tuple[int, int]]) -> None:
    values = np.array([row[0] for row in rows], np.int64)
    counts = np.array([row[1] for row in rows], np.int64)
    group = np.zeros(len(rows), np.int64)
    assert sum_integers(values, counts, group, 1) == [float(sum(v * w for v, w in rows))]
    assert sum_integers(values, None, group, 1) == [float(sum(v for v, _ in rows))]
