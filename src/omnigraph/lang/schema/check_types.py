"""Property types: from what is written to a `ValueType`."""

from __future__ import annotations

from typing import assert_never

from omnigraph.lang.catalog.rules import BUILT_IN
from omnigraph.lang.schema.ast import (
    InlineEnum,
    ListType,
    PropertyDecl,
    TypeExpr,
    TypeName,
    VectorType,
)
from omnigraph.lang.schema.scope import SchemaScope
from omnigraph.lang.source import Name, Span
from omnigraph.lang.values import SCALARS, VECTOR_DIM_MAX, Base, ValueType

# One shared value per plain type: most properties of a large schema have one of these.
_PLAIN = {
    (name, nullable): ValueType(base, nullable)
    for name, base in SCALARS.items()
    for nullable in (False, True)
}

# What people bring from other languages, and no edit distance would find.
_FOREIGN = {
    "Int": "I32` or `I64",
    "Integer": "I32` or `I64",
    "Long": "I64",
    "Short": "I32",
    "Float": "F32` or `F64",
    "Double": "F64",
    "Number": "I64` or `F64",
    "Decimal": "F64",
    "Text": "String",
    "Str": "String",
    "Uuid": "String",
    "UUID": "String",
    "Boolean": "Bool",
    "Timestamp": "DateTime",
    "Time": "DateTime",
    "Bytes": "Blob",
    "Binary": "Blob",
    "Json": "String",
    "JSON": "String",
}


def resolve_type(decl: PropertyDecl, scope: SchemaScope) -> tuple[ValueType | None, str | None]:
    """The type of a property and the name of its enum; None after a reported mistake."""
    expr = decl.type
    if isinstance(expr, TypeName):
        plain = _PLAIN.get((expr.name, decl.nullable))
        if plain is not None:
            return plain, None
        values = scope.enums.get(expr.name)
        if values is not None:
            return ValueType(Base.STRING, decl.nullable, enum=values), expr.name
    return _resolve(expr, nullable=decl.nullable, scope=scope), None


def _resolve(expr: TypeExpr, *, nullable: bool, scope: SchemaScope) -> ValueType | None:
    match expr:
        case TypeName():
            _unknown(expr, scope)
            return None
        case VectorType():
            if not _check_dimension(expr, scope):
                return None
            return ValueType(Base.VECTOR, nullable, dim=expr.dim)
        case InlineEnum():
            values = enum_values(expr.values, expr.span, scope)
            return ValueType(Base.STRING, nullable, enum=values) if values else None
        case ListType():
            base = _element(expr.element, scope)
            return ValueType(base, nullable, is_list=True) if base is not None else None
        case _:
            assert_never(expr)


def _element(expr: TypeExpr, scope: SchemaScope) -> Base | None:
    """The base of a list's element, which must be a plain scalar."""
    match expr:
        case ListType():
            scope.error("S210", "a list cannot hold lists", expr.span)
        case VectorType():
            hint = "store each vector as a node of its own"
            scope.error("S209", "a list cannot hold vectors", expr.span, hint)
        case InlineEnum():
            scope.error("S208", "a list cannot hold enum values", expr.span, "use `[String]`")
        case TypeName(name) if name in scope.enums:
            message = f"a list cannot hold values of the enum `{name}`"
            scope.error("S208", message, expr.span, "use `[String]`")
        case TypeName(Base.BLOB.value):
            hint = "store each Blob as a node of its own"
            scope.error("S207", "a list cannot hold Blobs", expr.span, hint)
        case TypeName(name):
            if name in SCALARS:
                return SCALARS[name]
            _unknown(expr, scope)
        case _:
            assert_never(expr)
    return None


def _unknown(expr: TypeName, scope: SchemaScope) -> None:
    name = expr.name
    if name == Base.VECTOR.value:
        message = "a Vector needs its dimension"
        scope.error("S212", message, expr.span, "write for example `Vector(768)`")
        return
    for declared, what in (
        (scope.nodes, "a node type"),
        (scope.interfaces, "an interface"),
        (scope.edges, "an edge type"),
    ):
        if name in declared:
            message = f"`{name}` is {what}, not the type of a value"
            hint = f"to connect nodes, declare an edge: `edge HasIt: From -> {name}`"
            scope.error("S202", message, expr.span, hint if declared is scope.nodes else None)
            return
    known = (*BUILT_IN, *scope.enums)
    foreign = f"did you mean `{_FOREIGN[name]}`?" if name in _FOREIGN else None
    if foreign is not None:
        scope.error("S201", f"there is no type `{name}`", expr.span, foreign)
        return
    hint = "the built-in types are " + ", ".join(sorted(BUILT_IN))
    message = f"there is no type `{name}`"
    scope.unknown("S201", message, expr.span, word=name, known=known, hint=hint)


def _check_dimension(expr: VectorType, scope: SchemaScope) -> bool:
    if expr.dim == 0:
        scope.error("S203", "a vector has at least one element", expr.span)
        return False
    if expr.dim > VECTOR_DIM_MAX:
        message = f"a vector has at most {VECTOR_DIM_MAX} elements, this one has {expr.dim}"
        scope.error("S204", message, expr.span)
        return False
    return True


def enum_values(values: tuple[Name, ...], span: Span, scope: SchemaScope) -> tuple[str, ...]:
    """The sorted values of an enum; empty after a reported mistake."""
    if not values:
        scope.error("S205", "an enum needs at least one value", span)
    seen: set[str] = set()
    for value in values:
        if value.text in seen:
            scope.error("S206", f"the value `{value.text}` is there already", value.span)
        seen.add(value.text)
    return tuple(sorted(seen))
