"""Predicates as conditions that the store understands: which rows are worth reading.

A condition made here may let through rows that the predicate does not hold for, never the other
way round; its readers evaluate the predicate again. Negations are carried inwards, so
that none is left around something that was only roughly translated. Every value and every column
name enters the text through the two functions of the store that quote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Final

from omnigraph.exec.evaluate import EvalContext, constant
from omnigraph.lang.catalog.model import EntityType
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
)
from omnigraph.lang.values import (
    F32_MAX,
    FLOATS,
    INT_RANGES,
    Base,
    ValueType,
    format_date,
    format_datetime,
    to_f32,
)
from omnigraph.rules.identity import entity_id
from omnigraph.store.table import LIST_KEYS_MAX, literal, quoted

NOTHING: Final = "false"  # the condition that no row meets

_NEGATED: Final = {
    CompareOp.EQ: CompareOp.NE,
    CompareOp.NE: CompareOp.EQ,
    CompareOp.LT: CompareOp.GE,
    CompareOp.LE: CompareOp.GT,
    CompareOp.GT: CompareOp.LE,
    CompareOp.GE: CompareOp.LT,
}


def prefilter(predicate: Predicate, context: EvalContext) -> str | None:
    """A condition that all rows meet for which the predicate is true; None if none is known."""
    return _condition(predicate, context, negated=False)


def among(column: str, kind: ValueType, values: Iterable[ConstValue]) -> str:
    """The condition that a column has one of these values."""
    fitting = (_fitted(value, kind) for value in values if value is not None)
    items = sorted({_spelled(value, kind) for value in fitting if value is not None})
    if not items:
        return NOTHING
    if len(items) == 1:
        return f"{quoted(column)} = {items[0]}"
    return f"{quoted(column)} IN ({', '.join(items)})"


def fixed_ids(
    predicate: Predicate, entity: EntityType, context: EvalContext
) -> tuple[str, ...] | None:
    """The ids that entities can have for which the predicate is true; None if any id can.

    It does when it demands a value for `id`, or one for each part of the key.
    """
    demanded: dict[str, tuple[ConstValue, ...]] = {}
    for item in _conjuncts(predicate):
        found = _demand(item, context)
        if found is not None:
            prop, values = found
            known = demanded.get(prop.column)
            if known is None or len(values) < len(known):
                demanded[prop.column] = values
    if "id" in demanded:
        return tuple(str(value) for value in demanded["id"])
    if not entity.key or any(name not in demanded for name in entity.key):
        return None
    parts = [demanded[name] for name in entity.key]
    if len(parts) > 1 and prod(map(len, parts)) > LIST_KEYS_MAX:
        return None
    ids = (entity_id(entity, dict(zip(entity.key, row, strict=True))) for row in product(*parts))
    return tuple(dict.fromkeys(ids))


def _condition(item: Predicate, context: EvalContext, *, negated: bool) -> str | None:
    match item:
        case Not(inner):
            return _condition(inner, context, negated=not negated)
        case And(items) | Or(items):
            parts = [_condition(part, context, negated=negated) for part in items]
            return _all_of(parts) if isinstance(item, And) is not negated else _any_of(parts)
        case Compare():
            return _comparison(item, context, negated=negated)
        case IsNull(Prop(_, column, _)):
            return f"{quoted(column)} IS {'NOT ' if negated else ''}NULL"
        case OneOf() | Contains():
            found = None if negated else _demand(item, context)
            if found is None or len(found[1]) > LIST_KEYS_MAX:
                return None
            prop, values = found
            return among(prop.column, prop.type, values)
        case StartsWith(Prop(_, column, _), Const() | Param() as part) if not negated:
            return _text_call("starts_with", column, constant(part, context))
        case Substring(Prop(_, column, _), Const() | Param() as part) if not negated:
            return _text_call("contains", column, constant(part, context))
        case _:
            return None


def _all_of(parts: Sequence[str | None]) -> str | None:
    known = list(dict.fromkeys(part for part in parts if part is not None))
    if NOTHING in known:
        return NOTHING
    if len(known) == 1:
        return known[0]
    return f"({' AND '.join(known)})" if known else None


def _any_of(parts: Sequence[str | None]) -> str | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    possible = list(dict.fromkeys(part for part in known if part != NOTHING))
    if len(possible) == 1:
        return possible[0]
    return f"({' OR '.join(possible)})" if possible else NOTHING


def _text_call(function: str, column: str, part: ConstValue) -> str:
    return f"{function}({quoted(column)}, {literal(part)})" if isinstance(part, str) else NOTHING


def _comparison(item: Compare, context: EvalContext, *, negated: bool) -> str | None:
    op, left, right = item.op, item.left, item.right
    if isinstance(right, Prop):
        op, left, right = op.swapped, right, left
    if not isinstance(left, Prop) or not _is_given(right) or not left.type.is_scalar:
        return None
    if negated:
        op = _NEGATED[op]
    value = constant(right, context)
    if value is None:
        return NOTHING
    fitted = _fitted(value, left.type)
    if fitted is not None:
        return f"{quoted(left.column)} {op.value} {_spelled(fitted, left.type)}"
    if op is CompareOp.EQ:
        return NOTHING
    return f"{quoted(left.column)} IS NOT NULL"


def _demand(item: Predicate, context: EvalContext) -> tuple[Prop, tuple[ConstValue, ...]] | None:
    """The column that a predicate demands a value for, and the values that would do."""
    values: Iterable[ConstValue]
    match item:
        case Compare(CompareOp.EQ, Prop() as prop, other) if _is_given(other):
            values = (constant(other, context),)
        case Compare(CompareOp.EQ, other, Prop() as prop) if _is_given(other):
            values = (constant(other, context),)
        case OneOf(Prop() as prop, items) if all(map(_is_given, items)):
            values = (constant(each, context) for each in items)
        case Contains(container, Prop() as prop) if _is_given(container):
            given = constant(container, context)
            values = given if isinstance(given, tuple) else ()
        case _:
            return None
    if not prop.type.is_scalar:
        return None
    fitting = (_fitted(value, prop.type) for value in values if value is not None)
    return prop, tuple(dict.fromkeys(value for value in fitting if value is not None))


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if isinstance(predicate, And):
        for item in predicate.items:
            yield from _conjuncts(item)
    else:
        yield predicate


def _is_given(expr: Expr) -> bool:
    return isinstance(expr, Const | Param | Now)


def _fitted(value: ConstValue, kind: ValueType) -> ConstValue:
    """The value of a column's type that equals this one; None when there is no such value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if kind.base in INT_RANGES:
        low, high = INT_RANGES[kind.base]
        if isinstance(value, float) and not value.is_integer():
            return None
        return int(value) if low <= value <= high else None
    if kind.base in FLOATS:
        return _fitted_float(value, kind)
    return value


def _fitted_float(value: float, kind: ValueType) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    if kind.base is Base.F32:
        number = to_f32(number) if abs(number) <= F32_MAX else number
        if abs(number) > F32_MAX:
            return None
    return number if number == value else None


def _spelled(value: ConstValue, kind: ValueType) -> str:
    """A value of a column's type as the store's SQL spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return literal(value)
    assert isinstance(value, int | float), kind
    if kind.base is Base.DATE:
        return f"date '{format_date(int(value))}'"
    if kind.base is Base.DATETIME:
        return f"timestamp '{format_datetime(int(value))}'"
    if value == INT_RANGES[Base.I64][0]:
        # Its digits without the sign do not fit, and the store would read a float.
        return "(-9223372036854775807 - 1)"
    return repr(value)
