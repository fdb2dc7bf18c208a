import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.exec.search.nearest import NearestQuery, Vectors
from omnigraph.exec.view import Mask
from omnigraph.types import Metric

Row = Sequence[float] | None


def query(rows: Sequence[Row], metric: Metric, target: Sequence[float]) -> NearestQuery:
    dim = len(target)
    matrix = np.array([row or [math.nan] * dim for row in rows], np.float32).reshape(-1, dim)
    valid = np.array([row is not None for row in rows], np.bool_)
    return NearestQuery(Vectors(matrix, valid), metric, np.array(target, np.float64))


def valued(asked: NearestQuery) -> Mask:
    found = asked.has_value(None)
    return np.ones(len(asked.vectors.matrix), np.bool_) if found is None else found


def distance(row: Row, metric: Metric, target: Sequence[float]) -> float | None:
    if row is None:
        return None
    stored = [float(np.float32(number)) for number in row]
    if metric is Metric.L2:
        return math.fsum((a - b) ** 2 for a, b in zip(stored, target, strict=True))
    product = math.fsum(a * b for a, b in zip(stored, target, strict=True))
    if metric is Metric.DOT:
        return 1 - product
    lengths = math.hypot(*stored) * math.hypot(*target)
    return 1 - product / lengths if lengths else None


NUMBER = st.floats(-100, 100, width=32) | st.sampled_from([0.0, 1.0, -1.0, 1e-3, 3e30])
ROW = st.none() | st.tuples(NUMBER, NUMBER, NUMBER)
ROWS = st.lists(ROW, min_size=1, max_size=30)


@given(ROWS, st.sampled_from(Metric), st.tuples(NUMBER, NUMBER, NUMBER))
def test_distances_are_the_formulas(
    rows: list[Row], metric: Metric, target: tuple[float, ...]
) -> None:
    asked = query(rows, metric, target)
    expected = [distance(row, metric, target) for row in rows]
    valid = valued(asked)
    assert valid.tolist() == [each is not None for each in expected]
    found = asked.distances(np.flatnonzero(valid).astype(np.int32)).tolist()
    assert found == pytest.approx([e for e in expected if e is not None], rel=1e-9, abs=1e-9)


@given(ROWS, st.sampled_from(Metric), st.tuples(NUMBER, NUMBER, NUMBER), st.data())
def test_the_best_hold_everyone_that_is_as_near_as_the_last(
    rows: list[Row], metric: Metric, target: tuple[float, ...], data: st.DataObject
) -> None:
    asked = query(rows, metric, target)
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True).map(sorted))
    handles = None if data.draw(st.booleans()) else np.array(chosen, np.int32)
    count = data.draw(st.integers(1, 6))
    found = asked.best(handles, count)
    everyone = np.arange(len(rows), dtype=np.int32) if handles is None else handles
    there = everyone[valued(asked)[everyone]]
    true = asked.distances(there)
    if len(there) > count:
        bound = np.sort(true)[count - 1]
        assert set(there[true <= bound].tolist()) <= set(found.tolist())
    else:
        assert found.tolist() == there.tolist()
    assert set(found.tolist()) <= set(there.tolist())


def test_vectors_of_one_direction_are_equally_far() -> None:
    asked = query([(1, 2), (3, 6), (0.1, 0.2), (-1, -2), (2, 1)], Metric.COSINE, (5, 10))
    everyone = np.arange(5, dtype=np.int32)
    assert asked.distances(everyone).tolist() == [0.0, 0.0, 0.0, 2.0, 0.2]


def test_a_row_is_as_far_wherever_it_stands() -> None:
    generator = np.random.default_rng(7)
    row = generator.normal(size=100).tolist()
    for count in (1, 2, 3, 5, 17):
        asked = query([row] * count, Metric.L2, generator.normal(size=100).tolist())
        everyone = np.arange(count, dtype=np.int32)
        assert len(set(asked.distances(everyone).tolist())) == 1


def test_zero_vectors_have_no_direction() -> None:
    rows = [(0.0, 0.0), (1.0, 0.0)]
    assert valued(query(rows, Metric.COSINE, (1, 1))).tolist() == [False, True]
    assert valued(query(rows, Metric.COSINE, (0, 0))).tolist() == [False, False]
    assert valued(query(rows, Metric.L2, (0, 0))).tolist() == [True, True]
    assert query(rows, Metric.COSINE, (0, 0)).best(None, 1).tolist() == []


@pytest.mark.parametrize("metric", Metric)
def test_the_best_of_many_are_few(metric: Metric) -> None:
    generator = np.random.default_rng(11)
    rows = generator.normal(size=(5_000, 32)).astype(np.float32)
    asked = NearestQuery(Vectors(rows, np.ones(5_000, np.bool_)), metric, generator.normal(size=32))
    everyone = np.arange(5_000, dtype=np.int32)
    exact = asked.distances(everyone)
    found = asked.best(None, 10)
    assert set(np.argsort(exact)[:10].tolist()) <= set(found.tolist())
    assert len(found) < 20


def test_the_best_of_none() -> None:
    asked = query([(1, 2), None], Metric.L2, (1, 2))
    assert asked.best(np.zeros(0, np.int32), 3).tolist() == []
    assert asked.best(None, 0).tolist() == []
