"""`omnigraph commit changes`: the changes of one commit."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.commands.diff import Counts, show_diff
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.parameters import Argument
from omnigraph.cli.targets import Target


@command("omnigraph commit changes people.omni 01J… --json", branch=True)
def commit_changes(
    target: Target,
    revision: Annotated[
        str, Argument(metavar="COMMIT", help="The commit: its id, a tag, a branch or main~1.")
    ],
    counts: Counts = False,
    as_json: Json = False,
) -> Status:
    """Show the changes that a commit made to the state of its first parent."""
    with target.open("r") as graph, render.paged(as_json=as_json) as screen:
        commit = graph.snapshot(target.on, at=revision).commit
        show_diff(screen, graph.commits.changes(commit), counts, as_json)
    return Status.OK
