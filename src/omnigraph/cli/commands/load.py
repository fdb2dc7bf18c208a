"""`omnigraph load`: data into a graph, and what was wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status, show
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Actor, Branch, Engine, Json, Quiet, Spark, Store
from omnigraph.cli.plain import Screen, counted
from omnigraph.errors import ConstraintViolated, JsonValue
from omnigraph.types import InputFormat, LoadMode

_VIOLATIONS_SHOWN_MAX: Final = 20

Data = Annotated[
    list[str],
    typer.Option(
        "--data",
        "-d",
        metavar="SOURCE",
        help="A file, folder, pattern or s3:// address; - for standard input; TYPE=SOURCE "
        "for files of one type. May be repeated.",
    ),
]


@command(
    "omnigraph load --data people.jsonl --mode append --store people.omni",
    "omnigraph load -d Person=people.csv -d Knows=knows.parquet -m merge --store g.omni",
    "omnigraph load -d 'new/*.gz' -m merge -b review --create-from main --store g.omni",
    "zcat dump.gz | omnigraph load -d - -m append --store people.omni",
)
def load(
    data: Data,
    mode: Annotated[
        LoadMode,
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
    engine: Engine = "auto",
    spark: Spark = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="TEXT", help="Repeating it loads once."),
    ] = None,
    actor: Actor = None,
    message: Annotated[
        str | None, typer.Option("--message", metavar="TEXT", help="A note for the history.")
    ] = None,
    violations: Annotated[
        Path | None,
        typer.Option(
            "--violations", metavar="FILE", help="Write all broken rules here, as NDJSON."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> Status:
    """Load data: all of it in one commit, or nothing.

    NDJSON holds nodes and edges, one per line: {"type": "Person", "data": {...}} and
    {"edge": "Knows", "from": "a", "to": "b", "data": {...}}. Parquet, CSV and Arrow files hold one
    type each. Everything that breaks a rule is reported with its file and line.
    """
    # Arrow is imported after the arguments are understood.
    from omnigraph.dataplane.run.memory import take_small_pages

    take_small_pages()
    with og.open(store, settings=settings()) as graph:
        try:
            with render.progress(quiet=quiet or as_json) as listener:
                done = graph.load(
                    sources(data),
                    mode=mode,
                    branch=branch,
                    create_from=create_from,
                    replace=replace,
                    cascade=cascade,
                    format=format,
                    engine=engine,
                    spark=spark,
                    idempotency_key=idempotency_key,
                    actor=actor,
                    message=message,
                    violations_file=violations,
                    progress=listener,
                )
        except ConstraintViolated as error:
            if as_json:
                raise
            show(error)
            _print_violations(render.err(), error, violations)
            return Status.FAILED
    if as_json:
        render.out().json(as_document(done))
    else:
        _print(render.out(), done)
    return Status.OK


def sources(data: Sequence[str]) -> object:
    """The data as the library takes it: a list of places, or places by type."""
    typed: dict[str, list[str]] = {}
    plain: list[str] = []
    for text in data:
        name, separator, place = text.partition("=")
        # A path may contain the sign; the name of a type has no slash and no dot.
        if separator and name.replace("_", "").replace(":", "").isalnum():
            typed.setdefault(name, []).append(place)
        else:
            plain.append(text)
    if typed and plain:
        return [*plain, typed]
    return typed or plain


def as_document(done: og.LoadResult) -> JsonValue:
    """The result in plain values, under the names of the wire."""

    def listed(kind: str) -> list[JsonValue]:
        return [
            {
                "name": key.removeprefix(f"{kind}:"),
                "entities_loaded": counts.inserted + counts.updated,
                "inserted": counts.inserted,
                "updated": counts.updated,
                "deleted": counts.deleted,
            }
            for key, counts in done.counts.items()
            if key.startswith(f"{kind}:")
        ]

    return {
        "graph_commit_id": done.commit.id,
        "branch": done.commit.branch,
        "branch_created": done.branch_created,
        "mode": done.mode,
        "nodes": listed("node"),
        "edges": listed("edge"),
        "total_entities": sum(c.inserted + c.updated for c in done.counts.values()),
        "actor_id": done.commit.actor,
        "engine": done.engine,
        "reason": done.reason,
        "replayed": done.replayed,
        "warnings": warnings_document(done.warnings),
        "vectors_missing": done.vectors_missing,
    }


def _print(screen: Screen, done: og.LoadResult) -> None:
    if done.counts:
        rows = [
            (key, f"{counts.inserted:,}", f"{counts.updated:,}", f"{counts.deleted:,}")
            for key, counts in done.counts.items()
        ]
        screen.table(("type", "inserted", "updated", "deleted"), rows)
        screen.line()
    made = " (new branch)" if done.branch_created else ""
    again = ", done by an earlier call" if done.replayed else ""
    screen.line(f"commit {done.commit.id} on {done.commit.branch}{made}{again}")
    screen.line(f"{done.engine}: {done.reason}; {done.rows:,} rows in {done.seconds:.2f} s")
    print_warnings(done.warnings)


def warnings_document(warnings: Sequence[og.ResultWarning]) -> list[JsonValue]:
    """Warnings in plain values."""
    return [{"code": item.code, "message": item.message, "count": item.count} for item in warnings]


def print_warnings(warnings: Sequence[og.ResultWarning]) -> None:
    """Tell warnings beside the result, on standard error."""
    for item in warnings:
        render.err().line(("warning: ", "bold"), item.message)


def _print_violations(screen: Screen, error: ConstraintViolated, file: Path | None) -> None:
    found = error.violations
    for item in found[:_VIOLATIONS_SHOWN_MAX]:
        place = f"{item['file']}:{item['line']}: " if item.get("file") else ""
        screen.line((place, "bold"), f"{item['message']}")
    total = error.details.get("total")
    if isinstance(total, int) and total > _VIOLATIONS_SHOWN_MAX:
        rest = counted(
            total - min(_VIOLATIONS_SHOWN_MAX, len(found)), "more violation", "more violations"
        )
        hint = f"; all of them are in {file}" if file else "; --violations FILE writes all of them"
        screen.line(rest, hint)
