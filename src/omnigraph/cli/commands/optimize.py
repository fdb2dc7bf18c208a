"""`omnigraph optimize`: compacted tables and complete indexes."""

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Actor, Branch, Engine, Json, Message, Quiet, Spark, Store


@command("omnigraph optimize --store people.omni")
def optimize(
    store: Store,
    branch: Branch = "main",
    engine: Engine = "auto",
    spark: Spark = None,
    actor: Actor = None,
    message: Message = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> Status:
    """Compact tables and bring indexes up to date; answers stay the same."""
    with (
        og.open(store, settings=settings()) as graph,
        render.progress(quiet=quiet or as_json) as listener,
    ):
        done = graph.optimize(
            branch=branch,
            engine=engine,
            spark=spark,
            actor=actor,
            message=message,
            progress=listener,
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
