"""`omnigraph branch list`: the branches of a graph."""

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, Store


@command("omnigraph branch list --store people.omni")
def branch_list(store: Store, as_json: Json = False) -> Status:
    """List the branches, each with what it was made from and its newest commit."""
    with og.open(store, "r", settings=settings()) as graph:
        branches = [graph.branches.show(name) for name in graph.branches.list()]
    if as_json:
        render.out().json(
            [
                {"name": each.name, "parent": each.parent, "graph_commit_id": each.head}
                for each in branches
            ]
        )
    else:
        rows = [(each.name, each.parent or "-", each.head) for each in branches]
        render.out().table(("branch", "from", "commit"), rows)
    return Status.OK
