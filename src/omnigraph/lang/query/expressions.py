"""Operands and conditions of reading queries: syntax tree to typed expression.

Every method answers None after it has reported a mistake, so that checking goes on and one run
finds all of them.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import assert_never

from omnigraph.lang.ir import expr as ir
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.query import ast
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.conditions import AGGREGATES
from omnigraph.lang.query.context import Context
from omnigraph.lang.query.scope import Scope, Variable, column_of
from omnigraph.lang.query.search import SearchCalls
from omnigraph.lang.query.typing import (
    comparable,
    enum_problem,
    fit,
    fit_comparison,
    literal_hint,
    natural,
    temporal_hint,
)
from omnigraph.lang.source import Span
from omnigraph.lang.values import NUMERIC, Base, ValueType


class Place(Enum):
    """Where an operand stands; it decides what may be written."""

    MATCH = auto()
    RETURN = auto()


class Expressions:
    """Checks the expressions of one query."""

    __slots__ = ("context", "search")

    def __init__(self, context: Context) -> None:
        """Check in this context."""
        self.context = context
        self.search = SearchCalls(context)

    # -- operands --------------------------------------------------------------------------

    def operand(self, item: ast.Operand, scope: Scope, place: Place) -> ir.Expr | None:
        """A value of any kind."""
        match item:
            case Literal():
                return self._literal(item)
            case ast.Var():
                return self._variable(item, scope, place)
            case ast.PropertyOf():
                return self.context.property(item, scope)
            case ast.Call():
                return self._call(item, scope, place)
            case ast.Bare(name):
                self.context.error(QueryCode.UNBOUND, f"`{name}` is not known here", item.span)
                return None
            case _:
                assert_never(item)

    def _literal(self, item: Literal) -> ir.Expr | None:
        if item.kind is LiteralKind.NULL:
            return ir.Const(None, ValueType(Base.STRING, nullable=True))
        if item.kind is LiteralKind.LIST:
            hint = "lists stand after `in`, or are given to a property that is a list"
            self.context.error(
                QueryCode.INCOMPATIBLE, "a list literal is not a value here", item.span, hint
            )
            return None
        const = natural(item)
        if const is None:
            self.context.error(
                QueryCode.LITERAL_MISMATCH, "this integer is out of range", item.span
            )
        return const

    def _variable(self, item: ast.Var, scope: Scope, place: Place) -> ir.Expr | None:
        variable = scope.find(item.name)
        if variable is None:
            param = self.context.param(item.name)
            if param is None:
                self.context.unbound(item, scope)
            elif param.type.base is Base.BLOB:
                message = f"the Blob parameter `${item.name}` cannot be read in a query"
                self.context.error(QueryCode.BLOB_READ, message, item.span)
                return None
            return param
        if place is Place.RETURN:
            return self.context.entity(variable)
        hint = f"compare one of its properties, or `${item.name}.id`"
        message = f"`${item.name}` is a whole {variable.entity.name}, not a value"
        self.context.error(QueryCode.INCOMPATIBLE, message, item.span, hint)
        return None

    # -- calls -----------------------------------------------------------------------------

    def _call(self, item: ast.Call, scope: Scope, place: Place) -> ir.Expr | None:
        name = item.function.text
        if item.distinct and name != "count":
            message = f"`distinct` goes with count, not with {name}"
            self.context.error(QueryCode.AGGREGATE_OPERAND, message, item.span)
            return None
        if name == "now":
            return ir.Now()
        if name in AGGREGATES:
            return self._aggregate(item, scope, place)
        return self.search.value(item, scope, returned=place is Place.RETURN)

    def _aggregate(self, item: ast.Call, scope: Scope, place: Place) -> ir.Expr | None:
        function = ir.AggregateFunction(item.function.text)
        if place is not Place.RETURN:
            hint = f"return it: `return {{ {function}(...) as n }}`"
            message = "aggregates are computed over the rows of a match, not inside it"
            self.context.error(QueryCode.GROUPING, message, item.span, hint)
            return None
        if len(item.args) != 1:
            message = f"{function} takes one argument"
            self.context.error(QueryCode.AGGREGATE_OPERAND, message, item.span)
            return None
        arg: ir.Expr | None = self._counted(item.args[0], scope)
        if arg is None:
            arg = self.operand(item.args[0], scope, Place.RETURN)
        elif function is not ir.AggregateFunction.COUNT:
            message = f"{function} needs a property, not a whole entity"
            self.context.error(QueryCode.AGGREGATE_OPERAND, message, item.args[0].span)
            return None
        if arg is None:
            return None
        problem = _aggregate_problem(function, arg, distinct=item.distinct)
        if problem is not None:
            self.context.error(QueryCode.AGGREGATE_OPERAND, problem, item.args[0].span)
            return None
        return ir.Aggregate(function, arg, item.distinct, _aggregate_type(function, arg.type))

    def _counted(self, item: ast.Operand, scope: Scope) -> ir.Prop | None:
        """The id of a whole entity: counting entities reads none of their properties."""
        variable = scope.find(item.name) if isinstance(item, ast.Var) else None
        if variable is None:
            return None
        return ir.Prop(variable.key, "id", ValueType(Base.STRING, variable.optional))

    # -- conditions ------------------------------------------------------------------------

    def condition(self, item: ast.Condition, scope: Scope) -> ir.Predicate | None:
        """A boolean condition."""
        match item:
            case ast.Compare():
                return self._compare(item, scope)
            case ast.IsNull(operand, negated):
                value = self.operand(operand, scope, Place.MATCH)
                if value is None:
                    return None
                return ir.Not(ir.IsNull(value)) if negated else ir.IsNull(value)
            case ast.In():
                return self._membership(item, scope)
            case ast.Predicate(call):
                return self.search.predicate(call, scope)
            case ast.Not(inner):
                checked = self.condition(inner, scope)
                return None if checked is None else ir.Not(checked)
            case ast.And(items) | ast.Or(items):
                parts = [self.condition(part, scope) for part in items]
                kept = tuple(part for part in parts if part is not None)
                if len(kept) != len(parts):
                    return None
                return ir.And(kept) if isinstance(item, ast.And) else ir.Or(kept)
            case _:
                assert_never(item)

    def _compare(self, item: ast.Compare, scope: Scope) -> ir.Predicate | None:
        for side in (item.left, item.right):
            if isinstance(side, Literal) and side.kind is LiteralKind.NULL:
                hint = "test for missing values with `is null` or `is not null`"
                message = "nothing compares with null, not even null"
                self.context.error(QueryCode.INCOMPATIBLE, message, side.span, hint)
                return None
        left = self.operand(item.left, scope, Place.MATCH)
        right = self.operand(item.right, scope, Place.MATCH)
        if left is None or right is None:
            return None
        if item.op is ast.CompareOp.CONTAINS:
            return self._contains(item, left, right)
        if item.op is ast.CompareOp.STARTS_WITH:
            if self._is_text(left) and self._is_text(right):
                return ir.StartsWith(left, right)
            self._incompatible(item.span, "starts_with", left, right, "it compares two Strings")
            return None
        left = self.align(item.left, left, right.type)
        right = self.align(item.right, right, left.type)
        if not comparable(left.type, right.type):
            instead = temporal_hint(left.type, right.type)
            if left.type.is_list or right.type.is_list:
                instead = "test membership with `contains`"
            self._incompatible(item.span, str(item.op), left, right, instead)
            return None
        self._check_enum(item.left, right.type)
        self._check_enum(item.right, left.type)
        return ir.Compare(ir.CompareOp(item.op.value), left, right)

    def align(self, item: ast.Operand, value: ir.Expr, other: ValueType) -> ir.Expr:
        """A literal takes the type of what it is compared with, where it fits."""
        if isinstance(item, Literal) and other.is_scalar and not other.enum:
            fitted = fit(item, other.required())
            if isinstance(fitted, ir.Const):
                return fitted
        return value

    def _check_enum(self, item: ast.Operand, other: ValueType) -> None:
        if isinstance(item, Literal) and other.enum and item.value not in other.enum:
            problem = enum_problem(str(item.value), other.enum)
            self.context.error(QueryCode.LITERAL_MISMATCH, problem, item.span)

    def _contains(self, item: ast.Compare, left: ir.Expr, right: ir.Expr) -> ir.Predicate | None:
        if self._is_text(left):
            if self._is_text(right):
                return ir.Substring(left, right)
            self._incompatible(item.span, "contains", left, right, "a String contains a String")
            return None
        if not left.type.is_list or left.type.base is Base.VECTOR:
            hint = "the left side is a list (membership) or a String (substring)"
            self._incompatible(item.span, "contains", left, right, hint)
            return None
        right = self.align(item.right, right, left.type.element())
        if not comparable(left.type.element(), right.type):
            instead = temporal_hint(left.type.element(), right.type)
            self._incompatible(item.span, "contains", left, right, instead)
            return None
        return ir.Contains(left, right)

    def _membership(self, item: ast.In, scope: Scope) -> ir.Predicate | None:
        operand = self.operand(item.operand, scope, Place.MATCH)
        if operand is None:
            return None
        if item.container is not None:
            container = self.operand(item.container, scope, Place.MATCH)
            if container is None:
                return None
            if not container.type.is_list:
                hint = "after `in` stands a list: `[..]`, a list parameter or a list property"
                self._incompatible(item.span, "in", operand, container, hint)
                return None
            operand = self.align(item.operand, operand, container.type.element())
            if not comparable(operand.type, container.type.element()):
                self._incompatible(item.span, "in", operand, container, None)
                return None
            found: ir.Predicate = ir.Contains(container, operand)
        elif not operand.type.is_scalar:
            message = f"`in` cannot look for {operand.type}"
            self.context.error(QueryCode.INCOMPATIBLE, message, item.operand.span)
            return None
        else:
            items = [self._member(part, operand, scope) for part in item.items]
            kept = tuple(part for part in items if part is not None)
            if len(kept) != len(items):
                return None
            found = ir.OneOf(operand, kept)
        return ir.Not(found) if item.negated else found

    def _member(self, item: ast.Operand, operand: ir.Expr, scope: Scope) -> ir.Expr | None:
        if isinstance(item, Literal) and item.kind is LiteralKind.NULL:
            hint = "add `or ... is null` for missing values"
            self.context.error(QueryCode.INCOMPATIBLE, "null equals nothing", item.span, hint)
            return None
        value = self.operand(item, scope, Place.MATCH)
        if value is None:
            return None
        value = self.align(item, value, operand.type)
        if not comparable(operand.type, value.type):
            instead = temporal_hint(operand.type, value.type)
            self._incompatible(item.span, "in", operand, value, instead)
            return None
        self._check_enum(item, operand.type)
        return value

    def _is_text(self, value: ir.Expr) -> bool:
        return value.type.base is Base.STRING and not value.type.is_list

    def _incompatible(
        self, span: Span, op: str, left: ir.Expr, right: ir.Expr, hint: str | None
    ) -> None:
        message = f"`{op}` cannot compare {left.type} with {right.type}"
        self.context.error(QueryCode.INCOMPATIBLE, message, span, hint)

    # -- property matches ------------------------------------------------------------------

    def match(self, item: ast.Assignment, variable: Variable, scope: Scope) -> ir.Predicate | None:
        """`name: value` inside a binding: equality, or membership of a list property."""
        entity = variable.entity
        name = item.property.text
        column = column_of(entity, name)
        if column is None:
            message = f"node type `{entity.name}` has no property `{name}`"
            hint = self.context.near(name, (*entity.property_by_name, "id"))
            self.context.error(QueryCode.UNKNOWN_MATCH_PROPERTY, message, item.property.span, hint)
            return None
        if column.type.base in (Base.BLOB, Base.VECTOR):
            message = f"`{name}` is a {column.type.required()}, which has no equality"
            self.context.error(QueryCode.LITERAL_MISMATCH, message, item.span)
            return None
        variable.read(column)
        prop = ir.Prop(variable.key, column.name, column.type)
        value = self._match_value(item, column.type, scope)
        if value is None:
            return None
        if column.type.is_list:
            return ir.Contains(prop, value)
        return ir.Compare(ir.CompareOp.EQ, prop, value)

    def _match_value(self, item: ast.Assignment, kind: ValueType, scope: Scope) -> ir.Expr | None:
        name = item.property.text
        wanted = kind.element() if kind.is_list else kind.required()
        value = item.value
        if isinstance(value, Literal):
            if value.kind is LiteralKind.NULL:
                message = "nothing equals null"
                hint = f"use `is null` in a clause of its own: `$x.{name} is null`"
                self.context.error(QueryCode.LITERAL_MISMATCH, message, value.span, hint)
                return None
            fitted = fit_comparison(value, wanted)
            if isinstance(fitted, ir.Const):
                return fitted
            message = f"property `{name}`: {fitted}"
            instead = literal_hint(value, wanted)
            self.context.error(QueryCode.LITERAL_MISMATCH, message, value.span, instead)
            return None
        checked = self.operand(value, scope, Place.MATCH)
        if checked is None:
            return None
        if not comparable(checked.type, wanted):
            message = f"property `{name}` is {wanted}, which cannot equal {checked.type}"
            instead = temporal_hint(checked.type, wanted)
            if checked.type.is_list or kind.is_list:
                message = f"property `{name}` is matched with one {wanted}, not with {checked.type}"
                if checked.type.is_list:
                    instead = "write `in` or `contains` as a clause of its own"
            self.context.error(QueryCode.INCOMPATIBLE, message, value.span, instead)
            return None
        return checked


def _aggregate_problem(
    function: ir.AggregateFunction, arg: ir.Expr, *, distinct: bool
) -> str | None:
    if isinstance(arg, ir.Aggregate):
        return "an aggregate cannot work on another aggregate"
    if isinstance(arg, ir.Nearest | ir.Bm25 | ir.Rrf):
        return "an aggregate cannot work on a ranking"
    if isinstance(arg, ir.Const) and arg.value is None:
        return "an aggregate of null is nothing"
    if function is ir.AggregateFunction.COUNT:
        vectors = distinct and arg.type.base is Base.VECTOR
        return "vectors cannot be compared, so they cannot be distinct" if vectors else None
    if function in (ir.AggregateFunction.MIN, ir.AggregateFunction.MAX):
        return None if arg.type.is_scalar else f"{function} needs an ordered type, got {arg.type}"
    numeric = arg.type.is_scalar and arg.type.base in NUMERIC
    return None if numeric else f"{function} needs a number, got {arg.type}"


def _aggregate_type(function: ir.AggregateFunction, arg: ValueType) -> ValueType:
    if function is ir.AggregateFunction.COUNT:
        return ValueType(Base.I64)
    if function in (ir.AggregateFunction.SUM, ir.AggregateFunction.AVG):
        return ValueType(Base.F64, nullable=True)
    return arg.optional()
