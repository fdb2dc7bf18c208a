"""Source texts, positions in them, and diagnostics about them.

Owns positions (`Span`), sources (`Source`), diagnostics and their rendering, and the spelling
suggestions in hints. It never raises for bad user text by itself: parsers and checkers collect
`Diagnostic` values in a `Diagnostics` list, and `reject` turns that list into one `InvalidInput`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple
from unicodedata import east_asian_width

from omnigraph.errors import Code, InvalidInput, JsonValue

SOURCE_CHARS_MAX = 16 * 1024 * 1024
DIAGNOSTICS_MAX = 100
_CARET_LINE_CHARS_MAX = 200
_NEWLINE = re.compile("\r\n?|\n")
_SUGGESTION_CHARS_MAX = 80


class Span(NamedTuple):
    """A half-open range of character offsets."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.start, other.end)


NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier or an enum value, with its place in the text."""

    text: str
    span: Span = field(default=NOWHERE, compare=False)


class Severity(StrEnum):
    """The severity of a diagnostic; only errors stop a compilation."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about a source text. `code` is API, the message is not."""

    code: str
    message: str
    span: Span
    hint: str | None = None
    severity: Severity = Severity.ERROR


@dataclass(frozen=True)
class Source:
    """A named text with line arithmetic."""

    name: str
    text: str
    _line_starts: list[int] = field(default_factory=list, init=False, repr=False, compare=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        starts = self._line_starts
        if not starts:
            starts.append(0)
            starts.extend(match.end() for match in _NEWLINE.finditer(self.text))
        line = bisect_right(starts, min(offset, len(self.text)))
        return line, min(offset, len(self.text)) - starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, without its line end."""
        self.position(0)
        start = self._line_starts[number - 1]
        end = _NEWLINE.search(self.text, start)
        return self.text[start : len(self.text) if end is None else end.start()]


class Diagnostics:
    """The findings of one run over one source: bounded, in the order they were found."""

    __slots__ = ("_items", "_seen", "errors", "source", "suppressed")

    def __init__(self, source: Source) -> None:
        """Start an empty list for a source."""
        self.source = source
        self.errors = 0
        self.suppressed = 0
        self._items: list[Diagnostic] = []
        self._seen: set[tuple[str, Span]] = set()

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        """Record an error; a second one with the same code at the same place is dropped."""
        self.add(Diagnostic(code, message, span, hint))

    def add(self, item: Diagnostic) -> None:
        """Record a finding, up to the bound."""
        if (item.code, item.span) in self._seen:
            return
        self._seen.add((item.code, item.span))
        if item.severity is Severity.ERROR:
            self.errors += 1
        if len(self._items) >= DIAGNOSTICS_MAX:
            self.suppressed += 1
            return
        self._items.append(item)

    def sorted(self) -> tuple[Diagnostic, ...]:
        """All findings by position in the source."""
        return tuple(sorted(self._items, key=lambda item: (item.span, item.code)))

    def reject_if_errors(self, code: Code) -> None:
        """Raise one `InvalidInput` that carries every error found."""
        if self.errors:
            raise reject(self.source, self.sorted(), code, suppressed=self.suppressed)


def reject(
    source: Source, found: Sequence[Diagnostic], code: Code, *, suppressed: int = 0
) -> InvalidInput:
    """The exception for a rejected source; its text is the rendered report."""
    plain: list[JsonValue] = [as_json(source, item) for item in found]
    text = render(source, found)
    if suppressed:
        text += f"\n\n... and {suppressed} more"
    return InvalidInput(code, text, diagnostics=plain, suppressed=suppressed)


def as_json(source: Source, item: Diagnostic) -> dict[str, JsonValue]:
    """A diagnostic as plain values, with line and column."""
    line, column = source.position(item.span.start)
    end_line, end_column = source.position(item.span.end)
    return {
        "severity": str(item.severity),
        "code": item.code,
        "message": item.message,
        "hint": item.hint,
        "file": source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }


def render(source: Source, found: Iterable[Diagnostic]) -> str:
    """Every diagnostic as `file:line:col: severity[code]: message`, source line, caret, hint."""
    return "\n\n".join(_render_one(source, item) for item in found)


def _render_one(source: Source, item: Diagnostic) -> str:
    line, column = source.position(item.span.start)
    end_line, end_column = source.position(item.span.end)
    head = f"{source.name}:{line}:{column}: {item.severity}[{item.code}]: {item.message}"
    shown = source.line(line)
    # A very long line is cut around the caret: the report must stay readable for any input.
    cut = (
        max(0, column - 1 - _CARET_LINE_CHARS_MAX // 2) if len(shown) > _CARET_LINE_CHARS_MAX else 0
    )
    lead = "".join(_blank(char) for char in shown[cut : column - 1])
    width = (end_column if end_line == line else len(shown) + 1) - column
    visible = shown[cut : cut + _CARET_LINE_CHARS_MAX]
    width = max(1, min(width, cut + len(visible) - column + 1))
    gutter = f"{line:>5} | "
    parts = [head, gutter + visible, " " * 5 + " | " + lead + "^" * width]
    if item.hint:
        parts.append(f"      = hint: {item.hint}")
    return "\n".join(parts)


def _blank(char: str) -> str:
    """White space as wide as a character, so that carets stand below what they mean."""
    if char == "\t":
        return char
    return "  " if east_asian_width(char) in "WF" else " "


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint naming the closest known spelling, or None when nothing is close."""
    if len(word) > _SUGGESTION_CHARS_MAX:
        return None
    best: str | None = None
    # One edit turns any short name into any other, so those must agree but for case.
    best_distance = 1 if len(word) <= 2 else max(2, len(word) // 3 + 1)
    folded = word.lower()
    for candidate in sorted(known):
        if abs(len(candidate) - len(word)) >= best_distance:
            continue
        distance = _edit_distance(folded, candidate.lower(), best_distance)
        if distance < best_distance:
            best, best_distance = candidate, distance
    return f"did you mean `{best}`?" if best is not None else None


def _edit_distance(left: str, right: str, bound: int) -> int:
    """Optimal string alignment distance, or `bound` as soon as it cannot be smaller."""
    before: list[int] = []
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        previous, row, older = row, [i], before
        for j, b in enumerate(right, 1):
            cost = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        before = previous
        if min(row) >= bound:
            return bound
    return row[-1]
