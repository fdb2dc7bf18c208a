"""Predicates: exact numbers, three-valued logic, lists and texts."""

import operator
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.errors import Internal
from omnigraph.exec.compare import exactly
from omnigraph.exec.evaluate import EvalContext, holds, value
from omnigraph.lang.ir.expr import (
    And,
    Compare,
    CompareOp,
    Const,
    ConstValue,
    Contains,
    Expr,
    IsNull,
    Not,
    Now,
    OneOf,
    Or,
    Param,
    Predicate,
    Prop,
    StartsWith,
    Substring,
    TextMatch,
    TextMode,
)
from omnigraph.lang.values import Base, ValueType

ANY = ValueType(Base.I64, nullable=True)
LEFT, RIGHT = Prop("x", "left", ANY), Prop("x", "right", ANY)
OPERATORS = {
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
}
WHOLE = [0, 1, -1, 2**31 - 1, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
LARGE = [2**63, 2**64 - 1, 2**64 - 2048]
REAL = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.0,
    2.0**53,
    2.0**63,
    -(2.0**63),
    2.0**64,
    2.0**63 - 1024,
    1e300,
    0.1,
]


def fitting(kind: pa.DataType) -> list[Any]:
    """The interesting numbers that a column of this type can hold, and null."""
    if pa.types.is_floating(kind):
        width = [item for item in REAL if kind == pa.float64() or abs(item) < 1e38]
        return [None, *(pa.scalar(item, kind).as_py() for item in width)]
    found: list[Any] = [None]
    for item in WHOLE + LARGE:
        try:
            found.append(pa.scalar(item, kind).as_py())
        except (pa.ArrowInvalid, OverflowError):
            continue
    return found


KINDS = [pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64()]


def truths(
    predicate: Predicate,
    left: pa.Array,
    right: pa.Array | None = None,
    params: dict[str, ConstValue] | None = None,
) -> list[bool | None]:
    columns = {"left": left, "right": right}
    context = EvalContext(params or {}, now_ms=5)
    found = holds(predicate, lambda _var, name: columns[name], len(left), context)
    assert found.type == pa.bool_()
    return list(found.to_pylist())


def const(item: ConstValue) -> Const:
    return Const(item, ANY)


@pytest.mark.parametrize(("first", "second"), list(product(KINDS, KINDS)), ids=str)
def test_numbers_compare_by_their_value_whatever_their_types(
    first: pa.DataType, second: pa.DataType
) -> None:
    lefts, rights = fitting(first), fitting(second)
    pairs = list(product(lefts, rights))
    columns = [
        pa.array([pair[0] for pair in pairs], first),
        pa.array([pair[1] for pair in pairs], second),
    ]
    for op, plain in OPERATORS.items():
        wanted = [None if None in pair else plain(*pair) for pair in pairs]
        assert truths(Compare(op, LEFT, RIGHT), *columns) == wanted, op
        for given in rights:
            one = [None if None in (item, given) else plain(item, given) for item in lefts]
            column = pa.array(lefts, first)
            param: Expr = Param("p", ANY)
            assert truths(Compare(op, LEFT, param), column, params={"p": given}) == one
            turned = [None if None in (item, given) else plain(given, item) for item in lefts]
            assert truths(Compare(op, param, LEFT), column, params={"p": given}) == turned


@pytest.mark.parametrize(("first", "second"), list(product(KINDS, KINDS)), ids=str)
def test_membership_is_equality(first: pa.DataType, second: pa.DataType) -> None:
    column = pa.array(fitting(first), first)
    for given in fitting(second):
        equal = truths(Compare(CompareOp.EQ, LEFT, const(given)), column)
        assert truths(OneOf(LEFT, (const(given),)), column) == equal
        within = Contains(Param("p", ANY), LEFT)
        assert truths(within, column, params={"p": (given,)}) == equal


def test_what_is_unknown_stays_unknown() -> None:
    column = pa.array([1, None, 2])
    one = Compare(CompareOp.EQ, LEFT, const(1))
    never = Compare(CompareOp.EQ, LEFT, const(None))
    assert truths(Not(one), column) == [False, None, True]
    assert truths(never, column) == [None, None, None]
    assert truths(And((one, never)), column) == [None, None, False]
    assert truths(Or((one, never)), column) == [True, None, None]
    assert truths(Or((IsNull(LEFT), one)), column) == [True, True, False]
    assert truths(And(()), column) == [True] * 3
    assert truths(Or(()), column) == [False] * 3
    assert truths(IsNull(const(None)), column) == [True] * 3


def test_one_of_with_a_null_is_never_false() -> None:
    column = pa.array([1, None, 2])
    assert truths(OneOf(LEFT, (const(1), const(None))), column) == [True, None, None]
    assert truths(OneOf(LEFT, ()), column) == [False, False, False]
    assert truths(OneOf(const(1), (LEFT,)), column) == [True, None, False]
    assert truths(OneOf(LEFT, (RIGHT, const(2))), column, pa.array([1, 1, 1])) == [True, None, True]


def test_lists_contain_what_equals_an_element() -> None:
    lists = pa.array([[1, 2], [], None, [3]], pa.list_(pa.int32()))
    assert truths(Contains(LEFT, const(2)), lists) == [True, False, None, False]
    assert truths(Contains(LEFT, const(2.5)), lists) == [False, False, None, False]
    assert truths(Contains(LEFT, const(None)), lists) == [None, False, None, None]
    members = pa.array([1, None, 1, 3], pa.int64())
    assert truths(Contains(LEFT, RIGHT), lists, members) == [True, False, None, True]
    assert truths(Contains(LEFT, RIGHT), lists.slice(3), members.slice(3)) == [True]


def test_texts_compare_by_their_bytes_and_patterns_are_plain() -> None:
    column = pa.array(["a%b", None, "ab", "é"])
    assert truths(Substring(LEFT, const("%")), column) == [True, None, False, False]
    assert truths(StartsWith(LEFT, const("a")), column) == [True, None, True, False]
    assert truths(StartsWith(const("ab"), LEFT), column) == [False, None, True, False]
    assert truths(Substring(LEFT, const(None)), column) == [None] * 4
    assert truths(Compare(CompareOp.GT, LEFT, const("z")), column) == [False, None, False, True]
    wide = column.cast(pa.large_string())
    assert truths(Compare(CompareOp.EQ, LEFT, RIGHT), column, wide) == [True, None, True, True]


def test_bools_dates_and_moments_are_ordered() -> None:
    assert truths(Compare(CompareOp.LT, LEFT, const(True)), pa.array([True, False, None])) == [
        False,
        True,
        None,
    ]
    days = pa.array([5, 6, None], pa.date32())
    assert truths(Compare(CompareOp.GT, LEFT, const(5)), days) == [False, True, None]
    assert truths(OneOf(LEFT, (const(6),)), days) == [False, True, None]
    moments = pa.array([4, 5, None], pa.timestamp("ms", tz="UTC"))
    assert truths(Compare(CompareOp.GE, LEFT, Now()), moments) == [False, True, None]


def test_chunks_are_one_column() -> None:
    column = pa.chunked_array([[1], [2, None]])
    assert truths(Compare(CompareOp.EQ, LEFT, const(2)), column) == [False, True, None]


def test_plain_expressions_have_values() -> None:
    column = pa.array(["a"])
    context = EvalContext({"p": 3}, now_ms=7)
    assert value(LEFT, lambda _var, _name: column, context) is column
    assert value(Param("p", ANY), lambda *_: column, context) == pa.scalar(3, pa.int64())
    assert value(Now(), lambda *_: column, context).value == 7


def test_a_constant_of_another_type_is_exact_or_nothing() -> None:
    assert exactly(3.0, pa.int32()) == 3
    assert exactly(3.5, pa.int32()) is None
    assert exactly(2**40, pa.int32()) is None
    assert exactly(0.1, pa.float32()) is None
    assert exactly("a", pa.string()) == "a"


def test_text_is_searched_only_where_somebody_can() -> None:
    match = TextMatch(TextMode.SEARCH, "x", "left", const("a"))
    with pytest.raises(Internal):
        truths(match, pa.array(["a"]))
    context = EvalContext({}, 0, lambda _match: pa.array([True, None]))
    assert holds(match, lambda *_: None, 2, context).to_pylist() == [True, None]
