"""`omnigraph export`: writes the data of a graph to files."""

import sys
from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Engine, Json, Spark, Types
from omnigraph.cli.parameters import Option, UsageError
from omnigraph.cli.plain import amount, counted
from omnigraph.cli.targets import Target
from omnigraph.types import OutputFormat


@command(
    "omnigraph export people.omni > people.jsonl",
    "omnigraph export people.omni@draft --out parts/ --format parquet",
    "omnigraph export people.omni --type Person --at 01J… --out people.jsonl",
    branch=True,
)
def export(
    target: Target,
    out: Annotated[
        str,
        Option(
            "--out",
            "-o",
            metavar="TARGET",
            help="A file; a folder (name ending in /) for parallel parts; - for standard output.",
        ),
    ] = "-",
    types: Types = None,
    format: Annotated[
        OutputFormat | None,
        Option("--format", "-f", help="How to spell it; else the suffix tells, or ndjson."),
    ] = None,
    at: At = None,
    overwrite: Annotated[
        bool, Option("--overwrite", help="Replace what is there already.")
    ] = False,
    engine: Engine = "auto",
    spark: Spark = None,
    as_json: Json = False,
) -> Status:
    """Write the data of a branch or commit to files that `load` reads back."""
    if as_json and out == "-":
        raise UsageError("standard output cannot take both the data and --json")
    is_remote = target.address.is_remote
    is_shown = out == "-" and sys.stdout.isatty()  # a bar would stand between its lines
    with (
        target.open("r") as graph,
        render.progress(quiet=target.is_quiet or as_json or is_shown) as listener,
    ):
        done = graph.export(
            sys.stdout.buffer if is_remote and out == "-" else out,
            format=format,
            types=types,
            branch=target.on,
            at=at,
            overwrite=overwrite,
            engine=engine,
            spark=spark,
            progress=listener,
            hold=not is_remote,
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
    if not target.is_quiet:
        total = sum(done.rows.values())
        found = counted(total, "entity", "entities")
        screen.line(f"{found}, {amount(done.bytes)}, as of commit {done.commit}")
    return Status.OK
