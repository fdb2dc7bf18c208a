"""Programs of the corpus and the catalog they are written for, as material for property tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import tests.corpus.kinds  # noqa: F401 - registers all kinds
from omnigraph.lang.query.ast import QueryFile
from omnigraph.lang.query.parse import parse_queries
from omnigraph.lang.source import Diagnostics, Source
from omnigraph.lang.tokens import EOF, Comment, lex
from tests.corpus.harness import CASES, cases
from tests.corpus.kinds_query import catalog

TraceFunction = Callable[[FrameType, str, Any], Any]

CATALOG = catalog(CASES / "query" / "accept")
VALID = sorted({case.text for case in cases("query/accept") + cases("query/format")})
ALL = sorted({case.text for case in cases("query/")})


def parse(text: str) -> QueryFile:
    """The tree of a text that must parse."""
    source = Source("<test>", text)
    found = Diagnostics(source)
    file = parse_queries(source, found)
    assert found.sorted() == ()
    return file


def tokens(text: str) -> list[str]:
    """The tokens of a text, without comments."""
    source = Source("<test>", text)
    found = lex(source, Diagnostics(source), "Q000")
    return [
        word for kind, word in zip(found.kinds, found.texts, strict=True) if kind not in (EOF, "")
    ]


def comments(text: str) -> list[Comment]:
    """The comments of a text."""
    source = Source("<test>", text)
    return list(lex(source, Diagnostics(source), "Q000").comments)


def steps(work: Callable[[], object]) -> int:
    """How many lines of the compiler some work runs: a measure that no machine changes."""
    count = 0

    def line(_frame: FrameType, event: str, _arg: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return line

    def call(frame: FrameType, _event: str, _arg: object) -> TraceFunction | None:
        return line if "omnigraph/lang" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
