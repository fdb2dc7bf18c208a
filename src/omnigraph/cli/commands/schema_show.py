"""`omnigraph schema show`: the schema of a stored graph."""

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Json
from omnigraph.cli.targets import Target


@command("omnigraph schema show people.omni", branch=True)
def schema_show(target: Target, at: At = None, as_json: Json = False) -> Status:
    """Print the schema in force, as it was written."""
    with target.open("r") as graph:
        text = graph.schema.show(target.on, at=at)
    with render.paged(as_json=as_json) as screen:
        if as_json:
            screen.json({"branch": target.on, "schema": text, "schema_source": text})
        else:
            screen.line(text.rstrip("\n"))
    return Status.OK
