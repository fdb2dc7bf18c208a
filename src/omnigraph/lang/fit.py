"""Checks whether a literal is a value of a type, for schemas, queries and parameters alike."""

from __future__ import annotations

import math

from omnigraph.lang.ir.expr import Const, ConstValue
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.source import did_you_mean
from omnigraph.lang.values import (
    F32_MAX,
    FLOATS,
    INT_RANGES,
    INTEGERS,
    Base,
    ValueType,
    to_f32,
)

MILLIS_PER_DAY = 86_400_000

_NATURAL: dict[LiteralKind, Base] = {
    LiteralKind.STRING: Base.STRING,
    LiteralKind.INT: Base.I64,
    LiteralKind.FLOAT: Base.F64,
    LiteralKind.BOOL: Base.BOOL,
    LiteralKind.DATE: Base.DATE,
    LiteralKind.DATETIME: Base.DATETIME,
}


def describe(literal: Literal) -> str:
    """A literal's own type, in words."""
    if literal.kind is LiteralKind.LIST:
        return "a list"
    if literal.kind is LiteralKind.NULL:
        return "null"
    return _NATURAL[literal.kind].value


def natural(literal: Literal) -> Const | None:
    """A scalar literal with the type it has by itself; None for null, lists, huge integers."""
    base = _NATURAL.get(literal.kind)
    value = literal.value
    if base is None or value is None:
        return None
    if literal.kind is LiteralKind.INT and isinstance(value, int):
        low, high = INT_RANGES[Base.I64]
        if not low <= value <= high:
            base = Base.U64
            if not 0 <= value <= INT_RANGES[Base.U64][1]:
                return None
    return Const(value, ValueType(base))


def fit(literal: Literal, wanted: ValueType) -> Const | str:
    """The literal as a stored constant of the wanted type, or the reason why it is none.

    A number for an F32 or a Vector is rounded to what they can store, so that a constant equals
    the value it is stored as. A date is a DateTime too: its midnight in UTC.
    """
    if literal.kind is LiteralKind.NULL:
        return Const(None, wanted) if wanted.nullable else "null does not fit a required property"
    if wanted.base is Base.VECTOR:
        return _fit_vector(literal, wanted)
    if wanted.is_list != (literal.kind is LiteralKind.LIST):
        return f"expected {wanted}, got {describe(literal)}"
    if wanted.is_list:
        items: list[ConstValue] = []
        element = wanted.element()
        for item in literal.items:
            const = fit(item, element)
            if isinstance(const, str):
                return f"in the list: {const}"
            items.append(const.value)
        return Const(tuple(items), wanted)
    return _fit_scalar(literal, wanted)


def normal(literal: Literal, wanted: ValueType) -> Literal | str:
    """The literal as the one spelling of its value in that type, or why it is no such value."""
    fitted = fit(literal, wanted)
    if isinstance(fitted, str):
        return fitted
    kind = _KIND_OF.get(wanted.base, LiteralKind.STRING)
    if isinstance(fitted.value, tuple):
        items = tuple(_plain(kind, value) for value in fitted.value)
        return Literal(LiteralKind.LIST, None, items)
    return _plain(kind, fitted.value)


def _plain(kind: LiteralKind, value: ConstValue) -> Literal:
    if value is None or isinstance(value, tuple):
        return Literal(LiteralKind.NULL)
    # There is one zero: equal values must have equal texts.
    return Literal(kind, value + 0.0 if isinstance(value, float) else value)


_KIND_OF: dict[Base, LiteralKind] = {
    **{base: kind for kind, base in _NATURAL.items()},
    **dict.fromkeys(INTEGERS, LiteralKind.INT),
    **dict.fromkeys(FLOATS, LiteralKind.FLOAT),
    Base.VECTOR: LiteralKind.FLOAT,
}


def _fit_vector(literal: Literal, wanted: ValueType) -> Const | str:
    if literal.kind is not LiteralKind.LIST:
        return f"expected {wanted}, got {describe(literal)}"
    if len(literal.items) != wanted.dim:
        return f"expected {wanted}, got a list of {len(literal.items)}"
    numbers: list[ConstValue] = []
    for item in literal.items:
        if item.kind not in (LiteralKind.INT, LiteralKind.FLOAT):
            return f"a vector has numbers only, got {describe(item)}"
        number = _float(item)
        if not abs(number) <= F32_MAX:
            return f"{item} is out of the range of F32"
        numbers.append(to_f32(number))
    return Const(tuple(numbers), wanted)


def _fit_scalar(literal: Literal, wanted: ValueType) -> Const | str:
    base, kind, value = wanted.base, literal.kind, literal.value
    mismatch = f"expected {wanted}, got {describe(literal)}"
    if base in INTEGERS:
        if kind is not LiteralKind.INT or not isinstance(value, int):
            return mismatch
        low, high = INT_RANGES[base]
        return (
            Const(value, wanted) if low <= value <= high else f"{value} is out of range of {base}"
        )
    if base in FLOATS:
        if kind not in (LiteralKind.INT, LiteralKind.FLOAT):
            return mismatch
        number = _float(literal)
        if (base is Base.F32 and abs(number) > F32_MAX) or not math.isfinite(number):
            return f"{literal} is out of range of {base}"
        return Const(to_f32(number) if base is Base.F32 else number, wanted)
    if base is Base.DATETIME and kind is LiteralKind.DATE and isinstance(value, int):
        return Const(value * MILLIS_PER_DAY, wanted)
    if base is Base.BLOB:
        return Const(value, wanted) if kind is LiteralKind.STRING else mismatch
    if _NATURAL.get(kind) is not base:
        return mismatch
    if wanted.enum and value not in wanted.enum:
        return enum_problem(str(value), wanted.enum)
    return Const(value, wanted)


def _float(literal: Literal) -> float:
    try:
        return float(literal.value or 0)
    except OverflowError:
        return math.inf


def enum_problem(value: str, allowed: tuple[str, ...]) -> str:
    """Returns why a text is not one of the values of an enum."""
    near = did_you_mean(value, allowed)
    return f"'{value[:60]}' is not one of {', '.join(allowed)}" + (f" ({near})" if near else "")
