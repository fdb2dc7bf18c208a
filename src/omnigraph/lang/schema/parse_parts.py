"""The pieces inside a declaration: types, enum values, annotations and their arguments."""

from __future__ import annotations

from typing import Literal as OneOf

from omnigraph.lang.catalog.rules import ENUM_VALUE
from omnigraph.lang.cursor import TokenCursor
from omnigraph.lang.literal import Literal, at_literal, parse_literal
from omnigraph.lang.schema.ast import (
    Annotation,
    InlineEnum,
    ListType,
    TypeExpr,
    TypeName,
    VectorType,
)
from omnigraph.lang.source import Name, Span, did_you_mean
from omnigraph.lang.tokens import IDENT, STRING, TYPE
from omnigraph.lang.values import SCALARS

CONSTRAINTS = frozenset({"key", "unique", "index", "range", "check"})


def at_constraint(cursor: TokenCursor) -> bool:
    """True if a body constraint starts at this `@`. With parentheses the known five always do."""
    return cursor.word(1) in CONSTRAINTS and cursor.peek(2) == "("


# -- types -----------------------------------------------------------------------------------------


def parse_type(cursor: TokenCursor) -> TypeExpr:
    """A type without its `?`."""
    start = cursor.start()
    kind = cursor.peek()
    if kind == TYPE:
        word = cursor.take()
        if word == "Vector" and cursor.accept("("):
            dim = cursor.integer("the dimension of the vector")
            cursor.expect(")", "`)`")
            return VectorType(dim, cursor.since(start))
        return TypeName(word, cursor.since(start))
    if kind == "[":
        return _list_type(cursor)
    if kind == IDENT and cursor.word() == "enum" and cursor.peek(1) == "(":
        cursor.take()
        cursor.take()
        return InlineEnum(parse_enum_values(cursor, ")"), cursor.since(start))
    hint = None
    if kind == IDENT:
        hint = did_you_mean(cursor.word(), SCALARS) or "type names start with a capital letter"
    cursor.fail_expected("a type", hint)


def _list_type(cursor: TokenCursor) -> ListType:
    start = cursor.start()
    with cursor.nested():
        cursor.take()
        element = parse_type(cursor)
        if cursor.peek() == "?":
            message = "an element of a list is never null"
            hint = "a `?` behind the `]` makes the whole list nullable"
            cursor.found.error(cursor.code, message, cursor.here(), hint)
            cursor.take()
        cursor.expect("]", "`]`")
    return ListType(element, cursor.since(start))


def parse_enum_values(cursor: TokenCursor, closer: str) -> tuple[Name, ...]:
    """Values with commas between them, up to and with the closing bracket."""
    values: list[Name] = []
    while not cursor.accept(closer):
        values.append(_enum_value(cursor))
        if not cursor.accept(","):
            cursor.expect(closer, f"`,` or `{closer}`")
            break
    return tuple(values)


def _enum_value(cursor: TokenCursor) -> Name:
    """One value. The lexer cuts `in-progress` and `2fa` into pieces, so look at the text."""
    start = cursor.start()
    match = ENUM_VALUE.match(cursor.source.text, start)
    if match is None:
        hint = "values are written without quotes" if cursor.peek() == STRING else None
        cursor.fail_expected("an enum value", hint)
    end = match.end()
    while cursor.starts[cursor.pos] < end:
        cursor.pos += 1
    if cursor.since(start).end != end:
        message = "an enum value has letters, digits, `_` and `-` only"
        cursor.fail(message, cursor.since(start))
    return Name(match[0], Span(start, end))


# -- annotations -----------------------------------------------------------------------------------

Owner = OneOf["node", "edge", "property"]


def parse_annotations(cursor: TokenCursor, *, owner: Owner) -> tuple[Annotation, ...]:
    """All annotations from here on; a body constraint, or the `@card` of an edge, ends them."""
    if cursor.peek() != "@":
        return ()
    parsed: list[Annotation] = []
    while cursor.peek() == "@":
        if owner == "property":
            if at_constraint(cursor):
                break
        elif cursor.word(1) in ("range", "check") and cursor.peek(2) == "(":
            _misplaced(cursor, "is a constraint of a body", "move it between the braces")
            continue
        if cursor.at_word("card", 1):
            if owner == "edge":
                break
            _misplaced(cursor, "belongs to an edge type", None)
            continue
        parsed.append(_annotation(cursor))
    return tuple(parsed)


def _misplaced(cursor: TokenCursor, complaint: str, hint: str | None) -> None:
    start = cursor.start()
    cursor.take()
    word = cursor.take()
    if cursor.peek() == "(":
        cursor.skip_balanced()
    cursor.found.error(cursor.code, f"`@{word}` {complaint}", cursor.since(start), hint)


def _annotation(cursor: TokenCursor) -> Annotation:
    start = cursor.start()
    cursor.take()
    name = cursor.expect(IDENT, "the name of an annotation after `@`")
    if not cursor.accept("("):
        return Annotation(name, (), (), cursor.since(start))
    args: list[Literal | Name] = []
    kwargs: dict[str, Literal] = {}
    while True:
        if cursor.peek() == IDENT and cursor.peek(1) == "=":
            _keyword_argument(cursor, kwargs)
        elif kwargs:
            cursor.fail("an argument without a name cannot follow one with a name")
        else:
            args.append(_argument(cursor, name))
        if not cursor.accept(","):
            break
    cursor.expect(")", "`,` or `)`")
    return Annotation(name, tuple(args), tuple(kwargs.items()), cursor.since(start))


def _argument(cursor: TokenCursor, annotation: str) -> Literal | Name:
    if at_literal(cursor):
        return parse_literal(cursor)
    if cursor.peek() in (IDENT, TYPE):
        span = cursor.here()
        return Name(cursor.take(), span)
    hint = None
    if cursor.peek() == ")":
        hint = f"leave the parentheses out: `@{annotation}`"
    cursor.fail_expected("a literal or a name", hint)


def _keyword_argument(cursor: TokenCursor, kwargs: dict[str, Literal]) -> None:
    span = cursor.here()
    key = cursor.take()
    cursor.take()
    if not at_literal(cursor):
        cursor.fail_expected("a literal", "text is written in double quotes")
    value = parse_literal(cursor)
    if key in kwargs:
        cursor.found.error(cursor.code, f"`{key}` is given twice", span)
        return
    kwargs[key] = value
