"""`omnigraph branch delete`: the end of a branch."""

from typing import Annotated

import typer

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, Store


@command("omnigraph branch delete --store people.omni agent/42")
def branch_delete(
    store: Store,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the branch.")],
    as_json: Json = False,
) -> Status:
    """Delete a branch; its commits that no other branch shares go with it."""
    with og.open(store, settings=settings()) as graph:
        graph.branches.delete(name)
    if as_json:
        render.out().json({"name": name, "deleted": True})
    else:
        render.out().line(f"{name} is deleted")
    return Status.OK
