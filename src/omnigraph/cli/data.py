"""The commands that make graphs, fill them and empty them into files: their words only."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.exits import reporting

DATA = "Graphs and data"


class Mode(StrEnum):
    """What a load does with entities that exist."""

    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"


class EngineName(StrEnum):
    """What bulk work runs on."""

    AUTO = "auto"
    INPROCESS = "inprocess"
    SPARK = "spark"


class InputFormat(StrEnum):
    """How data files are spelled."""

    NDJSON = "ndjson"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    ARROW = "arrow"


class OutputFormat(StrEnum):
    """How exported files are spelled."""

    NDJSON = "ndjson"
    ARROW = "arrow"
    PARQUET = "parquet"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Store = Annotated[
    str, typer.Option("--store", metavar="GRAPH", help="The graph: a folder or s3://bucket/prefix.")
]
Branch = Annotated[str, typer.Option("--branch", "-b", metavar="NAME", help="Which branch.")]
Actor = Annotated[
    str | None, typer.Option("--actor", metavar="NAME", help="Who does it, for the history.")
]
Engine = Annotated[
    EngineName,
    typer.Option("--engine", help="What the work runs on; auto chooses by the size of the data."),
]
Spark = Annotated[
    str | None,
    typer.Option(
        "--spark", metavar="MASTER", help="A Spark master, such as local[4] or sc://host:15002."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Draw no progress.")]


def init(
    store: Annotated[str, typer.Argument(metavar="GRAPH", help="A folder or s3://bucket/prefix.")],
    schema: Annotated[
        Path, typer.Option("--schema", "-s", metavar="FILE", help="The schema, a .pg file.")
    ],
    as_json: Json = False,
) -> None:
    """Make a new graph."""
    with reporting(as_json=as_json):
        from omnigraph.cli.commands.init import perform

        raise typer.Exit(perform(store, schema, as_json=as_json))


def load(
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            "-d",
            metavar="SOURCE",
            help="A file, folder, pattern or s3:// address; - for standard input; TYPE=SOURCE "
            "for files of one type. May be repeated.",
        ),
    ],
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode", "-m", help="append refuses what exists, merge updates it, overwrite replaces."
        ),
    ],
    store: Store,
    branch: Branch = "main",
    create_from: Annotated[
        str | None,
        typer.Option(
            "--create-from",
            metavar="NAME",
            help="Make the branch from this one, in the same commit.",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With merge: whole rows, not only the named fields.")
    ] = False,
    cascade: Annotated[
        bool,
        typer.Option("--cascade", help="With overwrite: drop edges whose nodes are gone."),
    ] = False,
    format: Annotated[
        InputFormat | None,
        typer.Option("--format", "-f", help="How the data is spelled; else its suffix tells."),
    ] = None,
    engine: Engine = EngineName.AUTO,
    spark: Spark = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="TEXT", help="Repeating it loads once."),
    ] = None,
    actor: Actor = None,
    violations: Annotated[
        Path | None,
        typer.Option(
            "--violations", metavar="FILE", help="Write all broken rules here, as NDJSON."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Load data: all of it in one commit, or nothing.

    NDJSON holds nodes and edges, one per line: {"type": "Person", "data": {...}} and
    {"edge": "Knows", "from": "a", "to": "b", "data": {...}}. Parquet, CSV and Arrow files hold one
    type each. Everything that breaks a rule is reported with its file and line.
    """
    with reporting(as_json=as_json):
        from omnigraph.cli.commands.load import Options, perform

        options = Options(
            data=tuple(data),
            mode=mode.value,
            branch=branch,
            create_from=create_from,
            replace=replace,
            cascade=cascade,
            format=None if format is None else format.value,
            engine=engine.value,
            spark=spark,
            idempotency_key=idempotency_key,
            actor=actor,
            violations=violations,
        )
        raise typer.Exit(perform(store, options, quiet=quiet, as_json=as_json))


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
    types: Annotated[
        list[str] | None,
        typer.Option("--type", "-t", metavar="NAME", help="Only this type; may be repeated."),
    ] = None,
    format: Annotated[
        OutputFormat | None,
        typer.Option("--format", "-f", help="How to spell it; else the suffix tells, or ndjson."),
    ] = None,
    branch: Branch = "main",
    at: Annotated[
        str | None, typer.Option("--at", metavar="COMMIT", help="As of this commit.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what is there already.")
    ] = False,
    engine: Engine = EngineName.AUTO,
    spark: Spark = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the data of a branch or commit to files that `load` reads back."""
    if as_json and out == "-":
        raise typer.BadParameter("standard output cannot take both the data and --json")
    with reporting(as_json=as_json):
        from omnigraph.cli.commands.export import Options, perform

        options = Options(
            out=out,
            types=None if types is None else tuple(types),
            format=None if format is None else format.value,
            branch=branch,
            at=at,
            overwrite=overwrite,
            engine=engine.value,
            spark=spark,
        )
        raise typer.Exit(perform(store, options, quiet=quiet, as_json=as_json))


def recover(store: Store, as_json: Json = False) -> None:
    """Settle writes that stopped half-way, and say what was found.

    Opening a graph and writing to it do the same for what stands in their way. This looks at every
    table, and explains. Ends with 1 if something is left that needs a person.
    """
    with reporting(as_json=as_json):
        from omnigraph.cli.commands.recover import perform

        raise typer.Exit(perform(store, as_json=as_json))


def optimize(
    store: Store,
    branch: Branch = "main",
    engine: Engine = EngineName.AUTO,
    spark: Spark = None,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compact tables and bring indexes up to date; answers stay the same."""
    with reporting(as_json=as_json):
        from omnigraph.cli.commands.optimize import perform

        raise typer.Exit(
            perform(
                store,
                branch=branch,
                engine=engine.value,
                spark=spark,
                actor=actor,
                quiet=quiet,
                as_json=as_json,
            )
        )


def embed(
    store: Store,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", "-t", metavar="NAME", help="Only this type; may be repeated."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Compute every vector anew, not only those missing.")
    ] = False,
    batch: Annotated[
        int | None,
        typer.Option("--batch", metavar="N", min=1, help="How many entities one commit changes."),
    ] = None,
    branch: Branch = "main",
    engine: Engine = EngineName.AUTO,
    spark: Spark = None,
    actor: Actor = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compute vectors that are missing from their texts; an interrupted call can be repeated."""
    with reporting(as_json=as_json):
        from omnigraph.cli.commands.embed import Options, perform

        options = Options(
            types=None if types is None else tuple(types),
            missing=not everything,
            branch=branch,
            batch=batch,
            engine=engine.value,
            spark=spark,
            actor=actor,
        )
        raise typer.Exit(perform(store, options, quiet=quiet, as_json=as_json))
