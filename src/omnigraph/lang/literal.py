"""Literals: one syntax tree node, parser and printer for both languages."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.lang.cursor import TokenCursor
from omnigraph.lang.source import NOWHERE, Span
from omnigraph.lang.tokens import FLOAT, IDENT, INT, STRING, quote
from omnigraph.lang.values import format_date, format_datetime, parse_date, parse_datetime


class LiteralKind(StrEnum):
    """The kind of a literal as written, before any type is expected of it."""

    STRING = "string"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    NULL = "null"
    DATE = "date"
    DATETIME = "datetime"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. Dates are day numbers, date-times milliseconds, lists have `items`."""

    kind: LiteralKind
    value: str | int | float | bool | None = None
    items: tuple[Literal, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        """The literal as source text."""
        return format_literal(self)


_WORDS: dict[str, tuple[LiteralKind, bool | None]] = {
    "true": (LiteralKind.BOOL, True),
    "false": (LiteralKind.BOOL, False),
    "null": (LiteralKind.NULL, None),
}


def at_literal(cursor: TokenCursor) -> bool:
    """True if a literal can start at the current token."""
    kind = cursor.peek()
    if kind == IDENT:
        word = cursor.word()
        return word in _WORDS or (word in ("date", "datetime") and cursor.peek(1) == "(")
    return kind in (STRING, INT, FLOAT, "-", "[")


def parse_literal(cursor: TokenCursor) -> Literal:
    """Parse one literal, or bail."""
    start = cursor.start()
    kind = cursor.peek()
    if kind == STRING:
        return Literal(LiteralKind.STRING, cursor.string(), (), cursor.since(start))
    if kind in (INT, FLOAT, "-"):
        value = cursor.number(signed=True)
        number = LiteralKind.FLOAT if isinstance(value, float) else LiteralKind.INT
        return Literal(number, value, (), cursor.since(start))
    if kind == "[":
        return _parse_list(cursor)
    word = cursor.word()
    if kind == IDENT and word in _WORDS:
        cursor.take()
        known, constant = _WORDS[word]
        return Literal(known, constant, (), cursor.since(start))
    if kind == IDENT and word in ("date", "datetime") and cursor.peek(1) == "(":
        return _parse_temporal(cursor, word)
    cursor.fail_expected("a literal")


def _parse_list(cursor: TokenCursor) -> Literal:
    start = cursor.start()
    items: list[Literal] = []
    with cursor.nested():
        cursor.expect("[", "`[`")
        while not cursor.accept("]"):
            items.append(parse_literal(cursor))
            if not cursor.accept(","):
                cursor.expect("]", "`,` or `]`")
                break
    return Literal(LiteralKind.LIST, None, tuple(items), cursor.since(start))


def _parse_temporal(cursor: TokenCursor, word: str) -> Literal:
    start = cursor.start()
    cursor.take()
    cursor.expect("(", "`(`")
    at = cursor.here()
    text = cursor.string()
    cursor.expect(")", "`)`")
    kind = LiteralKind.DATE if word == "date" else LiteralKind.DATETIME
    value = parse_date(text) if kind is LiteralKind.DATE else parse_datetime(text)
    if value is None:
        form = "2024-03-31" if kind is LiteralKind.DATE else "2024-03-31T12:00:00Z"
        message = f"{text[:40]!r} is not a {'date' if word == 'date' else 'date-time'}"
        cursor.found.error(cursor.code, message, at, f'write it like `{word}("{form}")`')
        value = 0
    return Literal(kind, value, (), cursor.since(start))


def format_literal(literal: Literal) -> str:
    """The canonical source text of a literal; parsing it gives the literal back."""
    match literal.kind, literal.value:
        case LiteralKind.STRING, str(text):
            return quote(text)
        case LiteralKind.BOOL, bool(truth):
            return "true" if truth else "false"
        case LiteralKind.DATE, int(days):
            return f'date("{format_date(days)}")'
        case LiteralKind.DATETIME, int(millis):
            return f'datetime("{format_datetime(millis)}")'
        case LiteralKind.FLOAT, float(number):
            return repr(number)
        case LiteralKind.INT, int(number):
            return str(number)
        case LiteralKind.LIST, _:
            return f"[{', '.join(format_literal(item) for item in literal.items)}]"
        case _:
            return "null"
