"""Binding of parameters: what fits, what does not, and that every problem is named."""

import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.ir.ops import ParamSpec
from omnigraph.lang.query.params import bind
from omnigraph.lang.values import INT_RANGES, Base, ValueType

DAY = 19_813  # 2024-03-31
MOMENT = DAY * 86_400_000 + 12 * 3_600_000


def one(kind: ValueType, value: object) -> object:
    return bind([ParamSpec("x", kind)], {"x": value})["x"]


FITS = [
    (ValueType(Base.STRING), "a", "a"),
    (ValueType(Base.STRING), "", ""),
    (ValueType(Base.BOOL), True, True),
    (ValueType(Base.I32), -5, -5),
    (ValueType(Base.I64), "9007199254740993", 9007199254740993),
    (ValueType(Base.I64), "-3", -3),
    (ValueType(Base.U64), 2**64 - 1, 2**64 - 1),
    (ValueType(Base.U64), str(2**64 - 1), 2**64 - 1),
    (ValueType(Base.F64), 2, 2.0),
    (ValueType(Base.F32), 1.5, 1.5),
    (ValueType(Base.F32), 0.1, 0.10000000149011612),
    (ValueType(Base.F64), 0.1, 0.1),
    (ValueType(Base.DATE), "2024-03-31", DAY),
    (ValueType(Base.DATE), date(2024, 3, 31), DAY),
    (ValueType(Base.DATETIME), "2024-03-31T12:00:00Z", MOMENT),
    (ValueType(Base.DATETIME), "2024-03-31T14:00:00+02:00", MOMENT),
    (ValueType(Base.DATETIME), datetime(2024, 3, 31, 12, tzinfo=UTC), MOMENT),
    (
        ValueType(Base.DATETIME),
        datetime(2024, 3, 31, 14, tzinfo=timezone(timedelta(hours=2))),
        MOMENT,
    ),
    (ValueType(Base.BLOB), "base64:AA==", "base64:AA=="),
    (ValueType(Base.STRING, is_list=True), ["a", "b"], ("a", "b")),
    (ValueType(Base.STRING, is_list=True), [], ()),
    (ValueType(Base.I32, is_list=True), (1, 2), (1, 2)),
    (ValueType(Base.VECTOR, dim=2), [1, 2.5], (1.0, 2.5)),
    (ValueType(Base.VECTOR, dim=1), [0.1], (0.10000000149011612,)),
    (ValueType(Base.STRING, nullable=True), None, None),
]

UNFIT = [
    (ValueType(Base.STRING), 3, "expected String, got int 3"),
    (ValueType(Base.STRING), "\ud800", "not valid Unicode"),
    (ValueType(Base.STRING), None, "null was given, String is required"),
    (ValueType(Base.BOOL), 1, "expected Bool"),
    (ValueType(Base.I32), True, "expected I32, got bool True"),
    (ValueType(Base.I32), 2**31, "out of the range of I32"),
    (ValueType(Base.I32), "3", "expected I32, got str '3'"),
    (ValueType(Base.I64), "3.0", "expected I64"),
    (ValueType(Base.I64), "٣", "expected I64"),
    (ValueType(Base.I64), "9" * 5000, "expected I64, got str"),
    (ValueType(Base.I64), 3.0, "expected I64"),
    (ValueType(Base.U32), -1, "out of the range of U32"),
    (ValueType(Base.F64), math.nan, "not finite"),
    (ValueType(Base.F64), math.inf, "not finite"),
    (ValueType(Base.F64), 10**400, "out of the range of F64"),
    (ValueType(Base.F32), 1e39, "out of the range of F32"),
    (ValueType(Base.F64), "1.5", "expected F64"),
    (ValueType(Base.DATE), "2024-02-30", "expected Date"),
    (ValueType(Base.DATE), "2024-03-31T00:00:00Z", "expected Date"),
    (ValueType(Base.DATE), datetime(2024, 3, 31, tzinfo=UTC), "expected Date"),
    (ValueType(Base.DATETIME), "yesterday", "expected DateTime"),
    (ValueType(Base.DATETIME), 5, "expected DateTime"),
    (ValueType(Base.STRING, is_list=True), "ab", "expected [String]"),
    (ValueType(Base.I32, is_list=True), [1, None], "null was given"),
    (ValueType(Base.VECTOR, dim=2), [1.0], "expected Vector(2), got 1 numbers"),
    (ValueType(Base.VECTOR, dim=2), [1.0, "x"], "expected F32"),
]


@pytest.mark.parametrize(("kind", "value", "bound"), FITS, ids=lambda item: str(item)[:30])
def test_values_that_fit(kind: ValueType, value: object, bound: object) -> None:
    assert one(kind, value) == bound


@pytest.mark.parametrize(("kind", "value", "problem"), UNFIT, ids=lambda item: repr(item)[:30])
def test_values_that_do_not(kind: ValueType, value: object, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        one(kind, value)
    assert caught.value.code is Code.PARAMS_INVALID
    assert problem in str(caught.value)
    assert "$x" in str(caught.value)


def test_every_problem_is_named_at_once() -> None:
    specs = [
        ParamSpec("name", ValueType(Base.STRING)),
        ParamSpec("age", ValueType(Base.I32)),
        ParamSpec("city", ValueType(Base.STRING, nullable=True)),
    ]
    with pytest.raises(InvalidInput) as caught:
        bind(specs, {"age": "x", "citty": "Rome"})
    problems = caught.value.details["problems"]
    assert problems == [
        {"param": "name", "message": "parameter `$name`: no value was given, String is required"},
        {"param": "age", "message": "parameter `$age`: expected I32, got str 'x'"},
        {
            "param": "citty",
            "message": "the query declares no parameter `$citty`; did you mean `city`?",
        },
    ]


def test_a_missing_nullable_is_null() -> None:
    assert bind([ParamSpec("x", ValueType(Base.I32, nullable=True))], {}) == {"x": None}


def test_things_that_become_lists_are_lists() -> None:
    class Array:
        def tolist(self) -> list[float]:
            return [1.0, 2.0]

    assert one(ValueType(Base.VECTOR, dim=2), Array()) == (1.0, 2.0)


@given(st.sampled_from(sorted(INT_RANGES)), st.integers(-(2**70), 2**70))
def test_integers_fit_exactly_their_range(base: Base, value: int) -> None:
    low, high = INT_RANGES[base]
    if low <= value <= high:
        assert one(ValueType(base), value) == value
    else:
        with pytest.raises(InvalidInput):
            one(ValueType(base), value)


def attempt(kind: ValueType, value: object) -> object:
    try:
        return one(kind, value)
    except InvalidInput as error:
        return error.code


@given(st.from_type(object) | st.text() | st.lists(st.floats()))
def test_no_value_breaks_the_binding(value: object) -> None:
    stored = (str, int, float, tuple)
    for base in Base:
        if base not in (Base.ENTITY, Base.VECTOR):
            assert isinstance(attempt(ValueType(base), value), stored)
