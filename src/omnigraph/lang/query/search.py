"""The search functions: text predicates, and rankings whose value is a score or a distance."""

from __future__ import annotations

from omnigraph.lang.fit import fit
from omnigraph.lang.ir import expr as ir
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.query import ast
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.context import CheckContext
from omnigraph.lang.query.scope import QueryScope, Variable
from omnigraph.lang.values import INTEGERS, Base, ValueType
from omnigraph.types import Metric

EDITS_DEFAULT = 2
EDITS_MAX = 2
RRF_K_DEFAULT = 60

_TEXT_CODES = {
    "search": QueryCode.SEARCH_OPERAND,
    "fuzzy": QueryCode.SEARCH_OPERAND,
    "match_text": QueryCode.TEXT_RANK_OPERAND,
    "bm25": QueryCode.TEXT_RANK_OPERAND,
}
_INTEGER = ValueType(Base.I64)
_TEXT = ValueType(Base.STRING)


class SearchCalls:
    """Checks calls of search functions for one query."""

    __slots__ = ("context",)

    def __init__(self, context: CheckContext) -> None:
        """Check in this context."""
        self.context = context

    def value(self, call: ast.Call, scope: QueryScope, *, returned: bool) -> ir.Expr | None:
        """A search function where a value is expected."""
        name = call.function.text
        error = self.context.error
        if name in ("search", "fuzzy", "match_text"):
            hint = "return `bm25(...)` for a score" if returned else "write it as a clause alone"
            message = f"{name} is a condition, not a value"
            error(_TEXT_CODES[name], message, call.span, hint)
            return None
        if not returned:
            code = {"nearest": QueryCode.HOPS_OR_NEAREST, "rrf": QueryCode.RRF}
            message = f"{name} ranks rows; it cannot filter them"
            hint = "use it in `order` or `return`"
            error(code.get(name, QueryCode.TEXT_RANK_OPERAND), message, call.span, hint)
            return None
        return self.ranking(call, scope)

    def ranking(self, call: ast.Call, scope: QueryScope) -> ir.Ranking | None:
        """`nearest`, `bm25` or `rrf`."""
        match call.function.text:
            case "nearest":
                return self._nearest(call, scope)
            case "bm25":
                return self._bm25(call, scope)
            case _:
                return self._rrf(call, scope)

    # -- text ------------------------------------------------------------------------------

    def predicate(self, call: ast.Call, scope: QueryScope) -> ir.Predicate | None:
        """`search`, `fuzzy` or `match_text` as a condition."""
        name = call.function.text
        most = 3 if name == "fuzzy" else 2
        operands = self._text_operands(call, scope, most)
        if operands is None:
            return None
        field, query = operands
        edits: ir.Expr | None = None
        if name == "fuzzy":
            edits = ir.Const(EDITS_DEFAULT, _INTEGER)
            if len(call.args) == most:
                edits = self._edits(call.args[2])
                if edits is None:
                    return None
        return ir.TextMatch(ir.TextMode(name), field.var, field.column, query, edits)

    def _edits(self, item: ast.Operand) -> ir.Expr | None:
        value = self._integer(item)
        if isinstance(value, ir.Const) and not 0 <= int(str(value.value)) <= EDITS_MAX:
            value = None
        if value is None:
            message = f"the number of edits is a required integer from 0 to {EDITS_MAX}"
            self.context.error(QueryCode.SEARCH_OPERAND, message, item.span)
        return value

    def _bm25(self, call: ast.Call, scope: QueryScope) -> ir.Bm25 | None:
        operands = self._text_operands(call, scope, 2)
        if operands is None:
            return None
        field, query = operands
        return ir.Bm25(field.var, field.column, query)

    def _text_operands(
        self, call: ast.Call, scope: QueryScope, most: int
    ) -> tuple[ir.Prop, ir.Expr] | None:
        """The property and the query text that every text function starts with."""
        name = call.function.text
        code = _TEXT_CODES[name]
        if not 2 <= len(call.args) <= most:
            message = f"{name} takes a property and a query text"
            self.context.error(code, message, call.span)
            return None
        field = self._field(call, scope, code)
        query = self._text(call, scope, code)
        if field is None or query is None:
            return None
        if field.type.base is not Base.STRING or field.type.is_list:
            message = f"{name} searches a String property, this is {field.type}"
            self.context.error(code, message, call.args[0].span)
            return None
        return field, query

    def _field(self, call: ast.Call, scope: QueryScope, code: QueryCode) -> ir.Prop | None:
        """The first argument: a property of a node variable."""
        item = call.args[0]
        name = call.function.text
        if not isinstance(item, ast.PropertyOf):
            message = f"the first argument of {name} is a property: `$x.name`"
            self.context.error(code, message, item.span)
            return None
        variable = scope.find(item.var.name)
        if variable is not None and variable.entity.kind == "edge":
            message = f"{name} works on nodes, `${item.var.name}` is an edge"
            hint = "edge properties can be compared and returned"
            self.context.error(QueryCode.EDGE_BINDING, message, item.span, hint)
            return None
        return self.context.property(item, scope, read=False)

    def _text(self, call: ast.Call, scope: QueryScope, code: QueryCode) -> ir.Expr | None:
        """The second argument: a String literal or parameter."""
        item = call.args[1]
        if self._unknown(item, scope):
            return None
        value = self._given(item)
        if value is None or value.type != _TEXT:
            message = f"the query of {call.function.text} is a String literal or parameter"
            if value is not None:
                message += f", this is {value.type}"
            self.context.error(code, message, item.span, _required(value))
            return None
        return value

    def _unknown(self, item: ast.Operand, scope: QueryScope) -> bool:
        """Report a name that means nothing at all."""
        if not isinstance(item, ast.Var) or item.name in self.context.names.params:
            return False
        if scope.find(item.name) is not None:
            return False
        self.context.unbound(item, scope)
        return True

    def _given(self, item: ast.Operand) -> ir.Const | ir.Param | None:
        """A value that is known before any row is read."""
        if isinstance(item, ast.Var):
            return self.context.param(item.name)
        if isinstance(item, Literal) and isinstance(item.value, str):
            return ir.Const(item.value, _TEXT)
        return None

    def _integer(self, item: ast.Operand) -> ir.Expr | None:
        if isinstance(item, Literal) and item.kind is LiteralKind.INT:
            fitted = fit(item, _INTEGER)
            return fitted if isinstance(fitted, ir.Const) else None
        if isinstance(item, ast.Var):
            param = self.context.param(item.name)
            kind = None if param is None else param.type
            if kind is not None and kind.base in INTEGERS and not (kind.is_list or kind.nullable):
                return param
        return None

    # -- vectors and fusion ----------------------------------------------------------------

    def _nearest(self, call: ast.Call, scope: QueryScope) -> ir.Nearest | None:
        code = QueryCode.HOPS_OR_NEAREST
        if len(call.args) != 2:
            message = "nearest takes a Vector property and a vector or a text"
            self.context.error(code, message, call.span)
            return None
        field = self._field(call, scope, code)
        if field is None:
            return None
        if field.type.base is not Base.VECTOR:
            message = f"nearest needs a Vector property, this is {field.type}"
            self.context.error(code, message, call.args[0].span)
            return None
        if self._unknown(call.args[1], scope):
            return None
        query = self._vector(call.args[1], field.type.dim)
        if query is None:
            return None
        variable = self.context.names.variables[field.var]
        return _nearest(variable, field, query)

    def _vector(self, item: ast.Operand, dim: int) -> ir.Expr | None:
        wanted = ValueType(Base.VECTOR, dim=dim)
        problem = f"nearest compares with {wanted} or a String"
        hint: str | None = None
        if isinstance(item, Literal) and item.kind is LiteralKind.LIST:
            fitted = fit(item, wanted)
            if isinstance(fitted, ir.Const):
                return fitted
            problem = f"nearest: {fitted}"
        else:
            value = self._given(item)
            if value is not None:
                if value.type in (wanted, _TEXT):
                    return value
                problem += f", got {value.type}"
                hint = _required(value)
        self.context.error(QueryCode.HOPS_OR_NEAREST, problem, item.span, hint)
        return None

    def _rrf(self, call: ast.Call, scope: QueryScope) -> ir.Rrf | None:
        code = QueryCode.RRF
        if not 2 <= len(call.args) <= 3:
            message = "rrf takes two rankings and optionally k"
            self.context.error(code, message, call.span)
            return None
        parts: list[ir.Nearest | ir.Bm25] = []
        for item in call.args[:2]:
            if not isinstance(item, ast.Call) or item.function.text not in ("nearest", "bm25"):
                message = "rrf fuses `nearest(...)` and `bm25(...)`"
                self.context.error(code, message, item.span)
                continue
            ranking = self.ranking(item, scope)
            if isinstance(ranking, ir.Nearest | ir.Bm25):
                parts.append(ranking)
        k = self._rrf_k(call)
        if len(parts) != 2 or k is None:
            return None
        if parts[0].var != parts[1].var:
            message = "rrf fuses two rankings of one variable"
            self.context.error(code, message, call.span)
            return None
        return ir.Rrf(parts[0], parts[1], k)

    def _rrf_k(self, call: ast.Call) -> ir.Expr | None:
        if len(call.args) < 3:
            return ir.Const(RRF_K_DEFAULT, _INTEGER)
        value = self._integer(call.args[2])
        if isinstance(value, ir.Const) and int(str(value.value)) < 1:
            value = None
        if value is None:
            message = "k of rrf is a required integer above 0"
            self.context.error(QueryCode.RRF, message, call.args[2].span)
        return value


def _required(value: ir.Const | ir.Param | None) -> str | None:
    """A hint about a parameter that may be null where a value is needed."""
    if isinstance(value, ir.Param) and value.type.nullable:
        return f"declare it as `${value.name}: {value.type.required()}`"
    return None


def _nearest(variable: Variable, field: ir.Prop, query: ir.Expr) -> ir.Nearest:
    declared = variable.entity.property_by_name[field.column]
    model = declared.embed.model if declared.embed is not None else None
    metric = declared.metric or Metric.COSINE
    return ir.Nearest(field.var, field.column, field.type.dim, metric, query, model)
