"""Canonical text with the comments put back: what both formatters write through.

A formatter emits items in source order, each with the span it came from. Comments that stood
before or inside an item become lines above it, a comment that followed on the same line stays
there, and one blank line between items survives. A tree made without source simply has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from omnigraph.lang.source import Span
from omnigraph.lang.tokens import Comment

INDENT = "  "
WIDTH = 88


class Layout:
    """The lines written so far and the comments still to be placed."""

    __slots__ = ("_comments", "_fresh", "_last_end", "_level", "_lines", "_next", "_text")

    def __init__(self, text: str = "", comments: Sequence[Comment] = ()) -> None:
        """Start an empty page for a source text and its comments."""
        self._text = text
        self._comments = comments
        self._next = 0
        self._lines: list[str] = []
        self._level = 0
        self._last_end = 0
        self._fresh = True

    def item(self, span: Span, text: str) -> None:
        """Write the line of the item at `span`, with its comments."""
        self._leading(span)
        self._gap(span.start)
        self._write(text)
        self._after(span.end)

    def open(self, span: Span, text: str) -> None:
        """Write the line that opens a block; `span` ends behind the opening brace."""
        self.item(span, text)
        self._level += 1
        self._fresh = True

    def close(self, end: int, text: str = "}") -> None:
        """Write the line that closes a block whose source ends at `end`."""
        self._leading(Span(end, end))
        self._level -= 1
        while self._lines and not self._lines[-1]:
            self._lines.pop()
        self._write(text)
        self._fresh = False
        self._after(end)

    def blank(self) -> None:
        """Ask for one blank line before what comes next, unless nothing came before."""
        if self._lines and self._lines[-1] and not self._fresh:
            self._lines.append("")

    def holds_comment(self, span: Span) -> bool:
        """True if a comment is still to be placed inside this span."""
        for index in range(self._next, len(self._comments)):
            start = self._comments[index].span.start
            if start >= span.start:
                return start < span.end
        return False

    def fits(self, text: str) -> bool:
        """True if this text fits on one line here."""
        return "\n" not in text and len(INDENT) * self._level + len(text) <= WIDTH

    def finish(self) -> str:
        """The whole page, with the comments that came after the last item."""
        self._leading(Span(len(self._text) + 1, len(self._text) + 1))
        while self._lines and not self._lines[-1]:
            self._lines.pop()
        return "\n".join(self._lines) + "\n" if self._lines else ""

    def _leading(self, span: Span) -> None:
        while self._next < len(self._comments):
            comment = self._comments[self._next]
            if comment.span.start >= span.end:
                return
            self._gap(min(comment.span.start, span.start))
            self._write(comment.text)
            self._last_end = max(self._last_end, comment.span.end)
            self._next += 1

    def _after(self, end: int) -> None:
        """Keep comments that followed the item on its own line."""
        while self._next < len(self._comments):
            comment = self._comments[self._next]
            between = self._text[end : comment.span.start]
            if comment.span.start < end or "\n" in between or between.strip(" \t\r,"):
                break
            self._lines[-1] += f"  {comment.text}"
            self._next += 1
            end = comment.span.end
        self._last_end = max(self._last_end, end)

    def _gap(self, start: int) -> None:
        if not self._fresh and self._text.count("\n", self._last_end, start) > 1:
            self.blank()

    def _write(self, text: str) -> None:
        # A block comment of several lines keeps its own inner indentation.
        self._lines.append(INDENT * self._level + text)
        self._fresh = False


def commas(items: Iterable[object]) -> str:
    """Items joined as in a list."""
    return ", ".join(str(item) for item in items)
