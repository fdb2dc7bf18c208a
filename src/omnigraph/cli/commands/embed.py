"""`omnigraph embed`: computes missing vectors from their texts."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Engine, Json, Message, Spark, Types
from omnigraph.cli.parameters import Option
from omnigraph.cli.plain import counted
from omnigraph.cli.targets import Target


@command(
    "omnigraph embed people.omni",
    "omnigraph embed people.omni@draft --type Person --batch 1000",
    branch=True,
)
def embed(
    target: Target,
    types: Types = None,
    everything: Annotated[
        bool, Option("--all", help="Compute every vector anew, not only those missing.")
    ] = False,
    batch: Annotated[
        int | None,
        Option("--batch", metavar="N", min=1, help="How many entities one commit changes."),
    ] = None,
    engine: Engine = "auto",
    spark: Spark = None,
    message: Message = None,
    as_json: Json = False,
) -> Status:
    """Compute vectors that are missing from their texts; an interrupted call can be repeated."""
    with (
        target.open() as graph,
        render.progress(quiet=target.is_quiet or as_json) as listener,
    ):
        done = graph.embed(
            missing=not everything,
            types=types,
            branch=target.on,
            batch=batch,
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
                "branch": target.on,
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
        screen.line(f"{name}: {counted(count, 'vector')}")
    if done.skipped:
        were = "entity was" if done.skipped == 1 else "entities were"
        screen.line(f"{done.skipped:,} {were} changed by others meanwhile")
    screen.line(f"commit {done.commit.id} on {target.on}, the last of {done.commits:,}")
    return Status.OK
