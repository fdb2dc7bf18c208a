"""More text than 32-bit offsets reach, with a bound that is lowered to some bytes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.exec import tuning
from omnigraph.exec.large_text import concatenated, joined, narrowed, taken

MOST = 20
texts = st.none() | st.text(max_size=8)
columns = st.lists(texts, max_size=30)
lists = st.lists(st.none() | st.lists(texts, max_size=4), max_size=20)


@pytest.fixture(autouse=True, scope="module")
def _low_bound() -> object:
    with tuning.tuned(narrow_text_bytes_max=MOST):
        yield


def text_bytes(chunk: pa.Array) -> int:
    values = chunk.to_pylist()
    flat = [text for item in values for text in (item if isinstance(item, list) else [item])]
    return sum(len(text.encode()) for text in flat if text)


def check_chunks(found: pa.ChunkedArray, kind: pa.DataType, values: list[object]) -> None:
    assert found.type == kind
    assert found.to_pylist() == values
    for chunk in found.chunks:
        chunk.validate(full=True)
        assert len(chunk) <= 1 or text_bytes(chunk) <= MOST


@given(columns, st.integers(0, 5))
def test_wide_texts_become_chunks(values: list[str | None], skip: int) -> None:
    array = pa.array(values, pa.large_string()).slice(skip)
    check_chunks(narrowed(array), pa.string(), list(values[skip:]))


@given(lists, st.integers(0, 5))
def test_wide_lists_become_chunks(values: list[list[str | None] | None], skip: int) -> None:
    array = pa.array(values, pa.list_(pa.large_string())).slice(skip)
    check_chunks(narrowed(array), pa.list_(pa.string()), list(values[skip:]))


@given(st.lists(st.none() | st.tuples(texts, texts, st.integers(0, 9)), max_size=20))
def test_wide_structs_become_chunks(rows: list[tuple[str | None, str | None, int] | None]) -> None:
    names = ["one", "other", "number"]
    values = [None if row is None else dict(zip(names, row, strict=True)) for row in rows]
    wide = pa.struct([("one", pa.large_string()), ("other", pa.string()), ("number", pa.int64())])
    found = narrowed(pa.array(values, wide))
    assert found.to_pylist() == values
    assert found.type.field("one").type == pa.string()


def test_what_fits_is_left_as_it_is() -> None:
    array = pa.array(["a", None, "b"])
    assert narrowed(array).chunk(0) is not None
    assert narrowed(array).type == pa.string()
    assert narrowed(pa.array([1, 2])).type == pa.int64()


@given(st.lists(texts, min_size=1, max_size=10), st.data())
def test_values_are_taken_any_number_of_times(
    values: list[str | None], data: st.DataObject
) -> None:
    places = data.draw(st.lists(st.integers(-1, len(values) - 1), max_size=40))
    found = taken(pa.array(values, pa.string()), np.array(places, np.int32))
    assert found.to_pylist() == [None if place < 0 else values[place] for place in places]
    wide = text_bytes(found) > MOST
    assert found.type == (pa.large_string() if wide else pa.string())


@given(columns, columns)
def test_arrays_are_joined_whatever_their_size(
    one: list[str | None], other: list[str | None]
) -> None:
    parts = [pa.array(one, pa.string()), pa.array(other, pa.string())]
    assert concatenated(parts).to_pylist() == one + other
    assert joined(pa.chunked_array(parts)).to_pylist() == one + other
    if text_bytes(concatenated(parts)) > MOST:
        assert concatenated(parts).type == pa.large_string()
        assert joined(pa.chunked_array(parts)).type == pa.large_string()
