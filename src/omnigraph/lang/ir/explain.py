"""A plan as text that people can read and diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraph.lang.ir import expr as ir
from omnigraph.lang.ir.ops import (
    AntiJoin,
    DeleteOp,
    Expand,
    Filter,
    InsertOp,
    MutationOp,
    MutationPlan,
    Op,
    OptionalJoin,
    Plan,
    ReadPlan,
    Scan,
    Towards,
    UpdateOp,
)
from omnigraph.lang.tokens import quote
from omnigraph.lang.values import Base, format_date, format_datetime

_ARROWS = {Towards.OUT: ("-", "->"), Towards.IN: ("<-", "-"), Towards.BOTH: ("-", "-")}


def explain(plan: Plan) -> str:
    """The whole plan, one operator per line, in the order in which they run."""
    params = ", ".join(f"${item.name}: {item.type}" for item in plan.params)
    kind = "read" if isinstance(plan, ReadPlan) else "mutation"
    lines = [f"{kind} {plan.name}({params})"]
    lines.extend(_read(plan) if isinstance(plan, ReadPlan) else _mutation(plan))
    return "\n".join(lines) + "\n"


def _read(plan: ReadPlan) -> Iterator[str]:
    yield from _ops(plan.pipeline, 1)
    outputs = ", ".join(f"{item.name}: {item.type} = {value(item.expr)}" for item in plan.outputs)
    word = "group" if plan.grouped else "distinct" if plan.distinct else "return"
    yield _line(1, word, outputs)
    if plan.grouped and plan.distinct:
        yield _line(1, "distinct", "")
    if plan.ranking is not None:
        yield _line(1, "rank", value(plan.ranking))
    keys = [
        f"{plan.outputs[key.column].name if key.column is not None else value(key.expr)}"
        f"{' desc' if key.descending else ''}"
        for key in plan.order
    ]
    if keys:
        yield _line(1, "order", ", ".join(keys))
    if plan.tie_break:
        yield _line(1, "ties", ", ".join(f"${name}" for name in plan.tie_break))
    if plan.tie_break_columns:
        names = plan.columns
        yield _line(1, "ties", ", ".join(names[place] for place in plan.tie_break_columns))
    if plan.limit is not None:
        yield _line(1, "limit", value(plan.limit))
    if plan.offset is not None:
        yield _line(1, "offset", value(plan.offset))
    for need in plan.needs:
        columns = ", ".join(column.name for column in need.columns) or "(ids only)"
        mark = "?" if need.nullable else ""
        yield _line(1, "need", f"${need.var}{mark}: {need.entity.name} {columns}")


def _ops(ops: Iterable[Op], depth: int) -> Iterator[str]:
    for op in ops:
        match op:
            case Scan():
                yield _line(depth, "scan", f"${op.var}: {op.entity.name}{_where(op.filters)}")
            case Expand():
                yield _line(depth, "close" if op.closes else "expand", _expand(op))
            case Filter():
                yield _line(depth, "filter", predicate(op.predicate))
            case AntiJoin():
                yield _line(depth, "not", ", ".join(f"${name}" for name in op.outer))
                yield from _ops(op.inner, depth + 1)
            case OptionalJoin():
                binds = ", ".join(f"${name}" for name in op.binds)
                outer = ", ".join(f"${name}" for name in op.outer)
                yield _line(depth, "optional", f"{outer} binds {binds or 'nothing'}")
                yield from _ops(op.inner, depth + 1)
            case _:
                assert_never(op)


def _expand(op: Expand) -> str:
    before, after = _ARROWS[op.towards]
    edge = op.edge.name if op.edge_var is None else f"${op.edge_var}: {op.edge.name}"
    hops = "" if (op.low, op.high) == (1, 1) else f" {{{op.low},{op.high}}}"
    text = f"${op.source} {before}[{edge}{hops}{_where(op.edge_filters)}]{after} ${op.target}"
    return f"{text}: {op.target_entity.name}{_where(op.filters)}"


def _where(filters: tuple[ir.Predicate, ...]) -> str:
    return f" where {' and '.join(predicate(item) for item in filters)}" if filters else ""


def _line(depth: int, word: str, text: str) -> str:
    return f"{'  ' * depth}{word:<8} {text}".rstrip()


def _mutation(plan: MutationPlan) -> Iterator[str]:
    for op in plan.ops:
        yield from _mutation_op(op)
    yield _line(1, "reads", ", ".join(ref.table_key for ref in plan.reads))
    yield _line(1, "writes", ", ".join(ref.table_key for ref in plan.writes))


def _mutation_op(op: MutationOp) -> Iterator[str]:
    match op:
        case InsertOp():
            yield _line(1, "insert", f"{op.entity.table_key} {_assigned(op)}")
            if op.key:
                yield _line(2, "key", ", ".join(column.name for column in op.key))
            yield from _embeds(op)
            if op.ends is not None:
                yield _line(2, "ends", f"src in {op.ends[0].name}, dst in {op.ends[1].name}")
        case UpdateOp():
            yield _line(1, "update", f"{op.entity.table_key} {_assigned(op)}")
            yield from _embeds(op)
            yield _line(2, "where", predicate(op.where))
        case DeleteOp():
            yield _line(1, "delete", op.entity.table_key)
            yield _line(2, "where", predicate(op.where))
            for item in op.cascades:
                ends = [name for name, on in (("src", item.source), ("dst", item.target)) if on]
                yield _line(2, "cascade", f"{item.edge.table_key} by {' or '.join(ends)}")
        case _:
            assert_never(op)


def _embeds(op: InsertOp | UpdateOp) -> Iterator[str]:
    for item in op.embeds:
        model = f" by {item.model}" if item.model else ""
        yield _line(2, "embed", f"{item.target.name} from {item.source.name}{model}")


def _assigned(op: InsertOp | UpdateOp) -> str:
    return "{ " + ", ".join(f"{item.column.name}: {value(item.value)}" for item in op.values) + " }"


# -- expressions -----------------------------------------------------------------------


def value(item: ir.Expr) -> str:
    """An expression as text."""
    match item:
        case ir.Const():
            return _const(item.value, item.type.base)
        case ir.Param(name):
            return f"${name}"
        case ir.Now():
            return "now()"
        case ir.Prop(var, column):
            return f"${var}.{column}" if var else column
        case ir.Entity(var):
            return f"${var}"
        case ir.Aggregate(function, arg, distinct):
            return f"{function}({'distinct ' if distinct else ''}{value(arg)})"
        case ir.Nearest(var, column, _, metric, query):
            return f"nearest(${var}.{column}, {value(query)}, {metric})"
        case ir.Bm25(var, column, query):
            return f"bm25(${var}.{column}, {value(query)})"
        case ir.Rrf(first, second, k):
            return f"rrf({value(first)}, {value(second)}, {value(k)})"
        case _:
            assert_never(item)


def _const(item: ir.ConstValue, base: Base) -> str:
    match item:
        case None:
            return "null"
        case bool():
            return "true" if item else "false"
        case str():
            return quote(item)
        case tuple():
            return f"[{', '.join(_const(part, base) for part in item)}]"
        case int() if base is Base.DATE:
            return f'date("{format_date(item)}")'
        case int() if base is Base.DATETIME:
            return f'datetime("{format_datetime(item)}")'
        case _:
            return repr(item)


def predicate(item: ir.Predicate) -> str:
    """A predicate as text, fully parenthesised."""
    match item:
        case ir.Compare(op, left, right):
            return f"{value(left)} {op} {value(right)}"
        case ir.Contains(ir.Param() as container, member):
            return f"{value(member)} in {value(container)}"
        case ir.Contains(left, right) | ir.Substring(left, right):
            return f"{value(left)} contains {value(right)}"
        case ir.StartsWith(text, prefix):
            return f"{value(text)} starts_with {value(prefix)}"
        case ir.OneOf(operand, items):
            return f"{value(operand)} in [{', '.join(value(part) for part in items)}]"
        case ir.IsNull(operand):
            return f"{value(operand)} is null"
        case ir.TextMatch(mode, var, column, query, edits):
            tail = "" if edits is None else f", {value(edits)}"
            return f"{mode}(${var}.{column}, {value(query)}{tail})"
        case ir.Not(inner):
            return f"not ({predicate(inner)})"
        case ir.And(items) | ir.Or(items):
            word = " and " if isinstance(item, ir.And) else " or "
            return f"({word.join(predicate(part) for part in items)})"
        case _:
            assert_never(item)
