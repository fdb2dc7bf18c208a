"""`omnigraph export`: the data of a graph as files."""

from dataclasses import dataclass

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.plain import amount
from omnigraph.cli.watching import watching
from omnigraph.graph.opening import open as open_graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for."""

    out: str
    types: tuple[str, ...] | None
    format: str | None
    branch: str
    at: str | None
    overwrite: bool
    engine: str
    spark: str | None


def perform(store: str, options: Options, *, quiet: bool, as_json: bool) -> Status:
    """Write the files, and say which."""
    with (
        open_graph(store, "r", settings=settings()) as graph,
        watching(quiet=quiet or as_json) as listener,
    ):
        done = graph.export(
            options.out,
            format=options.format,
            types=options.types,
            branch=options.branch,
            at=options.at,
            overwrite=options.overwrite,
            engine=options.engine,
            spark=options.spark,
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
    screen = render.err() if options.out == "-" else render.out()
    total = sum(done.rows.values())
    screen.line(f"{total:,} entities, {amount(done.bytes)}, as of commit {done.commit}")
    return Status.OK
