"""`omnigraph load`: loads data, and reports what is wrong with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.exits import Status, show
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Engine, IdempotencyKey, Json, Spark
from omnigraph.cli.parameters import Option, UsageError
from omnigraph.cli.plain import Part, Screen, counted
from omnigraph.cli.records import warning_records
from omnigraph.cli.results import shown_value
from omnigraph.cli.targets import Target
from omnigraph.errors import Code, ConstraintViolated, JsonValue, NotFound
from omnigraph.results.json_values import json_value
from omnigraph.results.wire import loaded_types
from omnigraph.types import InputFormat, LoadMode

_VIOLATIONS_SHOWN_MAX: Final = 20
# What a server lists at most; the others are counted.
_VIOLATIONS_SENT_MAX: Final = 100_000
_ENDS: Final[Mapping[object, object]] = {"src": "from", "dst": "to"}
_VIOLATION_HEADINGS: Final = ("file", "line", "type", "property", "value", "what is wrong")

Data = Annotated[
    list[str],
    Option(
        "--data",
        "-d",
        metavar="SOURCE",
        help="A file, folder, pattern or s3:// address; - for standard input; TYPE=SOURCE "
        "for files of one type. May be repeated.",
    ),
]


@command(
    "omnigraph load people.omni --data people.jsonl --mode append",
    "omnigraph load g.omni -d Person=people.csv -d Knows=knows.parquet --mode merge",
    "omnigraph load g.omni@review --from main -d 'new/*.gz' --mode merge -m 'new people'",
    "zcat dump.gz | omnigraph load people.omni -d - --mode append",
    branch=True,
    destroys=True,
)
def load(
    target: Target,
    data: Data,
    mode: Annotated[
        LoadMode | None,
        Option("--mode", help="append refuses what exists, merge updates it, overwrite replaces."),
    ] = None,
    create_from: Annotated[
        str | None,
        Option(
            "--from",
            "--create-from",
            metavar="NAME",
            help="Make the branch from this one, in the same commit, if it is not there.",
        ),
    ] = None,
    replace: Annotated[
        bool, Option("--replace", help="With merge: whole rows, not only the named fields.")
    ] = False,
    cascade: Annotated[
        bool,
        Option("--cascade", help="With overwrite: drop edges whose nodes are gone."),
    ] = False,
    format: Annotated[
        InputFormat | None,
        Option("--format", "-f", help="How the data is spelled; else its suffix tells."),
    ] = None,
    engine: Engine = "auto",
    spark: Spark = None,
    idempotency_key: IdempotencyKey = None,
    message: Annotated[
        str | None, Option("--message", metavar="TEXT", help="A note for the history.")
    ] = None,
    short: Annotated[
        str | None,
        Option("-m", metavar="TEXT", help="The mode, if --mode is not there; else the note."),
    ] = None,
    violations: Annotated[
        Path | None,
        Option("--violations", metavar="FILE", help="Write all broken rules here, as NDJSON."),
    ] = None,
    as_json: Json = False,
) -> Status:
    """Load data: all of it in one commit, or nothing.

    NDJSON holds nodes and edges, one per line: {"type": "Person", "data": {...}} and
    {"edge": "Knows", "from": "a", "to": "b", "data": {...}}. Parquet, CSV and Arrow files hold one
    type each. Everything that breaks a rule is reported with its file and line.
    """
    chosen, note = mode_and_message(mode, message, short)
    if chosen == "overwrite":
        target.confirm(f"replace the data of whole types on {target.on}")
    is_remote = target.address.is_remote
    with target.open() as graph:
        try:
            with render.progress(quiet=target.is_quiet or as_json) as listener:
                done = graph.load(
                    sent(data) if is_remote else sources(data),
                    mode=chosen,
                    branch=target.on,
                    create_from=create_from,
                    replace=replace,
                    cascade=cascade,
                    format=format,
                    engine=engine,
                    spark=spark,
                    idempotency_key=idempotency_key,
                    message=note,
                    progress=listener,
                    **_reported(violations, is_remote=is_remote),
                )
        except ConstraintViolated as error:
            if is_remote:
                complete(error, data, violations)
            if as_json:
                raise
            show(error)
            show_violations(render.err(), error, violations, is_remote=is_remote)
            return Status.FAILED
    if as_json:
        render.out().json(as_document(done))
    else:
        _print(render.out(), done)
    return Status.OK


def _reported(file: Path | None, *, is_remote: bool) -> dict[str, Any]:
    """The arguments for a file of violations: a server sends what is to be in it."""
    if file is None or not is_remote:
        return {"violations_file": file}
    return {"violations_max": _VIOLATIONS_SENT_MAX}


def mode_and_message(
    mode: LoadMode | None, message: str | None, short: str | None
) -> tuple[LoadMode, str | None]:
    """The mode of a load and its message; `-m` is the mode where no other is given."""
    known: dict[str | None, LoadMode] = {each: each for each in get_args(LoadMode)}
    if mode is None and short in known:
        return known[short], message
    if mode is None:
        raise UsageError("say --mode append, merge or overwrite")
    if short is not None and message is not None:
        raise UsageError("the message is given by --message and by -m")
    return mode, message or short


def sent(data: Sequence[str]) -> object:
    """The data as a server takes it: one file or stream, perhaps of one type."""
    given = sources(data)
    if len(data) != 1:
        raise UsageError("one file or stream is sent to a server; give --data once")
    ((name, (place,)),) = given.items() if isinstance(given, dict) else ((None, data),)
    if place != "-" and not Path(place).is_file():
        text = f"{place}: there is no such file"
        raise NotFound(Code.FILE_NOT_FOUND, text, path=place)
    source = sys.stdin.buffer if place == "-" else place
    return source if name is None else {name: source}


def complete(error: ConstraintViolated, data: Sequence[str], file: Path | None) -> None:
    """Name the file in violations that a server found in a stream; write all that it told."""
    found = [
        {**item, "file": None if item.get("line") is None else data[0].rpartition("=")[2]}
        for item in error.violations
    ]
    error.details["violations"] = found
    if file is not None:
        file.write_text("".join(json.dumps(item) + "\n" for item in found), encoding="utf-8")


def sources(data: Sequence[str]) -> object:
    """The data as the library takes it: a list of places, or places by type."""
    typed: dict[str, list[str]] = {}
    untyped: list[str] = []
    for text in data:
        name, separator, place = text.partition("=")
        # A path may contain the sign; the name of a type has no slash and no dot.
        if separator and name.replace("_", "").replace(":", "").isalnum():
            typed.setdefault(name, []).append(place)
        else:
            untyped.append(text)
    if typed and untyped:
        return [*untyped, typed]
    return typed or untyped


def as_document(done: og.LoadResult) -> JsonValue:
    """The result in plain values, under the names of the wire."""
    return {
        "graph_commit_id": done.commit.id,
        "branch": done.commit.branch,
        "branch_created": done.branch_created,
        "mode": done.mode,
        "nodes": json_value(loaded_types(done, "node")),
        "edges": json_value(loaded_types(done, "edge")),
        "total_entities": sum(c.inserted + c.updated for c in done.counts.values()),
        "actor_id": done.commit.actor,
        "engine": done.engine,
        "reason": done.reason,
        "replayed": done.replayed,
        "warnings": warning_records(done.warnings),
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
    screen.line(
        f"{done.engine}: {done.reason}; {counted(done.rows, 'row')} in {done.seconds:.2f} s"
    )
    print_warnings(done.warnings)


def print_warnings(warnings: Sequence[og.ResultWarning]) -> None:
    """Tell warnings beside the result, on standard error."""
    for item in warnings:
        render.err().line(("warning: ", "bold"), item.message)


def show_violations(
    screen: Screen, error: ConstraintViolated, file: Path | None, *, is_remote: bool = False
) -> None:
    """Print the broken rules as a table: where, which entity, which value, and what is wrong."""
    found = error.violations[:_VIOLATIONS_SHOWN_MAX]
    screen.table(_VIOLATION_HEADINGS, [_violation_row(item) for item in found])
    total = error.details.get("total")
    if isinstance(total, int) and total > len(found):
        rest = counted(total - len(found), "more violation")
        hint = "; --violations FILE writes all of them"
        if file is not None:
            written = len(error.violations)
            is_whole = not is_remote or written == total
            hint = f"; {'all' if is_whole else f'the first {written:,}'} of them are in {file}"
        screen.line(rest, hint)


def _violation_row(item: Mapping[str, JsonValue]) -> tuple[Part, ...]:
    properties = item.get("properties")
    # The ends of an edge have other names in storage than in the input.
    named = [_ENDS.get(name, name) for name in properties] if isinstance(properties, list) else []
    return (
        (shown_value(item.get("file")), "bold"),
        shown_value(item.get("line")),
        shown_value(item.get("type")),
        shown_value(", ".join(map(str, named)) or None),
        shown_value(item.get("value")),
        str(item.get("message")),
    )
