"""Equality of columns, for every type that a property can have."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.dataplane.changes.equality import equal_values

TYPES = {
    "text": (pa.string(), st.text(max_size=3)),
    "integer": (pa.int64(), st.integers(-3, 3)),
    "float": (pa.float64(), st.sampled_from([0.0, 1.5, -2.0])),
    "bool": (pa.bool_(), st.booleans()),
    "texts": (
        pa.list_(pa.string()),
        st.lists(st.one_of(st.none(), st.text(max_size=1)), max_size=3),
    ),
    "vector": (
        pa.list_(pa.float32(), 2),
        st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=2),
    ),
}


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_rows_are_equal_when_their_values_are(name: str, data: st.DataObject) -> None:
    kind, values = TYPES[name]
    rows = data.draw(
        st.lists(st.tuples(st.one_of(st.none(), values), st.one_of(st.none(), values)))
    )
    left, right = (pa.array([row[side] for row in rows], kind) for side in (0, 1))
    found = equal_values(left, right)
    assert found.tolist() == [
        a == b for a, b in zip(left.to_pylist(), right.to_pylist(), strict=True)
    ]


def test_slices_are_compared_by_their_own_values() -> None:
    lists = pa.array([["a"], ["b", "c"], None, ["d"]], pa.list_(pa.string()))
    assert equal_values(lists.slice(1, 2), lists.slice(1, 2)).tolist() == [True, True]
    assert equal_values(lists.slice(0, 2), lists.slice(1, 2)).tolist() == [False, False]


def test_not_a_number_equals_itself() -> None:
    values = pa.array([float("nan"), 1.0])
    assert equal_values(values, values).tolist() == [True, True]
