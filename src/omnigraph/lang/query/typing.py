"""Which literals fit which types, and which types compare. Pure tables of the language."""

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
    NUMERIC,
    Base,
    ValueType,
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
    """The literal as a stored constant of the wanted type, or the reason why it is none."""
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


def _fit_vector(literal: Literal, wanted: ValueType) -> Const | str:
    if literal.kind is not LiteralKind.LIST:
        return f"expected {wanted}, got {describe(literal)}"
    if len(literal.items) != wanted.dim:
        return f"expected {wanted}, got a list of {len(literal.items)}"
    numbers: list[ConstValue] = []
    for item in literal.items:
        if item.kind not in (LiteralKind.INT, LiteralKind.FLOAT):
            return f"a vector has numbers only, got {describe(item)}"
        number = float(item.value or 0)
        if abs(number) > F32_MAX:
            return f"{item} is out of the range of F32"
        numbers.append(number)
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
        number = float(value or 0)
        if (base is Base.F32 and abs(number) > F32_MAX) or not math.isfinite(number):
            return f"{literal} is out of range of {base}"
        return Const(number, wanted)
    if base is Base.DATETIME and kind is LiteralKind.DATE and isinstance(value, int):
        return Const(value * MILLIS_PER_DAY, wanted)
    if base is Base.BLOB:
        return Const(value, wanted) if kind is LiteralKind.STRING else mismatch
    if _NATURAL.get(kind) is not base:
        return mismatch
    if wanted.enum and value not in wanted.enum:
        return enum_problem(str(value), wanted.enum)
    return Const(value, wanted)


def enum_problem(value: str, allowed: tuple[str, ...]) -> str:
    """Why a text is not one of the values of an enum."""
    near = did_you_mean(value, allowed)
    return f"'{value[:60]}' is not one of {', '.join(allowed)}" + (f" ({near})" if near else "")


def comparable(left: ValueType, right: ValueType) -> bool:
    """Can two scalars be compared or one assigned to the other?"""
    if not (left.is_scalar and right.is_scalar):
        return False
    return left.base is right.base or (left.base in NUMERIC and right.base in NUMERIC)


def assignable(actual: ValueType, wanted: ValueType) -> bool:
    """Can a parameter of one type be stored in a property of another?

    Widths are checked again when the value is known; a number with a fraction never becomes an
    integer silently, so floats do not go into integer properties.
    """
    if wanted.base is Base.BLOB and not wanted.is_list:
        return not actual.is_list and actual.base in (Base.BLOB, Base.STRING)
    if actual.is_list != wanted.is_list:
        return False
    if wanted.base is Base.VECTOR:
        return actual.base is Base.VECTOR and actual.dim == wanted.dim
    if wanted.base in INTEGERS:
        return actual.base in INTEGERS
    if wanted.base in FLOATS:
        return actual.base in NUMERIC
    return actual.base is wanted.base


def fit_comparison(literal: Literal, other: ValueType) -> Const | str:
    """The literal as something to compare with a value of another type, or why it is none.

    Looser than `fit`: a number that the other type cannot hold still compares, it just never
    equals. A text that is no value of an enum is a mistake, though.
    """
    fitted = fit(literal, other.required())
    if isinstance(fitted, str) and not other.enum:
        const = natural(literal)
        if const is not None and comparable(const.type, other):
            return const
    return fitted


def literal_hint(literal: Literal, wanted: ValueType) -> str | None:
    """What to write instead of a text where a date is wanted."""
    if literal.kind is LiteralKind.STRING:
        return temporal_hint(ValueType(Base.STRING), wanted)
    return None


def temporal_hint(left: ValueType, right: ValueType) -> str | None:
    """What to write when a text is compared with a date."""
    bases = {left.base, right.base}
    if bases == {Base.STRING, Base.DATE}:
        return 'write dates as `date("2024-03-31")` or declare the parameter as Date'
    if bases == {Base.STRING, Base.DATETIME}:
        return 'write it as `datetime("2024-03-31T12:00:00Z")` or declare it as DateTime'
    if bases == {Base.DATE, Base.DATETIME}:
        return "Date and DateTime differ; only a date literal is taken as its midnight (UTC)"
    return None
