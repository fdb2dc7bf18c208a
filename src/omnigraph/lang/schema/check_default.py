"""`@default`: a literal that must be a value of its property's type, in normal form."""

from __future__ import annotations

from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.schema.ast import Annotation, Name
from omnigraph.lang.schema.scope import Scope
from omnigraph.lang.source import did_you_mean
from omnigraph.lang.values import (
    F32_MAX,
    FLOATS,
    INT_RANGES,
    Base,
    ValueType,
    parse_date,
    parse_datetime,
)

_NUMBERS = frozenset({LiteralKind.INT, LiteralKind.FLOAT})


def resolve_default(
    annotation: Annotation, of_type: ValueType | None, owner: str, scope: Scope
) -> Literal | None:
    """The checked default of the property `owner`, or None after a reported mistake."""
    literal = annotation.args[0] if annotation.args else None
    if len(annotation.args) != 1 or annotation.kwargs or not isinstance(literal, Literal):
        hint = "write for example `@default(0)`"
        if isinstance(literal, Name):
            hint = f'text is written in double quotes: `@default("{literal.text}")`'
        scope.error("S520", "`@default` takes exactly one literal", annotation.span, hint)
        return None
    if literal.kind is LiteralKind.NULL:
        message = "a default cannot be null"
        hint = "a nullable property without a default is null when it is left out"
        scope.error("S521", message, literal.span, hint)
        return None
    if of_type is None:
        return None
    if of_type.base in (Base.BLOB, Base.VECTOR):
        message = f"`{owner}` is a {of_type.base.value}, which cannot have a default"
        scope.error("S522", message, annotation.span)
        return None
    if not of_type.is_list:
        return _scalar(literal, of_type, scope)
    if literal.kind is not LiteralKind.LIST:
        _mismatch(literal, of_type, scope, "a list is written as `[1, 2]`")
        return None
    element = of_type.element()
    items = [_scalar(item, element, scope) for item in literal.items]
    return Literal(LiteralKind.LIST, None, tuple(item for item in items if item is not None))


def _scalar(literal: Literal, of_type: ValueType, scope: Scope) -> Literal | None:
    base, kind, value = of_type.base, literal.kind, literal.value
    if base in INT_RANGES and kind is LiteralKind.INT and isinstance(value, int):
        low, high = INT_RANGES[base]
        if low <= value <= high:
            return Literal(LiteralKind.INT, value)
        message = f"{value} does not fit into {base.value}, which holds {low} to {high}"
        scope.error("S524", message, literal.span)
        return None
    if base in FLOATS and kind in _NUMBERS and isinstance(value, int | float):
        if base is Base.F32 and abs(value) > F32_MAX:
            scope.error("S524", f"{value} does not fit into F32", literal.span)
            return None
        return Literal(LiteralKind.FLOAT, float(value) + 0.0)
    if base is Base.BOOL and kind is LiteralKind.BOOL:
        return Literal(LiteralKind.BOOL, value)
    if base is Base.DATE and kind is LiteralKind.DATE:
        return Literal(LiteralKind.DATE, value)
    if base is Base.DATETIME and kind is LiteralKind.DATETIME:
        return Literal(LiteralKind.DATETIME, value)
    if kind is LiteralKind.STRING and isinstance(value, str):
        return _text(literal, value, of_type, scope)
    _mismatch(literal, of_type, scope)
    return None


def _text(literal: Literal, text: str, of_type: ValueType, scope: Scope) -> Literal | None:
    """A text as the default of a String, an enum, a Date or a DateTime."""
    if of_type.enum:
        if text in of_type.enum:
            return Literal(LiteralKind.STRING, text)
        message = f"{text[:40]!r} is not one of {', '.join(of_type.enum[:20])}"
        scope.error("S525", message, literal.span, did_you_mean(text[:80], of_type.enum))
        return None
    if of_type.base is Base.STRING:
        return Literal(LiteralKind.STRING, text)
    if of_type.base is Base.DATE:
        days = parse_date(text)
        if days is not None:
            return Literal(LiteralKind.DATE, days)
        message = f"{text[:40]!r} is not a date"
        scope.error("S526", message, literal.span, "write it like `2024-03-31`")
        return None
    if of_type.base is Base.DATETIME:
        millis = parse_datetime(text)
        if millis is not None:
            return Literal(LiteralKind.DATETIME, millis)
        message = f"{text[:40]!r} is not a date-time"
        scope.error("S526", message, literal.span, "write it like `2024-03-31T12:00:00Z`")
        return None
    _mismatch(literal, of_type, scope)
    return None


_KIND_NAMES = {
    LiteralKind.STRING: "a text",
    LiteralKind.INT: "an integer",
    LiteralKind.FLOAT: "a decimal number",
    LiteralKind.BOOL: "a truth value",
    LiteralKind.NULL: "null",
    LiteralKind.DATE: "a date",
    LiteralKind.DATETIME: "a date-time",
    LiteralKind.LIST: "a list",
}


def _mismatch(literal: Literal, of_type: ValueType, scope: Scope, hint: str | None = None) -> None:
    message = f"{_KIND_NAMES[literal.kind]} is not a value of the type {of_type.required()}"
    scope.error("S523", message, literal.span, hint)
