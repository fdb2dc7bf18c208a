"""`omnigraph show`: one commit, and what it changed."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.commands.diff import Counts, show_diff
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.parameters import Argument
from omnigraph.cli.records import change_record, commit_record, counts_record
from omnigraph.cli.targets import Target


@command(
    "omnigraph show people.omni main~1",
    "omnigraph show people.omni 01J… --stat",
    branch=True,
)
def show(
    target: Target,
    revision: Annotated[
        str | None,
        Argument(
            metavar="REVISION", help="A commit, a tag, a branch or main~1; by default the branch."
        ),
    ] = None,
    counts: Counts = False,
    as_json: Json = False,
) -> Status:
    """Show one commit, and what it changed."""
    with target.open("r") as graph, render.paged(as_json=as_json) as screen:
        commit = graph.commits.show(graph.snapshot(target.on, at=revision).commit)
        changes = graph.commits.changes(commit.id)
        record = commit_record(commit)
        if as_json:
            told = [] if counts else [change_record(each) for each in changes]
            screen.json({**record, "counts": counts_record(changes.counts), "changes": told})
            return Status.OK
        screen.line((f"commit {commit.id}", "yellow"))
        for name, value in (
            ("branch", commit.branch),
            ("parent", commit.parent_id),
            ("merged", commit.merged_parent_id),
            ("kind", commit.kind),
            ("actor", commit.actor),
            ("time", record["created_at"]),
        ):
            if value is not None:
                screen.line(f"{name + ':':<8}{value}")
        if commit.message:
            screen.line()
            for line in commit.message.splitlines():
                screen.line(f"    {line}")
        screen.line()
        show_diff(screen, changes, counts, as_json=False)
    return Status.OK
