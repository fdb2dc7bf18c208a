"""Columns of texts become columns as they are stored, with the values that the language gives."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.dataplane.decode.convert import (
    ConversionFailed,
    blobs,
    dates,
    datetimes,
    days,
    finite,
    moments,
    parse_f32s,
    vectors,
)
from omnigraph.lang.values import parse_date, parse_datetime
from tests.property.ndjson_reference import nearest_f32

DAYS = [
    *("2024-02-29", "2023-02-29", "0001-01-01", "9999-12-31", "0000-01-01", "1969-12-31"),
    *(
        "2024-13-01",
        "2024-1-01",
        "20240101",
        " 2024-01-01",
        "2024-W01-1",
        "٢024-01-01",
        "-001-01-01",
    ),
]
TIMES = [
    *("00:00:00", "23:59:59", "24:00:00", "12:60:00", "12:00:60", "12:00", "12", "1:00:00"),
    *("12:00:00.1", "12:00:00.123", "12:00:00.1234", "12:00:00.999999", "12:00:00.1234567"),
    *("12:00:00.123456789", "12:00:00.1234567890", "12:00:00.", "12:00:00,123", "12:00.5", "1200"),
]
ZONES = [
    *("", "Z", "z", "+00:00", "-00:00", "+01:30", "+0130", "+01", "-23:59", "+24:00", "+10:60"),
    *("+10:99", "+1:00", " Z", "+00:00:30", "UTC"),
]
BODIES = ["".join(parts) for parts in product(DAYS, ["T", " ", "t", ""], TIMES)]


@pytest.mark.parametrize("text", [*DAYS, "", "2024-01-01 ", "2024-01-01T00:00"])
def test_dates_are_what_the_language_says(text: str) -> None:
    number = parse_date(text)
    if number is None:
        with pytest.raises(ConversionFailed):
            dates(pa.array([None, "2024-01-01", text]))
    else:
        assert dates(pa.array([None, text])).cast(pa.int32()).to_pylist() == [None, number]


@pytest.mark.parametrize("zone", ZONES)
def test_moments_are_what_the_language_says(zone: str) -> None:
    for body in BODIES:
        text = body + zone
        try:
            found = datetimes(pa.array([None, text])).cast(pa.int64()).to_pylist()
        except ConversionFailed:
            found = [None, None]
        assert found == [None, parse_datetime(text)], text


GOOD = [text for text in map("".join, product(BODIES, ZONES)) if parse_datetime(text) is not None]


@given(st.lists(st.none() | st.sampled_from(GOOD)), st.integers(0, 3), st.booleans())
def test_moments_of_many_spellings(texts: list[str | None], skip: int, is_large: bool) -> None:
    column = pa.array(texts, pa.large_string() if is_large else pa.string()).slice(skip)
    expected = [None if text is None else parse_datetime(text) for text in texts[skip:]]
    assert datetimes(column).cast(pa.int64()).to_pylist() == expected


@given(st.lists(st.none() | st.sampled_from(GOOD)), st.sampled_from(["x", "2024-01-01T12", ""]))
def test_one_text_that_is_no_moment_is_enough(texts: list[str | None], bad: str) -> None:
    with pytest.raises(ConversionFailed):
        datetimes(pa.array([*texts, bad], pa.string()))


def test_numbers_are_moments() -> None:
    assert days(pa.array([0, None, -1], pa.int32())).type == pa.date32()
    assert days(pa.array([0, None, -1], pa.int32())).cast(pa.int32()).to_pylist() == [0, None, -1]
    assert moments(pa.array([5, None], pa.int64())).type == pa.timestamp("ms", tz="UTC")
    assert moments(pa.array([5, None], pa.int64())).cast(pa.int64()).to_pylist() == [5, None]


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_floats_are_finite(kind: pa.DataType, number: float) -> None:
    for good in ([], [None], [1.0, -0.0], [1.0, None]):
        column = pa.array(good, kind)
        assert finite(column) is column
        with pytest.raises(ConversionFailed):
            finite(pa.array([*good, number], kind))


def _lists(values: list[list[float | None] | None]) -> pa.ListArray:
    return pa.array(values, pa.list_(pa.float32()))


@pytest.mark.parametrize(
    "values",
    [[], [None], [[1, 2]], [[1, 2], None, [3, 4], None], [None, [1, 2], [3, 4]]],
)
def test_vectors(values: list[list[float | None] | None]) -> None:
    found = vectors(_lists(values), 2)
    assert found.type == pa.list_(pa.float32(), 2)
    assert found.to_pylist() == values
    found.validate(full=True)
    # A slice is a column like any other.
    assert vectors(_lists([[9, 9], *values]).slice(1), 2).to_pylist() == values


def test_vectors_are_not_copied() -> None:
    lists = _lists([[1, 2], [3, 4]])
    found = vectors(lists, 2)
    assert found.flatten().buffers()[1].address == lists.values.buffers()[1].address


@pytest.mark.parametrize("bad", [[], [1], [1, 2, 3], [1, None], [1, np.inf], [np.nan, 1]])
def test_vectors_have_a_length_and_finite_numbers(bad: list[float | None]) -> None:
    columns: list[list[list[float | None] | None]] = [[bad], [[1, 2], bad], [None, bad]]
    for values in columns:
        with pytest.raises(ConversionFailed):
            vectors(_lists(values), 2)


def test_blobs() -> None:
    assert blobs(pa.array(["base64:aGk=", None, "base64:"])).to_pylist() == [b"hi", None, b""]
    assert blobs(pa.array([None], pa.string())).type == pa.large_binary()
    for bad in ("", "aGk=", "base64:aGk", "base64:aG k=", "base64:é", "BASE64:aGk=", "file:x"):
        with pytest.raises(ConversionFailed):
            blobs(pa.array(["base64:aGk=", bad]))


@given(
    st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
    | st.integers(-(2**130), 2**130).map(str)
    | st.from_regex(r"-?(0|[1-9][0-9]{0,12})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
)
def test_an_f32_is_rounded_once(text: str) -> None:
    (found,) = parse_f32s([text])
    assert repr(found) == repr(nearest_f32(text))


def test_an_f32_is_not_rounded_by_way_of_an_f64() -> None:
    text = "1.00000017881393432617187499"
    assert parse_f32s([text]) != [float(np.float32(float(text)))]
