"""Tables of the types that compare and assign, and hints on what to write instead."""

from __future__ import annotations

from omnigraph.lang.fit import fit, natural
from omnigraph.lang.ir.expr import Const
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.values import FLOATS, INTEGERS, NUMERIC, Base, ValueType


def comparable(left: ValueType, right: ValueType) -> bool:
    """True if two scalars can be compared, or one assigned to the other."""
    if not (left.is_scalar and right.is_scalar):
        return False
    return left.base is right.base or (left.base in NUMERIC and right.base in NUMERIC)


def assignable(actual: ValueType, wanted: ValueType) -> bool:
    """True if a parameter of one type can be stored in a property of another.

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

    It takes the other type where it can, so that it compares as it would be stored: a decimal
    fraction means the nearest number of an F32 column, or `= 0.1` would never hold. An integer
    that the other type cannot hold exactly keeps its own type: it still compares, it just never
    equals. A text that is no value of an enum is a mistake, though.
    """
    fitted = fit(literal, other.required())
    rounded = isinstance(fitted, Const) and not _is_exact(literal, fitted)
    if rounded or (isinstance(fitted, str) and not other.enum):
        const = natural(literal)
        if const is not None and comparable(const.type, other):
            return const
    return f"{literal} is out of range of {other.base}" if rounded else fitted


def _is_exact(literal: Literal, fitted: Const) -> bool:
    if fitted.type.base not in FLOATS or literal.kind is LiteralKind.FLOAT:
        return True
    # Python compares an integer with a float by value, without rounding either.
    return fitted.value == literal.value


def literal_hint(literal: Literal, wanted: ValueType) -> str | None:
    """A hint on what to write instead of a text where a date is wanted."""
    if literal.kind is LiteralKind.STRING:
        return temporal_hint(ValueType(Base.STRING), wanted)
    return None


def temporal_hint(left: ValueType, right: ValueType) -> str | None:
    """A hint on what to write when a text is compared with a date."""
    bases = {left.base, right.base}
    if bases == {Base.STRING, Base.DATE}:
        return 'write dates as `date("2024-03-31")` or declare the parameter as Date'
    if bases == {Base.STRING, Base.DATETIME}:
        return 'write it as `datetime("2024-03-31T12:00:00Z")` or declare it as DateTime'
    if bases == {Base.DATE, Base.DATETIME}:
        return "Date and DateTime differ; only a date literal is taken as its midnight (UTC)"
    return None
