"""`return`, `order`, `limit`, `offset`: what comes out of a reading query, in which order."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.lang.ir import expr as ir
from omnigraph.lang.ir.ops import OutputColumn, SortKey
from omnigraph.lang.literal import Literal
from omnigraph.lang.query import ast
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.conditions import RANKINGS
from omnigraph.lang.query.context import CheckContext
from omnigraph.lang.query.expressions import Expressions, OperandPlace
from omnigraph.lang.query.scope import QueryScope
from omnigraph.lang.source import Span
from omnigraph.lang.values import INT_RANGES, INTEGERS, Base, ValueType

_BOUND = ValueType(Base.I64)


@dataclass(frozen=True, slots=True)
class CheckedResults:
    """The checked tail of a reading query."""

    outputs: tuple[OutputColumn, ...]
    grouped: bool
    ranking: ir.Ranking | None
    order: tuple[SortKey, ...]
    ties: tuple[int, ...] | None  # the columns that break ties; None where variables do
    limit: ir.Const | ir.Param | None
    offset: ir.Const | ir.Param | None


class ResultClauses:
    """Checks the tail of one query."""

    __slots__ = ("body", "context", "exprs", "lost", "scope")

    def __init__(
        self, body: ast.Read, scope: QueryScope, context: CheckContext, exprs: Expressions
    ) -> None:
        """Check this body; `scope` holds everything its match binds."""
        self.body = body
        self.scope = scope
        self.context = context
        self.exprs = exprs
        self.lost: set[str] = set()  # columns that were rejected

    def check(self) -> CheckedResults:
        """Check all clauses; what is wrong is reported and left out."""
        outputs, spans = self._outputs()
        grouped = any(isinstance(item.expr, ir.Aggregate) for item in outputs)
        if grouped:
            self._check_groups(outputs, spans)
        if self.body.distinct:
            self._check_distinct(outputs, spans)
        limit = self._bound(self.body.limit, "limit")
        offset = self._bound(self.body.offset, "offset")
        ranking, order = self._order(outputs, grouped=grouped)
        self._check_rrf(outputs, spans, ranking)
        ties = None
        if grouped or self.body.distinct:
            ties = _ties(outputs, ranking, order)
        return CheckedResults(outputs, grouped, ranking, order, ties, limit, offset)

    # -- return ----------------------------------------------------------------------------

    def _outputs(self) -> tuple[tuple[OutputColumn, ...], list[Span]]:
        outputs: list[OutputColumn] = []
        spans: list[Span] = []
        taken: set[str] = set()
        for item in self.body.returns:
            value = self.exprs.operand(item.expr, self.scope, OperandPlace.RETURN)
            name = item.alias.text if item.alias is not None else column_name(item.expr)
            if value is None:
                self.lost.add(name)
                continue
            if name in taken:
                message = f"two columns are named `{name}`"
                hint = "give one another name: `... as other`"
                self.context.error(QueryCode.DUPLICATE_COLUMN, message, item.span, hint)
                continue
            taken.add(name)
            outputs.append(OutputColumn(name, value))
            spans.append(item.span)
        return tuple(outputs), spans

    def _check_groups(self, outputs: tuple[OutputColumn, ...], spans: list[Span]) -> None:
        for item, span in zip(outputs, spans, strict=True):
            if isinstance(item.expr, ir.Aggregate | ir.Entity):
                continue
            if isinstance(item.expr, ir.Prop) and item.type.base is not Base.VECTOR:
                continue
            message = "beside an aggregate, only properties and variables can be returned"
            self.context.error(QueryCode.GROUPING, message, span)

    def _check_distinct(self, outputs: tuple[OutputColumn, ...], spans: list[Span]) -> None:
        for item, span in zip(outputs, spans, strict=True):
            if item.type.base is Base.VECTOR:
                message = "vectors cannot be compared, so they cannot be distinct"
                self.context.error(QueryCode.DISTINCT_ORDER, message, span)

    def _check_rrf(
        self, outputs: tuple[OutputColumn, ...], spans: list[Span], ranking: ir.Ranking | None
    ) -> None:
        """The score of a fusion exists only for the fusion that orders the rows."""
        for item, span in zip(outputs, spans, strict=True):
            if isinstance(item.expr, ir.Rrf) and item.expr != ranking:
                message = "rrf can be returned only when the rows are ordered by it"
                self.context.error(QueryCode.RRF, message, span, "add it to `order`")

    # -- order -----------------------------------------------------------------------------

    def _order(
        self, outputs: tuple[OutputColumn, ...], *, grouped: bool
    ) -> tuple[ir.Ranking | None, tuple[SortKey, ...]]:
        ranking: ir.Ranking | None = None
        keys: list[SortKey] = []
        by_name = {output.name: index for index, output in enumerate(outputs)}
        by_expr = {output.expr: index for index, output in reversed([*enumerate(outputs)])}
        entities = {output.expr.var for output in outputs if isinstance(output.expr, ir.Entity)}
        for place, item in enumerate(self.body.order):
            resolved = self._order_expr(item.expr, outputs, by_name, by_expr)
            if resolved is None:
                continue
            column, value = resolved
            descending = item.direction is ast.Direction.DESC
            if isinstance(value, ir.Nearest | ir.Bm25 | ir.Rrf):
                # Without a direction a ranking gives the best first, wherever it stands.
                descending |= item.direction is None and not isinstance(value, ir.Nearest)
                orders_first = place == 0 and descending != isinstance(value, ir.Nearest)
                if orders_first or column is None or isinstance(value, ir.Rrf):
                    if self._check_ranking(item, value, place, column, grouped=grouped):
                        ranking = value
                    continue
            if self._check_key(item, value, column, entities, grouped=grouped):
                keys.append(SortKey(column, value, descending))
        return ranking, tuple(keys)

    def _order_expr(
        self,
        item: ast.Operand,
        outputs: tuple[OutputColumn, ...],
        by_name: dict[str, int],
        by_expr: dict[ir.Expr, int],
    ) -> tuple[int | None, ir.Expr] | None:
        """The expression behind an order key, and the column that returns it."""
        if isinstance(item, ast.Bare):
            index = by_name.get(item.name)
            if index is not None:
                return index, outputs[index].expr
            if item.name not in self.lost:
                message = f"no returned column is named `{item.name}`"
                hint = self.context.near(item.name, by_name)
                self.context.error(QueryCode.UNBOUND, message, item.span, hint)
            return None
        value = self.exprs.operand(item, self.scope, OperandPlace.RETURN)
        return None if value is None else (by_expr.get(value), value)

    def _check_ranking(
        self,
        item: ast.OrderKey,
        value: ir.Ranking,
        place: int,
        column: int | None,
        *,
        grouped: bool,
    ) -> bool:
        error = self.context.error
        before = self.context.found.errors
        if place > 0:
            message = "a ranking that is not returned can only be the first order key"
            hint = "return it to order by its value: `bm25(...) as score`"
            if isinstance(value, ir.Rrf):
                message, hint = "rrf can only be the first order key", "later keys break its ties"
            error(QueryCode.RANKING_ORDER, message, item.span, hint)
        if grouped:
            error(QueryCode.GROUPING, "a ranking orders rows, not groups", item.span)
        elif column is None and self.body.distinct:
            message = "distinct rows can only be ordered by what they return"
            error(QueryCode.DISTINCT_ORDER, message, item.span, "return the ranking as well")
        against = ast.Direction.DESC if isinstance(value, ir.Nearest) else ast.Direction.ASC
        if item.direction is against:
            message = f"a ranking gives the best first, it cannot be `{against}`"
            instead = None if isinstance(value, ir.Rrf) else "return it to order by its value"
            error(QueryCode.RANKING_ORDER, message, item.span, instead)
        if self.body.limit is None:
            hint = "add `limit 10`"
            if isinstance(value, ir.Nearest):
                message = "ordering by nearest needs a limit"
                error(QueryCode.NEAREST_NEEDS_LIMIT, message, item.span, hint)
            elif isinstance(value, ir.Rrf):
                error(QueryCode.RRF, "ordering by rrf needs a limit", item.span, hint)
        return self.context.found.errors == before

    def _check_key(
        self,
        item: ast.OrderKey,
        value: ir.Expr,
        column: int | None,
        entities: set[str],
        *,
        grouped: bool,
    ) -> bool:
        error = self.context.error
        if column is None and isinstance(value, ir.Const | ir.Param | ir.Now):
            error(QueryCode.INCOMPATIBLE, "ordering by a constant orders nothing", item.span)
            return False
        if not value.type.is_scalar:
            message = f"rows cannot be ordered by {value.type.required()}"
            hint = None
            if isinstance(value, ir.Entity):
                message = f"rows cannot be ordered by a whole {value.entity.name}"
                hint = "order by one of its properties, or by its id"
            error(QueryCode.INCOMPATIBLE, message, item.span, hint)
            return False
        if column is None and isinstance(value, ir.Aggregate) and not grouped:
            error(QueryCode.GROUPING, "return the aggregate to order by it", item.span)
            return False
        if isinstance(value, ir.Prop) and value.var in entities:
            return True  # a returned entity determines its properties
        if column is None and grouped:
            message = "a grouped query can only be ordered by what it returns"
            error(QueryCode.GROUPING, message, item.span, "return it, or order by another key")
            return False
        if column is None and self.body.distinct:
            message = "distinct rows can only be ordered by what they return"
            error(QueryCode.DISTINCT_ORDER, message, item.span, "return it, or the whole entity")
            return False
        return True

    # -- limit and offset ------------------------------------------------------------------

    def _bound(self, item: Literal | ast.Var | None, word: str) -> ir.Const | ir.Param | None:
        if item is None:
            return None
        if isinstance(item, Literal):
            if isinstance(item.value, int) and item.value <= INT_RANGES[Base.I64][1]:
                return ir.Const(item.value, _BOUND)
            message = f"the {word} is out of range"
            self.context.error(QueryCode.BOUND_TYPE, message, item.span)
            return None
        param = self.context.param(item.name)
        if param is None:
            message = f"`${item.name}` is not a parameter"
            known = (f"${name}" for name in self.context.names.params)
            hint = self.context.near(f"${item.name}", known)
            self.context.error(QueryCode.UNBOUND, message, item.span, hint)
            return None
        if param.type.base not in INTEGERS or param.type.is_list or param.type.nullable:
            message = f"{word} takes a required integer parameter, `${item.name}` is {param.type}"
            self.context.error(QueryCode.BOUND_TYPE, message, item.span)
            return None
        return param


def _ties(
    outputs: tuple[OutputColumn, ...], ranking: ir.Ranking | None, order: tuple[SortKey, ...]
) -> tuple[int, ...]:
    """The columns that no order key fixes already."""
    fixed = {key.column for key in order}
    return tuple(
        place
        for place, output in enumerate(outputs)
        if place not in fixed and (ranking is None or output.expr != ranking)
    )


def column_name(item: ast.Operand) -> str:
    """The name of a result column without an alias: the same in results, lint and explain."""
    match item:
        case ast.PropertyOf(var, name):
            return f"{var.name}.{name.text}"
        case ast.Var(name):
            return name
        case ast.Call(function, args, distinct) if function.text not in RANKINGS:
            inner = ", ".join(column_name(arg) for arg in args)
            if not args:
                return function.text
            return f"{function.text}({'distinct ' if distinct else ''}{inner})"
        case ast.Call(function):
            return function.text
        case _:
            return "literal"
