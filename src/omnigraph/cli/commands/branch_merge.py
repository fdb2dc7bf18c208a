"""`omnigraph branch merge`: the changes of one branch in another."""

from typing import Annotated, Literal

import typer

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Actor, Json, Message, Store
from omnigraph.cli.results import plain_row


@command(
    "omnigraph branch merge --store people.omni agent/42",
    "omnigraph branch merge --store people.omni agent/42 --into main --dry-run",
    "omnigraph branch merge --store people.omni agent/42 --resolve theirs --delete-branch",
)
def branch_merge(
    store: Store,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The branch to merge.")],
    into: Annotated[
        str, typer.Option("--into", metavar="NAME", help="The branch that gets its changes.")
    ] = "main",
    resolve: Annotated[
        Literal["ours", "theirs"] | None,
        typer.Option("--resolve", help="The side that wins where both changed the same."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")
    ] = False,
    delete_branch: Annotated[
        bool, typer.Option("--delete-branch", help="Delete the source afterwards.")
    ] = False,
    actor: Actor = None,
    message: Message = None,
    as_json: Json = False,
) -> Status:
    """Bring the changes of one branch into another: one commit, or nothing.

    Ends with 1 when there are conflicts; they are listed, and nothing changes.
    """
    with og.open(store, "r" if dry_run else "rw", settings=settings()) as graph:
        done = graph.branches.merge(
            source,
            into,
            resolve=resolve,
            dry_run=dry_run,
            delete_branch=delete_branch,
            actor=actor,
            message=message,
        )
    screen = render.out()
    if as_json:
        screen.json(_to_json(done))
    else:
        for line in str(done).splitlines():
            screen.line(line)
        if done.commit is not None:
            screen.line(f"commit {done.commit.id} on {into}")
    return Status.FAILED if done.conflicts else Status.OK


def _to_json(done: og.MergeResult) -> dict[str, og.errors.JsonValue]:
    return {
        "outcome": done.outcome,
        "graph_commit_id": None if done.commit is None else done.commit.id,
        "source": done.source,
        "into": done.into,
        "base": done.base,
        "counts": {
            key: {"inserted": c.inserted, "updated": c.updated, "deleted": c.deleted}
            for key, c in done.counts.items()
        },
        "conflicts": [
            {
                "kind": item.kind.value,
                "type": item.type,
                "id": item.id,
                "properties": list(item.properties),
                "message": item.message,
                "base": None if item.base is None else plain_row(item.base),
                "ours": None if item.ours is None else plain_row(item.ours),
                "theirs": None if item.theirs is None else plain_row(item.theirs),
            }
            for item in done.conflicts
        ],
        "branch_deleted": done.branch_deleted,
    }
