"""`omnigraph load`: data into a graph, and what was wrong with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status, show
from omnigraph.cli.plain import Screen, counted
from omnigraph.cli.watching import watching
from omnigraph.dataplane.run.memory import take_small_pages
from omnigraph.errors import ConstraintViolated, JsonValue
from omnigraph.graph.opening import open as open_graph
from omnigraph.graph.values import LoadResult, ResultWarning

_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for."""

    data: tuple[str, ...]
    mode: str
    branch: str
    create_from: str | None
    replace: bool
    cascade: bool
    format: str | None
    engine: str
    spark: str | None
    idempotency_key: str | None
    actor: str | None
    violations: Path | None


def perform(store: str, options: Options, *, quiet: bool, as_json: bool) -> Status:
    """Load, or tell everything that stands in the way."""
    screen = render.out()
    take_small_pages()
    with open_graph(store, settings=settings()) as graph:
        try:
            with watching(quiet=quiet or as_json) as listener:
                done = graph.load(
                    sources(options.data),
                    mode=options.mode,
                    branch=options.branch,
                    create_from=options.create_from,
                    replace=options.replace,
                    cascade=options.cascade,
                    format=options.format,
                    engine=options.engine,
                    spark=options.spark,
                    idempotency_key=options.idempotency_key,
                    actor=options.actor,
                    violations_file=options.violations,
                    progress=listener,
                )
        except ConstraintViolated as error:
            if as_json:
                raise
            show(error)
            _print_violations(render.err(), error, options.violations)
            return Status.FAILED
    if as_json:
        screen.json(as_document(done))
    else:
        _print(screen, done)
    return Status.OK


def sources(data: tuple[str, ...]) -> object:
    """What the library takes: a list of places, or places by type."""
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


def as_document(done: LoadResult) -> JsonValue:
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


def _print(screen: Screen, done: LoadResult) -> None:
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


def warnings_document(warnings: Sequence[ResultWarning]) -> list[JsonValue]:
    """Warnings in plain values."""
    return [{"code": item.code, "message": item.message, "count": item.count} for item in warnings]


def print_warnings(warnings: Sequence[ResultWarning]) -> None:
    """Tell warnings beside the result, on standard error."""
    for item in warnings:
        render.err().line(("warning: ", "bold"), item.message)


def _print_violations(screen: Screen, error: ConstraintViolated, file: Path | None) -> None:
    found = error.violations
    for item in found[:_SHOWN_MAX]:
        place = f"{item['file']}:{item['line']}: " if item.get("file") else ""
        screen.line((place, "bold"), f"{item['message']}")
    total = error.details.get("total")
    if isinstance(total, int) and total > _SHOWN_MAX:
        rest = counted(total - min(_SHOWN_MAX, len(found)), "more violation", "more violations")
        hint = f"; all of them are in {file}" if file else "; --violations FILE writes all of them"
        screen.line(rest, hint)
