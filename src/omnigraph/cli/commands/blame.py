"""`omnigraph blame`: the commits that changed one entity."""

from typing import Annotated, Final

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Json
from omnigraph.cli.parameters import Argument, Option
from omnigraph.cli.records import commit_record
from omnigraph.cli.results import Form, ListingColumn, chosen_format, show_listing
from omnigraph.cli.targets import Target

_COLUMNS: Final = (
    ListingColumn("graph_commit_id", "commit", "yellow"),
    ListingColumn("created_at", "time"),
    ListingColumn("actor_id", "actor"),
    ListingColumn("operation", "operation"),
    ListingColumn("changed", "changed"),
    ListingColumn("message", "message"),
)


@command(
    "omnigraph blame people.omni Person Ada",
    "omnigraph blame people.omni@draft Person Ada --limit 1 --json",
    branch=True,
)
def blame(
    target: Target,
    type_name: Annotated[str, Argument(metavar="TYPE", help="The type of the entity.")],
    id: Annotated[str, Argument(metavar="ID", help="Its id.")],
    at: At = None,
    limit: Annotated[
        int | None, Option("--limit", "-n", metavar="COUNT", min=1, help="At most so many.")
    ] = None,
    form: Form = None,
    as_json: Json = False,
) -> Status:
    """List the commits that changed one entity, the newest first."""
    chosen = chosen_format(form, target.config.output, as_json=as_json)
    with target.open("r") as graph, render.paged(as_json=chosen != "table") as screen:
        lines = graph.blame(type_name, id, branch=target.on, at=at, limit=limit)
        records = [
            {
                **commit_record(line.commit),
                "operation": line.operation,
                "changed": ", ".join(line.changed) if chosen == "table" else list(line.changed),
            }
            for line in lines
        ]
        show_listing(screen, _COLUMNS, records, chosen)
    return Status.OK
