"""What the query language makes of a case. The schema of all of them is `cases/query/schema.pg`."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path

from omnigraph.errors import InvalidInput
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.explain import explain
from omnigraph.lang.query.ast import QueryFile
from omnigraph.lang.query.format import format_queries
from omnigraph.lang.query.parse import parse_queries
from omnigraph.lang.source import Diagnostics, Source
from tests.corpus.harness import kind

NAME = "case.gq"


@cache
def catalog(folder: Path) -> Catalog:
    """The catalog of the schema that lies above the folder of a kind."""
    return compile_schema((folder.parent / "schema.pg").read_text(encoding="utf-8"), "schema.pg")


@kind("query/accept")
def accept(text: str, folder: Path) -> str:
    """The plans; on the way, everything that must hold for any plan."""
    try:
        plans = compile_queries(text, catalog(folder), NAME)
    except InvalidInput as error:
        return f"REJECTED\n{error}"
    assert pickle.loads(pickle.dumps(plans)) == plans
    assert hash(compile_queries(text, catalog(folder))) == hash(plans)
    assert compile_queries(format_queries(_parse(text)), catalog(folder)) == plans
    return "\n".join(explain(plan) for plan in plans) or "no plans\n"


@kind("query/reject")
def reject(text: str, folder: Path) -> str:
    """The report of everything that is wrong."""
    try:
        compile_queries(text, catalog(folder), NAME)
    except InvalidInput as error:
        return f"{error.code}\n{error}"
    return "ACCEPTED"


@kind("query/format")
def reformat(text: str, _folder: Path) -> str:
    """The canonical spelling, which must keep tree and comments and be stable."""
    before = _parse(text)
    formatted = format_queries(before)
    after = _parse(formatted)
    assert format_queries(after) == formatted
    assert before == after
    kept = [comment.text for comment in before.comments]
    assert [comment.text for comment in after.comments] == kept
    return formatted


def _parse(text: str) -> QueryFile:
    source = Source(NAME, text)
    found = Diagnostics(source)
    file = parse_queries(source, found)
    assert not found.errors, found.sorted()
    return file
