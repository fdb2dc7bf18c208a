"""`omnigraph embed`: vectors that are missing, computed from their texts."""

from dataclasses import dataclass

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.watching import watching
from omnigraph.graph.opening import open as open_graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for."""

    types: tuple[str, ...] | None
    missing: bool
    branch: str
    batch: int | None
    engine: str
    spark: str | None
    actor: str | None


def perform(store: str, options: Options, *, quiet: bool, as_json: bool) -> Status:
    """Compute vectors of a branch, and say how many."""
    with (
        open_graph(store, settings=settings()) as graph,
        watching(quiet=quiet or as_json) as listener,
    ):
        done = graph.embed(
            missing=options.missing,
            types=options.types,
            branch=options.branch,
            batch=options.batch,
            engine=options.engine,
            spark=options.spark,
            actor=options.actor,
            progress=listener,
        )
    screen = render.out()
    if as_json:
        screen.json(
            {
                "graph_commit_id": None if done.commit is None else done.commit.id,
                "branch": options.branch,
                "commits": done.commits,
                "vectors": dict(done.vectors),
                "skipped": done.skipped,
                "engine": done.engine,
                "reason": done.reason,
            }
        )
        return Status.OK
    if done.commit is None:
        screen.line("no vector is missing")
        return Status.OK
    for name, count in done.vectors.items():
        screen.line(f"{name}: {count:,} vectors")
    if done.skipped:
        screen.line(f"{done.skipped:,} entities were changed by others meanwhile")
    screen.line(f"commit {done.commit.id} on {options.branch}, the last of {done.commits:,}")
    return Status.OK
