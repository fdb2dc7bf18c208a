"""`omnigraph optimize`: compacts tables and completes indexes."""

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Engine, Json, Message, Spark
from omnigraph.cli.plain import counted
from omnigraph.cli.targets import Target


@command("omnigraph optimize people.omni", branch=True)
def optimize(
    target: Target,
    engine: Engine = "auto",
    spark: Spark = None,
    message: Message = None,
    as_json: Json = False,
) -> Status:
    """Compact tables and bring indexes up to date; answers stay the same."""
    with (
        target.open() as graph,
        render.progress(quiet=target.is_quiet or as_json) as listener,
    ):
        done = graph.optimize(
            branch=target.on,
            engine=engine,
            spark=spark,
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
            screen.line(f"{key}: {counted(before, 'fragment')} -> {after:,}")
    for key, name in done.indexes:
        screen.line(f"{key}: index {name}")
    screen.line(f"commit {done.commit.id} on {target.on}")
    return Status.OK
