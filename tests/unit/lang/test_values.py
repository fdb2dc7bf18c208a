"""Value types, and the spelling of dates."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.lang.cursor import TokenCursor
from omnigraph.lang.literal import Literal, format_literal, parse_literal
from omnigraph.lang.source import Diagnostics, Source
from omnigraph.lang.values import (
    INTEGERS,
    NUMERIC,
    ORDERED,
    SCALARS,
    TEMPORAL,
    Base,
    ValueType,
    format_date,
    format_datetime,
    parse_date,
    parse_datetime,
)
from omnigraph.testing.strategies_query import DAY_MAX, DAY_MIN, MILLI_MAX, MILLI_MIN, literals

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(DAY_MIN, DAY_MAX))
def test_dates_round_trip(days: int) -> None:
    assert parse_date(format_date(days)) == days


@given(st.integers(MILLI_MIN, MILLI_MAX))
def test_date_times_round_trip(millis: int) -> None:
    assert parse_datetime(format_datetime(millis)) == millis


@given(st.dates())
def test_dates_are_iso_dates(day: date) -> None:
    assert parse_date(day.isoformat()) == (day - date(1970, 1, 1)).days


@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31)),
    st.integers(-23 * 60, 23 * 60),
)
def test_date_times_are_iso_date_times_of_any_zone(moment: datetime, minutes: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse_datetime(aware.isoformat()) == (aware - EPOCH) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "text",
    [
        "", "2024", "2024-1-1", "2024-13-01", "2023-02-29", "0000-01-01", "10000-01-01", "20240101",
        "2024-01-01T00:00:00", " 2024-01-01", "2024-01-01 ", "2024-W01-1", "\u0662024-01-01",
        "2024-01-01\n",
    ],
)  # fmt: skip
def test_no_dates(text: str) -> None:
    assert parse_date(text) is None


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00z", 0),
        ("1970-01-01t00:00", 0),
        ("1970-01-01 00:00:01", 1_000),
        ("1970-01-01T00:00:00.5Z", 500),
        ("1970-01-01T00:00:00.123456789Z", 123),
        ("1970-01-01T00:00:00.0009Z", 0),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T01:00:00+0100", 0),
        ("1969-12-31T19:00:00-05:00", 0),
    ],
)
def test_date_times(text: str, millis: int) -> None:
    assert parse_datetime(text) == millis


@pytest.mark.parametrize(
    "text",
    [
        "", "1970-01-01", "1970-01-01T24:00:00", "1970-01-01T00:60:00", "1970-01-01T00:00:60",
        "1970-01-01T00:00:00+25:00", "1970-01-01T00", "1970-01-01T00:00:00.", "now",
        "1970-01-01T00:00:00 Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00",
        "1970-01-01T00:00:00Z\n", "1970-01-01T00:00:00.1234567890Z",
    ],
)  # fmt: skip
def test_no_date_times(text: str) -> None:
    assert parse_datetime(text) is None


@given(literals)
def test_literals_are_written_as_they_are_read(literal: Literal) -> None:
    text = format_literal(literal)
    source = Source("f", text)
    found = Diagnostics(source)
    cursor = TokenCursor(source, found, "Q000")
    assert parse_literal(cursor) == literal
    assert cursor.peek() == "eof"
    assert found.errors == 0


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ValueType(Base.STRING), "String"),
        (ValueType(Base.I32, nullable=True), "I32?"),
        (ValueType(Base.DATE, is_list=True), "[Date]"),
        (ValueType(Base.DATE, nullable=True, is_list=True), "[Date]?"),
        (ValueType(Base.VECTOR, dim=3), "Vector(3)"),
        (ValueType(Base.STRING, enum=("a", "b"), nullable=True), "enum(a, b)?"),
    ],
)
def test_types_are_written_as_in_a_schema(kind: ValueType, text: str) -> None:
    assert str(kind) == text


def test_the_families_of_types() -> None:
    assert INTEGERS < NUMERIC < ORDERED
    assert TEMPORAL < ORDERED
    assert {Base.VECTOR, Base.BLOB, Base.ENTITY}.isdisjoint(ORDERED)
    assert set(SCALARS.values()) == ORDERED | {Base.BLOB}


def test_derived_types() -> None:
    kind = ValueType(Base.STRING, nullable=True, is_list=True, enum=("a",))
    assert kind.element() == ValueType(Base.STRING, enum=("a",))
    assert kind.required().optional() == kind
    assert not kind.is_scalar
    assert kind.element().is_scalar
