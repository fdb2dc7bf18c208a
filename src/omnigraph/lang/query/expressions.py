"""Operands and conditions of reading queries: syntax tree to typed expression.

Every method answers None after it has reported a mistake, so that checking goes on and one run
finds all of them.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import assert_never

from omnigraph.lang.fit import natural
from omnigraph.lang.ir import expr as ir
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.query import ast
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.conditions import AGGREGATES
from omnigraph.lang.query.context import CheckContext
from omnigraph.lang.query.predicates import Predicates
from omnigraph.lang.query.scope import QueryScope, Variable, column_of
from omnigraph.lang.query.search import SearchCalls
from omnigraph.lang.query.typing import comparable, fit_comparison, temporal_hint
from omnigraph.lang.values import NUMERIC, Base, ValueType


class OperandPlace(Enum):
    """The position of an operand, which decides what may be written there."""

    MATCH = auto()
    RETURN = auto()


class Expressions:
    """Checks the expressions of one query."""

    __slots__ = ("context", "search")

    def __init__(self, context: CheckContext) -> None:
        """Check in this context."""
        self.context = context
        self.search = SearchCalls(context)

    # -- operands --------------------------------------------------------------------------

    def operand(self, item: ast.Operand, scope: QueryScope, place: OperandPlace) -> ir.Expr | None:
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

    def _variable(self, item: ast.Var, scope: QueryScope, place: OperandPlace) -> ir.Expr | None:
        variable = scope.find(item.name)
        if variable is None:
            param = self.context.param(item.name)
            if param is None:
                self.context.unbound(item, scope)
            elif param.type.base is Base.BLOB:
                return None  # reported where it is declared
            return param
        if place is OperandPlace.RETURN:
            return self.context.entity(variable)
        hint = f"compare one of its properties, or `${item.name}.id`"
        message = f"`${item.name}` is a whole {variable.entity.name}, not a value"
        self.context.error(QueryCode.INCOMPATIBLE, message, item.span, hint)
        return None

    # -- calls -----------------------------------------------------------------------------

    def _call(self, item: ast.Call, scope: QueryScope, place: OperandPlace) -> ir.Expr | None:
        name = item.function.text
        if item.distinct and name != "count":
            message = f"`distinct` goes with count, not with {name}"
            self.context.error(QueryCode.AGGREGATE_OPERAND, message, item.span)
            return None
        if name == "now":
            return ir.Now()
        if name in AGGREGATES:
            return self._aggregate(item, scope, place)
        return self.search.value(item, scope, returned=place is OperandPlace.RETURN)

    def _aggregate(self, item: ast.Call, scope: QueryScope, place: OperandPlace) -> ir.Expr | None:
        function = ir.AggregateFunction(item.function.text)
        if place is not OperandPlace.RETURN:
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
            arg = self.operand(item.args[0], scope, OperandPlace.RETURN)
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

    def _counted(self, item: ast.Operand, scope: QueryScope) -> ir.Prop | None:
        """The id of a whole entity: counting entities reads none of their properties."""
        variable = scope.find(item.name) if isinstance(item, ast.Var) else None
        if variable is None:
            return None
        return ir.Prop(variable.key, "id", ValueType(Base.STRING, variable.optional))

    # -- conditions ------------------------------------------------------------------------

    def condition(self, item: ast.Condition, scope: QueryScope) -> ir.Predicate | None:
        """A boolean condition over the variables of a scope."""
        return Predicates(self.context, _InScope(self, scope)).condition(item)

    # -- property matches ------------------------------------------------------------------

    def match(
        self, item: ast.Assignment, variable: Variable, scope: QueryScope
    ) -> ir.Predicate | None:
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
        kind = column.type.optional() if variable.optional else column.type
        prop = ir.Prop(variable.key, column.name, kind)
        value = self._match_value(item, column.type, scope)
        if value is None:
            return None
        if column.type.is_list:
            return ir.Contains(prop, value)
        return ir.Compare(ir.CompareOp.EQ, prop, value)

    def _match_value(
        self, item: ast.Assignment, kind: ValueType, scope: QueryScope
    ) -> ir.Expr | None:
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
            self.context.misfit(name, value, wanted, fitted)
            return None
        checked = self.operand(value, scope, OperandPlace.MATCH)
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


class _InScope:
    """The sides of a condition in a match: everything in its scope."""

    __slots__ = ("exprs", "list_hint", "misfit_code", "scope")

    def __init__(self, exprs: Expressions, scope: QueryScope) -> None:
        self.exprs = exprs
        self.scope = scope
        self.misfit_code = QueryCode.INCOMPATIBLE
        self.list_hint = "test membership with `contains`"

    def refuses(self, _item: ast.Condition) -> bool:
        return False

    def left(self, item: ast.Operand) -> ir.Expr | None:
        return self.exprs.operand(item, self.scope, OperandPlace.MATCH)

    def right(self, item: ast.Operand) -> ir.Expr | None:
        return self.exprs.operand(item, self.scope, OperandPlace.MATCH)

    def search(self, call: ast.Call) -> ir.Predicate | None:
        return self.exprs.search.predicate(call, self.scope)


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
