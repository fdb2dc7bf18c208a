"""The syntax tree of a `.pg` file: exactly what was written, nothing resolved.

Positions never take part in equality, so a tree can be compared with the one that its formatted
text gives. The checker resolves names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from omnigraph.lang.literal import Literal
from omnigraph.lang.source import NOWHERE, Name, Span
from omnigraph.lang.tokens import Comment

# -- types ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type given by its name: a built-in one, or a named enum."""

    name: str
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class VectorType:
    """`Vector(dim)`."""

    dim: int
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class InlineEnum:
    """`enum(a, b)`."""

    values: tuple[Name, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class ListType:
    """`[element]`; the grammar allows any element, the checker only some."""

    element: TypeExpr
    span: Span = field(default=NOWHERE, compare=False)


TypeExpr = TypeName | VectorType | InlineEnum | ListType


# -- annotations and constraints -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Annotation:
    """`@name`, `@name(args)` or `@name(args, key=value)`; a `Name` argument is a bare word."""

    name: str
    args: tuple[Literal | Name, ...] = ()
    kwargs: tuple[tuple[str, Literal], ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


ColumnRule = OneOf["key", "unique", "index"]


@dataclass(frozen=True, slots=True)
class ColumnConstraint:
    """`@key(a, b)`, `@unique(a, b)` or `@index(a, b)` in a body."""

    rule: ColumnRule
    columns: tuple[Name, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class RangeConstraint:
    """`@range(property, low..high)`; at least one bound is given."""

    property: Name
    low: int | float | None
    high: int | float | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """`@check(property, "pattern")`."""

    property: Name
    pattern: str
    pattern_span: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Card:
    """`@card(low..high)` or `@card(low..)` of an edge."""

    low: int
    high: int | None
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PropertyDecl:
    """`name: Type? @annotations`."""

    name: Name
    type: TypeExpr
    nullable: bool = False
    annotations: tuple[Annotation, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


Constraint = ColumnConstraint | RangeConstraint | CheckConstraint
Member = PropertyDecl | ColumnConstraint | RangeConstraint | CheckConstraint


# -- declarations ----------------------------------------------------------------------------------
# `head` runs to behind the opening brace and `span` over the whole declaration.


@dataclass(frozen=True, slots=True)
class EnumDecl:
    """`enum Name { a, b }`."""

    name: Name
    values: tuple[Name, ...]
    head: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class InterfaceDecl:
    """`interface Name { properties }`."""

    name: Name
    properties: tuple[PropertyDecl, ...] = ()
    head: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class NodeDecl:
    """`node Name @annotations implements A, B { members }`."""

    name: Name
    annotations: tuple[Annotation, ...] = ()
    implements: tuple[Name, ...] = ()
    members: tuple[Member, ...] = ()
    head: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class EdgeDecl:
    """`edge Name: Source -> Target @card(…) @annotations { members }`; the body is optional."""

    name: Name
    source: Name
    target: Name
    card: Card | None = None
    annotations: tuple[Annotation, ...] = ()
    members: tuple[Member, ...] = ()
    head: Span = field(default=NOWHERE, compare=False)
    span: Span = field(default=NOWHERE, compare=False)


Declaration = EnumDecl | InterfaceDecl | NodeDecl | EdgeDecl


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """All declarations of one source, with the text and the comments the formatter needs."""

    declarations: tuple[Declaration, ...] = ()
    comments: tuple[Comment, ...] = field(default=(), compare=False)
    text: str = field(default="", compare=False, repr=False)
