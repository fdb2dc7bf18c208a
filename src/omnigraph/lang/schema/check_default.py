"""`@default`: a literal that must be a value of its property's type, in normal form."""

from __future__ import annotations

from omnigraph.lang.fit import normal
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.schema.ast import Annotation
from omnigraph.lang.schema.scope import SchemaScope
from omnigraph.lang.source import Name, did_you_mean
from omnigraph.lang.values import (
    FLOATS,
    INT_RANGES,
    Base,
    ValueType,
    parse_date,
    parse_datetime,
)


def resolve_default(
    annotation: Annotation, of_type: ValueType | None, owner: str, scope: SchemaScope
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
        return _scalar(literal, of_type.required(), scope)
    if literal.kind is not LiteralKind.LIST:
        _mismatch(literal, of_type, scope, "a list is written as `[1, 2]`")
        return None
    element = of_type.element()
    items = [_scalar(item, element, scope) for item in literal.items]
    return Literal(LiteralKind.LIST, None, tuple(item for item in items if item is not None))


def _scalar(literal: Literal, of_type: ValueType, scope: SchemaScope) -> Literal | None:
    """One value in normal form, or None after the reason is reported."""
    kind, base = literal.kind, of_type.base
    if kind is LiteralKind.STRING and base in _TEMPORAL:
        return _moment(literal, base, scope)
    fitted = normal(literal, of_type)
    if isinstance(fitted, Literal):
        return fitted
    if of_type.enum and kind is LiteralKind.STRING:
        text = str(literal.value)
        message = f"{text[:40]!r} is not one of {', '.join(of_type.enum[:20])}"
        scope.error("S525", message, literal.span, did_you_mean(text[:80], of_type.enum))
    elif kind is LiteralKind.INT and base in INT_RANGES:
        low, high = INT_RANGES[base]
        message = f"{literal.value} does not fit into {base.value}, which holds {low} to {high}"
        scope.error("S524", message, literal.span)
    elif kind in (LiteralKind.INT, LiteralKind.FLOAT) and base in FLOATS:
        scope.error("S524", f"{literal.value} does not fit into {base.value}", literal.span)
    else:
        _mismatch(literal, of_type, scope)
    return None


_TEMPORAL = {
    Base.DATE: (LiteralKind.DATE, parse_date, "date", "2024-03-31"),
    Base.DATETIME: (LiteralKind.DATETIME, parse_datetime, "date-time", "2024-03-31T12:00:00Z"),
}


def _moment(literal: Literal, base: Base, scope: SchemaScope) -> Literal | None:
    """A text as the default of a Date or a DateTime: a schema may spell them as JSON does."""
    kind, parse, what, form = _TEMPORAL[base]
    text = str(literal.value)
    value = parse(text)
    if value is not None:
        return Literal(kind, value)
    message = f"{text[:40]!r} is not a {what}"
    scope.error("S526", message, literal.span, f"write it like `{form}`")
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


def _mismatch(
    literal: Literal, of_type: ValueType, scope: SchemaScope, hint: str | None = None
) -> None:
    message = f"{_KIND_NAMES[literal.kind]} is not a value of the type {of_type.required()}"
    scope.error("S523", message, literal.span, hint)
