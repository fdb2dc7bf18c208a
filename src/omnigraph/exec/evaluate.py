"""Predicates over Arrow columns, in three-valued logic.

A null in an answer means that the predicate is neither true nor false there. Numbers compare by
their mathematical value whatever their types: no side is ever rounded to suit the other one.
Texts compare by their bytes. A list without elements contains nothing, not even what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.errors import Code, Internal
from omnigraph.exec.compare import (
    compare_columns,
    compare_constant,
    compare_given,
    exactly,
)
from omnigraph.exec.large_text import joined
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
)

ColumnSource: TypeAlias = Callable[[str, str], "pa.Array | pa.ChunkedArray"]


@dataclass(frozen=True, slots=True)
class EvalContext:
    """The inputs of a statement: its parameters, its moment, and the search of text."""

    params: Mapping[str, ConstValue]
    now_ms: int
    text: Callable[[TextMatch], pa.Array] | None = None


@dataclass(frozen=True, slots=True)
class _Given:
    """An operand that is the same in all rows, in stored form."""

    value: ConstValue


_Side: TypeAlias = "_Given | pa.Array"


def holds(predicate: Predicate, column: ColumnSource, rows: int, context: EvalContext) -> pa.Array:
    """For each row whether the predicate is true, false or (null) unknown.

    Args:
        predicate: What is tested.
        column: Gives the column of a variable, with an entry per row.
        rows: How many rows there are.
        context: Parameters and the moment of the statement.
    """
    return _Evaluation(column, rows, context).predicate(predicate)


def value(expr: Expr, column: ColumnSource, context: EvalContext) -> pa.Array | pa.Scalar:
    """The values of a plain expression: a column, or one scalar for all rows."""
    if isinstance(expr, Prop):
        return _whole(column(expr.var, expr.column))
    return pa.scalar(constant(expr, context), arrow_type(expr.type))


def constant(expr: Expr, context: EvalContext) -> ConstValue:
    """The value of an expression that is the same in all rows, in stored form."""
    match expr:
        case Const(given):
            return given
        case Param(name):
            return context.params[name]
        case Now():
            return context.now_ms
        case _:
            raise Internal(Code.INTERNAL, f"{type(expr).__name__} is no constant")


class _Evaluation:
    """One evaluation over given columns."""

    __slots__ = ("column", "context", "rows")

    def __init__(self, column: ColumnSource, rows: int, context: EvalContext) -> None:
        self.column = column
        self.rows = rows
        self.context = context

    def predicate(self, item: Predicate) -> pa.Array:
        match item:
            case Compare(op, left, right):
                return self._compare(op, self._side(left), self._side(right))
            case And(items):
                return self._fold("and_kleene", items, empty=True)
            case Or(items):
                return self._fold("or_kleene", items, empty=False)
            case Not(inner):
                return pc.invert(self.predicate(inner))
            case IsNull(operand):
                return self._is_null(self._side(operand))
            case OneOf(operand, items):
                return self._one_of(self._side(operand), items)
            case Contains(container, member):
                return self._contains(self._side(container), self._side(member))
            case Substring(haystack, needle):
                sides = self._side(haystack), self._side(needle)
                return self._texts(*sides, pc.match_substring, str.__contains__)
            case StartsWith(text, prefix):
                return self._texts(
                    self._side(text), self._side(prefix), pc.starts_with, str.startswith
                )
            case TextMatch():
                return self._text_match(item)
            case _:
                assert_never(item)

    # -- sides -----------------------------------------------------------------------------

    def _side(self, expr: Expr) -> _Side:
        if isinstance(expr, Prop):
            return _whole(self.column(expr.var, expr.column))
        return _Given(constant(expr, self.context))

    def _filled(self, truth: bool | None) -> pa.Array:
        if truth is None:
            return pa.nulls(self.rows, pa.bool_())
        return pa.repeat(pa.scalar(truth), self.rows)

    # -- logic -----------------------------------------------------------------------------

    def _fold(self, kernel: str, items: Iterable[Predicate], *, empty: bool) -> pa.Array:
        found: pa.Array | None = None
        for item in items:
            part = self.predicate(item)
            found = part if found is None else pc.call_function(kernel, [found, part])
        return self._filled(empty) if found is None else found

    def _is_null(self, side: _Side) -> pa.Array:
        if isinstance(side, _Given):
            return self._filled(side.value is None)
        return side.is_null()

    def _text_match(self, item: TextMatch) -> pa.Array:
        if self.context.text is None:
            raise Internal(Code.INTERNAL, "text cannot be searched here")
        return _whole(self.context.text(item))

    # -- comparisons -----------------------------------------------------------------------

    def _compare(self, op: CompareOp, left: _Side, right: _Side) -> pa.Array:
        if isinstance(left, _Given):
            if isinstance(right, _Given):
                return self._filled(compare_given(op, left.value, right.value))
            return self._compare_with(op.swapped, right, left.value)
        if isinstance(right, _Given):
            return self._compare_with(op, left, right.value)
        return compare_columns(op, left, right)

    def _compare_with(self, op: CompareOp, side: pa.Array, given: ConstValue) -> pa.Array:
        if given is None:
            return self._filled(None)
        return compare_constant(op, side, given)

    # -- membership ------------------------------------------------------------------------

    def _one_of(self, operand: _Side, items: tuple[Expr, ...]) -> pa.Array:
        sides = [self._side(item) for item in items]
        given = tuple(side.value for side in sides if isinstance(side, _Given))
        found = self._among(operand, given)
        for side in sides:
            if not isinstance(side, _Given):
                equal = self._compare(CompareOp.EQ, operand, side)
                found = pc.or_kleene(found, equal)
        return found

    def _among(self, member: _Side, given: tuple[ConstValue, ...]) -> pa.Array:
        """True where the member equals one of some constants."""
        if not given:
            return self._filled(False)
        if isinstance(member, _Given):
            truths = [compare_given(CompareOp.EQ, member.value, item) for item in given]
            return self._filled(True if True in truths else None if None in truths else False)
        fitting: list[ConstValue] = []
        for item in given:
            if item is not None:
                found = exactly(item, member.type)
                if found is not None:
                    # Zero has two signs, which differ in a hash and are equal in a comparison.
                    zero = isinstance(found, float) and found == 0
                    fitting.extend((0.0, -0.0) if zero else (found,))
        found = pc.is_in(member, value_set=pa.array(fitting, member.type))
        known = member.is_valid()
        if None in given:
            known = pc.and_(known, found)
        return pc.if_else(known, found, pa.scalar(None, pa.bool_()))

    def _contains(self, container: _Side, member: _Side) -> pa.Array:
        if isinstance(container, _Given):
            if container.value is None:
                return self._filled(None)
            assert isinstance(container.value, tuple)
            return self._among(member, container.value)
        counts = container.value_lengths()
        lengths = counts.fill_null(0).to_numpy(zero_copy_only=False)
        owners = np.repeat(np.arange(self.rows), lengths)
        elements = _Evaluation(self.column, len(owners), self.context)
        if not isinstance(member, _Given):
            member = member.take(pa.array(owners))
        equal = elements._compare(CompareOp.EQ, container.flatten(), member)
        truth = _per_owner(equal.fill_null(False), owners, self.rows)
        doubt = _per_owner(equal.is_null(), owners, self.rows) & ~truth
        null = container.is_null().to_numpy(zero_copy_only=False)
        return pa.array(truth, mask=doubt | null)

    # -- texts -----------------------------------------------------------------------------

    def _texts(
        self,
        text: _Side,
        part: _Side,
        kernel: Callable[..., pa.Array],
        plain: Callable[[str, str], bool],
    ) -> pa.Array:
        if isinstance(part, _Given):
            if part.value is None:
                return self._filled(None)
            if not isinstance(text, _Given):
                return kernel(text, pattern=part.value)
        # Rare: the pattern differs from row to row.
        pairs = zip(self._listed(text), self._listed(part), strict=True)
        truths = [None if a is None or b is None else plain(a, b) for a, b in pairs]
        return pa.array(truths, pa.bool_())

    def _listed(self, side: _Side) -> list[str | None]:
        if isinstance(side, _Given):
            assert side.value is None or isinstance(side.value, str)
            return [side.value] * self.rows
        texts: list[str | None] = side.to_pylist()
        return texts


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return joined(column)


def _per_owner(flags: pa.Array, owners: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.bool_]:
    found = np.zeros(rows, np.bool_)
    found[owners[flags.to_numpy(zero_copy_only=False)]] = True
    return found
