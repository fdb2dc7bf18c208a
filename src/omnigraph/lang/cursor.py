"""A cursor over tokens: looks ahead, takes them, records diagnostics, resumes after an error.

Both parsers are recursive descent over this cursor. A broken item raises `Bail`, which the
enclosing block catches; the block then skips to the next place where an item can start, so one
run reports every independent mistake of a file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from omnigraph.lang.source import Diagnostics, Source, Span
from omnigraph.lang.tokens import EOF, FLOAT, IDENT, INT, STRING, Comment, lex, unquote

DEPTH_MAX = 64
_INT_DIGITS_MAX = 20

_OPENERS = frozenset("{([")
_CLOSERS = frozenset("})]")


class Bail(Exception):
    """The current item cannot be parsed; its diagnostic is already recorded."""


class TokenCursor:
    """A position in the tokens of one source, and the diagnostics found so far."""

    __slots__ = ("code", "comments", "depth", "found", "kinds", "pos", "source", "starts", "texts")

    def __init__(self, source: Source, found: Diagnostics, code: str) -> None:
        """Lex the source; `code` is the diagnostic code of syntax errors in this language."""
        tokens = lex(source, found, code)
        self.source = source
        self.found = found
        self.code = code
        self.kinds = tokens.kinds
        self.texts = tokens.texts
        self.starts = tokens.starts
        self.comments: tuple[Comment, ...] = tokens.comments
        self.pos = 0
        self.depth = 0

    # -- looking ---------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> str:
        """The kind of the token `ahead` places on (punctuation: its text)."""
        index = self.pos + ahead
        return self.kinds[index] if index < len(self.kinds) else EOF

    def word(self, ahead: int = 0) -> str:
        """The text of the token `ahead` places on."""
        index = self.pos + ahead
        return self.texts[index] if index < len(self.texts) else ""

    def at_word(self, word: str, ahead: int = 0) -> bool:
        """True if the token there is this keyword."""
        index = self.pos + ahead
        return index < len(self.kinds) and self.texts[index] == word and self.kinds[index] == IDENT

    def here(self) -> Span:
        """The span of the current token."""
        start = self.starts[self.pos]
        return Span(start, start + len(self.texts[self.pos]))

    def start(self) -> int:
        """The offset where the current token starts."""
        return self.starts[self.pos]

    def since(self, start: int) -> Span:
        """The span from `start` to the end of the last token taken."""
        if self.pos == 0:
            return Span(start, start)
        last = self.pos - 1
        return Span(start, max(start, self.starts[last] + len(self.texts[last])))

    # -- taking ----------------------------------------------------------------------------

    def take(self) -> str:
        """Take the current token whatever it is; the end stays the end."""
        word = self.texts[self.pos]
        if self.kinds[self.pos] != EOF:
            self.pos += 1
        return word

    def accept(self, kind: str) -> bool:
        """Take the current token if it is of this kind."""
        if self.kinds[self.pos] == kind:
            self.pos += 1
            return True
        return False

    def accept_word(self, word: str) -> bool:
        """Take the current token if it is this keyword."""
        if self.texts[self.pos] == word and self.kinds[self.pos] == IDENT:
            self.pos += 1
            return True
        return False

    def expect(self, kind: str, what: str, hint: str | None = None) -> str:
        """Take a token of this kind, or complain that `what` was expected."""
        if self.kinds[self.pos] != kind:
            self.fail_expected(what, hint)
        self.pos += 1
        return self.texts[self.pos - 1]

    def expect_word(self, word: str, hint: str | None = None) -> None:
        """Take this keyword, or complain."""
        if not self.accept_word(word):
            self.fail_expected(f"`{word}`", hint)

    def string(self) -> str:
        """Take a string token and give its value."""
        if self.kinds[self.pos] != STRING:
            self.fail_expected("a string in double quotes")
        word, start = self.texts[self.pos], self.starts[self.pos]
        self.pos += 1
        return unquote(word, start, self.found, self.code)

    def integer(self, what: str = "an integer") -> int:
        """Take an unsigned integer token."""
        if self.kinds[self.pos] != INT:
            self.fail_expected(what)
        self.pos += 1
        return self._int_value(self.pos - 1)

    def number(self, *, signed: bool) -> int | float:
        """Take an integer or a finite float, with a leading minus when `signed`."""
        start = self.starts[self.pos]
        negative = signed and self.accept("-")
        kind = self.kinds[self.pos]
        value: int | float
        if kind == INT:
            value = self._int_value(self.pos)
        elif kind == FLOAT:
            value = float(self.texts[self.pos])
        else:
            self.fail_expected("a number")
        self.pos += 1
        if not math.isfinite(value):
            self.found.error(self.code, "this number is out of range", self.since(start))
            value = 0.0
        return -value if negative else value

    def _int_value(self, index: int) -> int:
        word = self.texts[index]
        digits = word.lstrip("0") or "0"
        if len(digits) > _INT_DIGITS_MAX:
            start = self.starts[index]
            message = "this integer is out of range"
            self.found.error(self.code, message, Span(start, start + len(word)))
            return 0
        return int(digits)

    # -- complaining and carrying on -------------------------------------------------------

    def fail(self, message: str, span: Span | None = None, hint: str | None = None) -> NoReturn:
        """Record a syntax error and give up the current item."""
        self.found.error(self.code, message, self.here() if span is None else span, hint)
        raise Bail

    def fail_expected(self, what: str, hint: str | None = None) -> NoReturn:
        """Record that something else was expected here, and give up the current item."""
        got = "the end of the text" if self.kinds[self.pos] == EOF else f"`{self.word()}`"
        self.fail(f"expected {what}, found {got}", hint=hint)

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Guard one level of nesting, so that no input can exhaust the stack."""
        if self.depth >= DEPTH_MAX:
            self.fail(f"nesting is deeper than {DEPTH_MAX} levels")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def skip_balanced(self) -> None:
        """Take one token, or a whole bracketed group if it opens one."""
        level = 0
        while self.kinds[self.pos] != EOF:
            kind = self.kinds[self.pos]
            self.pos += 1
            if kind in _OPENERS:
                level += 1
            elif kind in _CLOSERS:
                level -= 1
            if level <= 0:
                return
