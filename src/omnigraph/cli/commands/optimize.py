"""`omnigraph optimize`: the same data in better order."""

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.watching import watching
from omnigraph.graph.opening import open as open_graph


def perform(
    store: str,
    *,
    branch: str,
    engine: str,
    spark: str | None,
    actor: str | None,
    quiet: bool,
    as_json: bool,
) -> Status:
    """Optimize a branch, and say what changed."""
    with (
        open_graph(store, settings=settings()) as graph,
        watching(quiet=quiet or as_json) as listener,
    ):
        done = graph.optimize(
            branch=branch, engine=engine, spark=spark, actor=actor, progress=listener
        )
    screen = render.out()
    if as_json:
        screen.json(
            {
                "graph_commit_id": None if done.commit is None else done.commit.id,
                "fragments": {key: list(pair) for key, pair in done.fragments.items()},
                "indexes": [list(pair) for pair in done.indexes],
                "engine": done.engine,
                "reason": done.reason,
            }
        )
        return Status.OK
    if done.commit is None:
        screen.line("nothing to gain")
        return Status.OK
    for key, (before, after) in done.fragments.items():
        if before != after:
            screen.line(f"{key}: {before} fragments -> {after}")
    for key, name in done.indexes:
        screen.line(f"{key}: index {name}")
    screen.line(f"commit {done.commit.id} on {branch}")
    return Status.OK
