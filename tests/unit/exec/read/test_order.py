"""The first rows of an order are those that a full sort gives."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.exec.read.frame import Index
from omnigraph.exec.read.keys import KeySource, SortKeys, backwards, order_keys, ordered
from omnigraph.exec.tuning import tuned

few = st.integers(0, 2)
rows = st.lists(st.tuples(few, few, few), min_size=1, max_size=12)


def by(numbers: list[int]) -> KeySource:
    keys = np.array(numbers)

    def source(places: Index | None) -> SortKeys:
        return [keys if places is None else keys[places]]

    return source


@given(rows, st.integers(0, 13))
def test_the_best_few(items: list[tuple[int, int, int]], most: int) -> None:
    with tuned(partial_sort_rows_min=1):
        sources = [by([item[place] for item in items]) for place in range(3)]
        found = ordered(sources, len(items), most)[:most].tolist()
    wanted = sorted(range(len(items)), key=lambda place: (items[place], place))[:most]
    assert [items[place] for place in found] == [items[place] for place in wanted]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([2, None, 1, -(2**63), 2**63 - 1], pa.int64()),
        pa.array([2, None, 1, 0, 2**64 - 1], pa.uint64()),
        pa.array([2, None, 1, -(2**31)], pa.int32()),
        pa.array([0.5, None, -1e308, 1e308]),
        pa.array([True, None, False]),
        pa.array(["b", None, "", "\u00e9", "a"]),
        pa.array([1, None, -1], pa.date32()),
        pa.array([1, None, -1], pa.timestamp("ms", tz="UTC")),
        pa.array([["a"], None, [], ["a", "b"], ["B"]]),
    ],
    ids=lambda array: str(array.type),
)
def test_nulls_come_first_up_and_last_down(array: pa.Array) -> None:
    values = array.to_pylist()
    there = sorted(item for item in values if item is not None)
    up = order_keys(array)
    for keys, wanted in ((up, [None, *there]), (backwards(up), [*there[::-1], None])):
        places = np.lexsort(keys[::-1]).tolist()
        assert [values[place] for place in places] == wanted
