"""Conditions, wherever they stand: syntax tree to typed predicate.

There is one checker for the clauses of a match and for the `where` of a statement, so that both
compare the same things in the same way. What may stand at the sides of a condition depends on
the place; that is asked of `Operands`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, assert_never

from omnigraph.lang.fit import natural
from omnigraph.lang.ir import expr as ir
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.query import ast
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.context import CheckContext
from omnigraph.lang.query.typing import comparable, fit_comparison, temporal_hint
from omnigraph.lang.source import Span
from omnigraph.lang.values import Base, ValueType


class Operands(Protocol):
    """The meaning of both sides of a condition at one place. None follows a report."""

    @property
    def misfit_code(self) -> QueryCode:
        """The code of a literal that cannot be compared with its other side."""

    @property
    def list_hint(self) -> str | None:
        """A hint on what to write instead of comparing a list."""

    def refuses(self, item: ast.Compare | ast.IsNull | ast.In | ast.Predicate) -> bool:
        """Report a condition that cannot stand here, whatever its types."""

    def left(self, item: ast.Operand) -> ir.Expr | None:
        """The side that is tested."""

    def right(self, item: ast.Operand) -> ir.Expr | None:
        """The side that it is tested against."""

    def search(self, call: ast.Call) -> ir.Predicate | None:
        """A text function as a condition."""


class Predicates:
    """Checks the conditions of one place. Answers None after it has reported a mistake."""

    __slots__ = ("context", "operands")

    def __init__(self, context: CheckContext, operands: Operands) -> None:
        """Check in this context, with operands of this place."""
        self.context = context
        self.operands = operands

    def condition(self, item: ast.Condition) -> ir.Predicate | None:
        """A boolean condition."""
        match item:
            case ast.Not(inner):
                checked = self.condition(inner)
                return None if checked is None else ir.Not(checked)
            case ast.And(items) | ast.Or(items):
                parts = [self.condition(part) for part in items]
                kept = tuple(part for part in parts if part is not None)
                if len(kept) != len(parts):
                    return None
                return ir.And(kept) if isinstance(item, ast.And) else ir.Or(kept)
            case _:
                return None if self.operands.refuses(item) else self._simple(item)

    def _simple(
        self, item: ast.Compare | ast.IsNull | ast.In | ast.Predicate
    ) -> ir.Predicate | None:
        match item:
            case ast.Compare():
                return self._compare(item)
            case ast.IsNull(operand, negated):
                value = self.operands.left(operand)
                if value is None:
                    return None
                return ir.Not(ir.IsNull(value)) if negated else ir.IsNull(value)
            case ast.In():
                return self._membership(item)
            case ast.Predicate(call):
                return self.operands.search(call)
            case _:
                assert_never(item)

    # -- comparisons -----------------------------------------------------------------------

    def _compare(self, item: ast.Compare) -> ir.Predicate | None:
        for side in (item.left, item.right):
            if _is_null(side):
                hint = "test for missing values with `is null` or `is not null`"
                message = "nothing compares with null, not even null"
                self.context.error(QueryCode.INCOMPATIBLE, message, side.span, hint)
                return None
        left = self._resolved(item.left, self.operands.left)
        right = self._resolved(item.right, self.operands.right)
        if left is None or right is None:
            return None
        if item.op is ast.CompareOp.CONTAINS:
            return self._contains(item, left, right)
        if item.op is ast.CompareOp.STARTS_WITH:
            return self._starts_with(item, left, right)
        pair = self._aligned(left, right)
        if pair is None:
            return None
        first, second = pair
        if not comparable(first.type, second.type):
            instead = temporal_hint(first.type, second.type)
            if first.type.is_list or second.type.is_list:
                instead = self.operands.list_hint
            self._incompatible(item.right, item.span, str(item.op), pair, instead)
            return None
        self._check_enum(item.left, second.type)
        self._check_enum(item.right, first.type)
        return ir.Compare(ir.CompareOp(item.op.value), first, second)

    def _contains(
        self, item: ast.Compare, left: ir.Expr | Literal, right: ir.Expr | Literal
    ) -> ir.Predicate | None:
        container = self._constant(left) if isinstance(left, Literal) else left
        if container is None:
            return None
        kind = container.type
        wanted = kind.element() if kind.is_list else None
        member = self._constant(right, wanted) if isinstance(right, Literal) else right
        if member is None:
            return None
        pair = (container, member)
        if _is_text(kind):
            if _is_text(member.type):
                return ir.Substring(container, member)
            instead: str | None = "a String contains a String"
        elif wanted is None:
            instead = "the left side is a list (membership) or a String (substring)"
        elif comparable(wanted, member.type):
            self._check_enum(item.right, wanted)
            return ir.Contains(container, member)
        else:
            instead = temporal_hint(wanted, member.type)
        self._incompatible(item.right, item.span, "contains", pair, instead)
        return None

    def _starts_with(
        self, item: ast.Compare, left: ir.Expr | Literal, right: ir.Expr | Literal
    ) -> ir.Predicate | None:
        text = self._constant(left) if isinstance(left, Literal) else left
        prefix = self._constant(right) if isinstance(right, Literal) else right
        if text is None or prefix is None:
            return None
        if _is_text(text.type) and _is_text(prefix.type):
            return ir.StartsWith(text, prefix)
        instead = "it compares two Strings"
        self._incompatible(item.right, item.span, "starts_with", (text, prefix), instead)
        return None

    # -- membership ------------------------------------------------------------------------

    def _membership(self, item: ast.In) -> ir.Predicate | None:
        if _is_null(item.operand):
            hint = "test for missing values with `is null` or `is not null`"
            message = "null equals nothing, so it is in no list"
            self.context.error(QueryCode.INCOMPATIBLE, message, item.operand.span, hint)
            return None
        operand = self._resolved(item.operand, self.operands.left)
        if operand is None:
            return None
        if item.container is not None:
            found = self._within(item, operand, item.container)
        else:
            found = self._one_of(item, operand)
        if found is None:
            return None
        return ir.Not(found) if item.negated else found

    def _within(
        self, item: ast.In, operand: ir.Expr | Literal, container: ast.Operand
    ) -> ir.Predicate | None:
        """`x in list`, where the list is a parameter or a property."""
        given = self._resolved(container, self.operands.right)
        whole = self._constant(given) if isinstance(given, Literal) else given
        if whole is None:
            return None
        element = whole.type.element() if whole.type.is_list else None
        member = self._constant(operand, element) if isinstance(operand, Literal) else operand
        if member is None:
            return None
        if element is None:
            hint = "after `in` stands a list, such as `[..]` or a list parameter"
            self._incompatible(None, item.span, "in", (member, whole), hint)
            return None
        if not comparable(member.type, element):
            instead = temporal_hint(member.type, element)
            self._incompatible(None, item.span, "in", (member, whole), instead)
            return None
        self._check_enum(item.operand, element)
        return ir.Contains(whole, member)

    def _one_of(self, item: ast.In, operand: ir.Expr | Literal) -> ir.Predicate | None:
        """`x in [a, b]`."""
        member = self._constant(operand) if isinstance(operand, Literal) else operand
        if member is None:
            return None
        if not member.type.is_scalar:
            message = f"`in` cannot look for {member.type}"
            self.context.error(QueryCode.INCOMPATIBLE, message, item.operand.span)
            return None
        items = [self._item(part, member) for part in item.items]
        kept = tuple(part for part in items if part is not None)
        return ir.OneOf(member, kept) if len(kept) == len(items) else None

    def _item(self, item: ast.Operand, member: ir.Expr) -> ir.Expr | None:
        if _is_null(item):
            hint = "add `or ... is null` for missing values"
            self.context.error(QueryCode.INCOMPATIBLE, "null equals nothing", item.span, hint)
            return None
        given = self._resolved(item, self.operands.right)
        value = self._constant(given, member.type) if isinstance(given, Literal) else given
        if value is None:
            return None
        if not comparable(member.type, value.type):
            instead = temporal_hint(member.type, value.type)
            self._incompatible(item, item.span, "in", (member, value), instead)
            return None
        self._check_enum(item, member.type)
        return value

    # -- sides -----------------------------------------------------------------------------

    def _resolved(
        self, item: ast.Operand, resolve: Callable[[ast.Operand], ir.Expr | None]
    ) -> ir.Expr | Literal | None:
        """An operand; a literal waits for the type that its other side has."""
        if not isinstance(item, Literal):
            return resolve(item)
        if item.kind is LiteralKind.LIST:
            hint = "lists stand after `in`, or are given to a property that is a list"
            message = "a list literal is not a value here"
            self.context.error(QueryCode.INCOMPATIBLE, message, item.span, hint)
            return None
        return item

    def _aligned(
        self, left: ir.Expr | Literal, right: ir.Expr | Literal
    ) -> tuple[ir.Expr, ir.Expr] | None:
        """Both sides; a literal takes the type of the other one, where that holds it exactly."""
        if not isinstance(left, Literal):
            second = self._constant(right, left.type) if isinstance(right, Literal) else right
            return None if second is None else (left, second)
        second = self._constant(right) if isinstance(right, Literal) else right
        first = None if second is None else self._constant(left, second.type)
        return None if first is None or second is None else (first, second)

    def _constant(self, item: Literal, other: ValueType | None = None) -> ir.Const | None:
        """A literal, beside a value of another type."""
        if other is not None and other.is_scalar:
            fitted = fit_comparison(item, other)
            if isinstance(fitted, ir.Const):
                return fitted
        const = natural(item)
        if const is None:
            message = "this integer is out of range"
            self.context.error(QueryCode.LITERAL_MISMATCH, message, item.span)
        return const

    def _check_enum(self, item: ast.Operand, other: ValueType) -> None:
        if isinstance(item, Literal) and other.enum and item.value not in other.enum:
            self.context.not_in_enum(item, other.enum)

    def _incompatible(
        self,
        given: ast.Operand | None,
        span: Span,
        op: str,
        sides: tuple[ir.Expr, ir.Expr],
        hint: str | None,
    ) -> None:
        left, right = sides
        code = QueryCode.INCOMPATIBLE
        if isinstance(given, Literal) and left.type.is_scalar:
            code = self.operands.misfit_code
        message = f"`{op}` cannot compare {left.type} with {right.type}"
        self.context.error(code, message, span, hint)


def _is_null(item: ast.Operand) -> bool:
    return isinstance(item, Literal) and item.kind is LiteralKind.NULL


def _is_text(kind: ValueType) -> bool:
    return kind.base is Base.STRING and not kind.is_list
