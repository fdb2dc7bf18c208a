"""`omnigraph export`: the data of a graph as files."""

from typing import Annotated

import typer

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Branch, Engine, Json, Quiet, Spark, Store, Types
from omnigraph.cli.plain import amount
from omnigraph.types import OutputFormat


@command(
    "omnigraph export --store people.omni > people.jsonl",
    "omnigraph export --store people.omni --out parts/ --format parquet",
    "omnigraph export --store people.omni --type Person --at 01J… --out people.jsonl",
)
def export(
    store: Store,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="TARGET",
            help="A file; a folder (name ending in /) for parallel parts; - for standard output.",
        ),
    ] = "-",
    types: Types = None,
    format: Annotated[
        OutputFormat | None,
        typer.Option("--format", "-f", help="How to spell it; else the suffix tells, or ndjson."),
    ] = None,
    branch: Branch = "main",
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="REVISION", help="As of this commit, tag or time, or as of main~3."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is there already.")
    ] = False,
    engine: Engine = "auto",
    spark: Spark = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> Status:
    """Write the data of a branch or commit to files that `load` reads back."""
    if as_json and out == "-":
        raise typer.BadParameter("standard output cannot take both the data and --json")
    with (
        og.open(store, "r", settings=settings()) as graph,
        render.progress(quiet=quiet or as_json) as listener,
    ):
        done = graph.export(
            out,
            format=format,
            types=types,
            branch=branch,
            at=at,
            overwrite=overwrite,
            engine=engine,
            spark=spark,
            progress=listener,
        )
    if as_json:
        render.out().json(
            {
                "graph_commit_id": done.commit,
                "files": [*done.files],
                "rows": dict(done.rows),
                "bytes": done.bytes,
                "engine": done.engine,
                "reason": done.reason,
            }
        )
        return Status.OK
    # The data itself may be on its way through standard output.
    screen = render.err() if out == "-" else render.out()
    total = sum(done.rows.values())
    screen.line(f"{total:,} entities, {amount(done.bytes)}, as of commit {done.commit}")
    return Status.OK
