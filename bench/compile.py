"""Group `compile`: the compiler, its cache, the formatter, and the start of the command line."""

import subprocess
import sys
from pathlib import Path

from bench import texts
from bench.measure import Case
from bench.peer import lark_parser
from omnigraph.lang import QueryCompiler, compile_queries, compile_schema
from omnigraph.lang.query.ast import QueryFile
from omnigraph.lang.query.format import format_queries
from omnigraph.lang.query.parse import SYNTAX, parse_queries
from omnigraph.lang.source import Diagnostics, Source
from omnigraph.lang.tokens import Tokens, lex

NO_PEER = "lark is not installed, so there is no peer to compare parsing with"


def cases() -> tuple[list[Case], list[str]]:
    """The cases of this group, and remarks about them."""
    peer = lark_parser(texts.TYPICAL)
    found = [*_queries(), *_large(), *_around()]
    if peer is None:
        return found, [NO_PEER]
    found.append(Case(name="query: parse only, by Lark (LALR)", call=peer, calls=200))
    return found, []


def _queries() -> list[Case]:
    catalog = compile_schema(texts.PEOPLE)
    compiler = QueryCompiler(catalog)
    size = len(texts.TYPICAL)
    return [
        Case(
            name="query: text to plan",
            call=lambda: compile_queries(texts.TYPICAL, catalog),
            calls=200,
            target_us=1_000,
            bytes_per_call=size,
        ),
        Case(
            name="query: text to plan, remembered",
            call=lambda: compiler.compile(texts.TYPICAL),
            calls=2_000,
            target_us=20,
        ),
        Case(
            name="query: parse only",
            call=lambda: _parse(texts.TYPICAL),
            calls=200,
            bytes_per_call=size,
        ),
        Case(
            name="query: tokens only (the floor)",
            call=lambda: _tokens(texts.TYPICAL),
            calls=500,
            bytes_per_call=size,
        ),
    ]


def _large() -> list[Case]:
    large = texts.large_schema()
    return [
        Case(
            name=f"schema: {texts.TYPES} types and edges to catalog",
            call=lambda: compile_schema(large),
            target_us=1_000_000,
            bytes_per_call=len(large),
        )
    ]


def _around() -> list[Case]:
    return [
        Case(
            name="format: the example queries",
            call=lambda: format_queries(_parse(texts.QUERIES)),
            calls=20,
            bytes_per_call=len(texts.QUERIES),
        ),
        Case(name="omnigraph --help, new process", call=_help, target_us=200_000),
    ]


def _parse(text: str) -> QueryFile:
    source = Source("bench", text)
    return parse_queries(source, Diagnostics(source))


def _tokens(text: str) -> Tokens:
    source = Source("bench", text)
    return lex(source, Diagnostics(source), SYNTAX)


def _help() -> None:
    command = Path(sys.executable).with_name("omnigraph")
    subprocess.run([command, "--help"], stdout=subprocess.DEVNULL, check=True)
