"""`omnigraph query`: the answer of a reading query."""

from typing import Annotated

import typer

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Branch, Json, Store
from omnigraph.cli.queries import (
    Parameters,
    QueryFile,
    QueryName,
    QueryText,
    parameters,
    query_text,
)
from omnigraph.cli.results import Format, show_rows


@command(
    "omnigraph query --store people.omni --query people.gq friends -p name=Ada",
    "omnigraph query --store people.omni -e 'query q() { match { $p: Person } return { $p } }'",
    "omnigraph query --store people.omni --query people.gq friends -p name=Ada --format csv",
)
def query(
    store: Store,
    name: QueryName = None,
    file: QueryFile = None,
    text: QueryText = None,
    param: Parameters = None,
    branch: Branch = "main",
    at: At = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="Give up after so long.")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", "-f", help="How to print the rows.")
    ] = "table",
    as_json: Json = False,
) -> Status:
    """Run a reading query, and print its rows."""
    chosen = settings()
    queries, values = query_text(file, text, chosen), parameters(param)
    with og.open(store, "r", settings=chosen) as graph:
        rows = graph.query(queries, values, name=name, branch=branch, at=at, timeout=timeout)
        show_rows(render.out(), rows.columns, rows, "json" if as_json else form)
    return Status.OK
