"""`omnigraph profile`: runs a query, and shows what each step did."""

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Json
from omnigraph.cli.queries import QueryArguments
from omnigraph.cli.targets import Target


@command(
    "omnigraph profile people.omni --query people.gq friends -p name=Ada",
    branch=True,
)
def profile_query(
    target: Target,
    asked: QueryArguments,
    at: At = None,
    as_json: Json = False,
) -> Status:
    """Run a query and report what each step did: rows, time, and the path taken."""
    queries, values = asked.read()
    with target.open("r") as graph:
        found = graph.profile(queries, values, name=asked.name, branch=target.on, at=at)
    if as_json:
        render.out().json(
            {
                "path": str(found.path),
                "row_count": len(found.rows),
                "steps": [
                    {"step": each.label, "rows": each.rows, "microseconds": each.nanoseconds / 1000}
                    for each in found.entries
                ],
            }
        )
    else:
        for line in str(found).splitlines():
            render.out().line(line)
    return Status.OK
