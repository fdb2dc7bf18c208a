"""Finding ids: every id is found, and nothing else is."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.exec.dense.id_index import IdIndex, sorted_order

# Few letters and many lengths: shared beginnings, ids that begin others, zeros that look like
# padding, and letters of several bytes.
ids = st.text(alphabet="ab\0é\U0001f600", max_size=14)


@given(st.lists(ids, unique=True), st.lists(ids), st.booleans())
def test_finding(known: list[str], asked: list[str], wide: bool) -> None:
    ranked = sorted(known, key=str.encode)
    index = IdIndex(pa.array(ranked, pa.large_string() if wide else pa.string()))
    expected = [ranked.index(each) if each in known else -1 for each in [*known, *asked]]
    assert [index.find_one(each) for each in [*known, *asked]] == expected
    assert index.find([*known, *asked]).tolist() == expected
    many = [*known, *asked] * 70
    assert index.find(many).tolist() == expected * 70
    assert index.find_array(pa.array(many, pa.string())).tolist() == expected * 70
    assert index.cells([*range(len(ranked)), -1]) == [*ranked, None]


@given(st.lists(ids, unique=True), st.integers(0, 3))
def test_sorting(known: list[str], skip: int) -> None:
    array = pa.array(known, pa.string()).slice(skip)
    order = sorted_order(array)
    places = list(range(len(array))) if order is None else order.tolist()
    assert [array[place].as_py() for place in places] == sorted(known[skip:], key=str.encode)


@given(st.lists(ids, unique=True, min_size=1), st.lists(ids))
def test_lower_bounds(known: list[str], asked: list[str]) -> None:
    ranked = sorted(known, key=str.encode)
    index = IdIndex(pa.array(ranked, pa.string()))
    expected = [sum(each.encode() < wanted.encode() for each in ranked) for wanted in asked]
    assert index.lower_bounds(pa.array(asked, pa.string())).tolist() == expected


def test_a_slice_of_a_longer_array() -> None:
    array = pa.array(["zz", "a", "ab", "b"]).slice(1)
    index = IdIndex(array)
    assert [index.find_one(each) for each in ("zz", "a", "ab", "b", "c")] == [-1, 0, 1, 2, -1]
