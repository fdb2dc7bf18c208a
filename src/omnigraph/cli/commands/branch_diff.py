"""`omnigraph branch diff`: compares a branch with the one that it was made from."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.commands.diff import Counts, show_diff
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, Types
from omnigraph.cli.parameters import Argument, Option
from omnigraph.cli.targets import Target


@command(
    "omnigraph branch diff people.omni agent/42",
    "omnigraph branch diff people.omni agent/42 --against main --stat",
)
def branch_diff(
    target: Target,
    name: Annotated[str, Argument(metavar="NAME", help="The branch.")],
    against: Annotated[
        str | None,
        Option(
            "--against", metavar="NAME", help="The other one; by default that it was made from."
        ),
    ] = None,
    types: Types = None,
    counts: Counts = False,
    as_json: Json = False,
) -> Status:
    """Compare a branch with the one that it was made from, or with another."""
    with target.open("r") as graph, render.paged(as_json=as_json) as screen:
        other = against or graph.branches.show(name).parent or target.on
        show_diff(screen, graph.diff(other, name, types=types), counts, as_json)
    return Status.OK
