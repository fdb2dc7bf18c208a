"""`omnigraph branch create`: a new branch."""

from typing import Annotated

import typer

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Json, Store


@command(
    "omnigraph branch create --store people.omni agent/42",
    "omnigraph branch create --store people.omni fix --from main --at main~3",
)
def branch_create(
    store: Store,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the branch.")],
    from_: Annotated[
        str, typer.Option("--from", metavar="NAME", help="The branch to start from.")
    ] = "main",
    at: At = None,
    as_json: Json = False,
) -> Status:
    """Make a branch. It takes one small write, however large the graph is."""
    with og.open(store, settings=settings()) as graph:
        made = graph.branches.create(name, from_, at=at)
    if as_json:
        render.out().json({"name": made.name, "parent": made.parent, "graph_commit_id": made.head})
    else:
        render.out().line(f"{made.name} from {made.parent} at {made.head}")
    return Status.OK
