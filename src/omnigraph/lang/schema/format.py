"""The canonical spelling of a `.pg` file.

Two spaces, one member per line in source order, one blank line between declarations. An enum
stays on one line while it fits. Every comment survives.
"""

from __future__ import annotations

from typing import assert_never

from omnigraph.lang.layout import Layout, commas
from omnigraph.lang.literal import Literal, LiteralKind, format_literal
from omnigraph.lang.schema.ast import (
    Annotation,
    Card,
    CheckConstraint,
    ColumnConstraint,
    Declaration,
    EdgeDecl,
    EnumDecl,
    InlineEnum,
    InterfaceDecl,
    ListType,
    Member,
    NodeDecl,
    PropertyDecl,
    RangeConstraint,
    SchemaFile,
    TypeExpr,
    TypeName,
    VectorType,
)
from omnigraph.lang.source import Name, Span
from omnigraph.lang.tokens import quote


def format_schema(file: SchemaFile) -> str:
    """The whole file; parsing the result gives the same tree."""
    page = Layout(file.text, file.comments)
    for declaration in file.declarations:
        page.blank()
        _declaration(page, declaration)
    return page.finish()


def _declaration(page: Layout, item: Declaration) -> None:
    match item:
        case EnumDecl():
            _enum(page, item)
        case InterfaceDecl():
            _block(page, f"interface {item.name.text}", item, item.properties)
        case NodeDecl():
            head = f"node {item.name.text}{_annotations(item.annotations)}"
            if item.implements:
                head += f" implements {commas(name.text for name in item.implements)}"
            _block(page, head, item, item.members)
        case EdgeDecl():
            head = f"edge {item.name.text}: {item.source.text} -> {item.target.text}"
            head += (f" {_card(item.card)}" if item.card else "") + _annotations(item.annotations)
            if item.members:
                _block(page, head, item, item.members)
            else:
                page.item(item.span, head)
        case _:
            assert_never(item)


def _enum(page: Layout, item: EnumDecl) -> None:
    inside = Span(item.head.end, item.span.end)
    values = commas(value.text for value in item.values)
    line = f"enum {item.name.text} {{ {values} }}" if values else f"enum {item.name.text} {{}}"
    if page.fits(line) and not page.holds_comment(inside):
        page.item(item.span, line)
        return
    page.open(item.head, f"enum {item.name.text} {{")
    for value in item.values:
        page.item(value.span, f"{value.text},")
    page.close(item.span.end)


def _block(
    page: Layout,
    head: str,
    item: InterfaceDecl | NodeDecl | EdgeDecl,
    members: tuple[Member, ...],
) -> None:
    if not members and not page.holds_comment(Span(item.head.end, item.span.end)):
        page.item(item.span, f"{head} {{}}")
        return
    page.open(item.head, f"{head} {{")
    for member in members:
        page.item(member.span, format_member(member))
    page.close(item.span.end)


def format_member(member: Member) -> str:
    """One line of a body."""
    match member:
        case PropertyDecl():
            mark = "?" if member.nullable else ""
            of_type = format_type(member.type)
            return f"{member.name.text}: {of_type}{mark}{_annotations(member.annotations)}"
        case ColumnConstraint():
            return f"@{member.rule}({commas(column.text for column in member.columns)})"
        case RangeConstraint():
            return f"@range({member.property.text}, {_bounds(member.low, member.high)})"
        case CheckConstraint():
            return f"@check({member.property.text}, {quote(member.pattern)})"
        case _:
            assert_never(member)


def format_type(of_type: TypeExpr) -> str:
    """A type without its `?`."""
    match of_type:
        case TypeName():
            return of_type.name
        case VectorType():
            return f"Vector({of_type.dim})"
        case InlineEnum():
            return f"enum({commas(value.text for value in of_type.values)})"
        case ListType():
            return f"[{format_type(of_type.element)}]"
        case _:
            assert_never(of_type)


def _card(card: Card) -> str:
    return f"@card({_bounds(card.low, card.high)})"


def _bounds(low: int | float | None, high: int | float | None) -> str:
    return f"{_number(low)}..{_number(high)}"


def _number(value: int | float | None) -> str:
    if value is None:
        return ""
    kind = LiteralKind.FLOAT if isinstance(value, float) else LiteralKind.INT
    return format_literal(Literal(kind, value))


def _annotations(annotations: tuple[Annotation, ...]) -> str:
    return "".join(f" {_annotation(item)}" for item in annotations)


def _annotation(item: Annotation) -> str:
    arguments = [arg.text if isinstance(arg, Name) else format_literal(arg) for arg in item.args]
    arguments += [f"{key}={format_literal(value)}" for key, value in item.kwargs]
    return f"@{item.name}({commas(arguments)})" if arguments else f"@{item.name}"
