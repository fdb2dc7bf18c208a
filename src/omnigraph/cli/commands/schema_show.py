"""`omnigraph schema show`: the schema of a stored graph."""

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Branch, Json, Store


@command("omnigraph schema show --store people.omni")
def schema_show(
    store: Store,
    branch: Branch = "main",
    at: At = None,
    as_json: Json = False,
) -> Status:
    """Print the schema in force, as it was written."""
    with og.open(store, "r", settings=settings()) as graph:
        text = graph.schema.show(branch, at=at)
    if as_json:
        render.out().json({"branch": branch, "schema": text})
    else:
        render.out().line(text.rstrip("\n"))
    return Status.OK
