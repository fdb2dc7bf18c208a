"""`omnigraph log`: the commits of a branch."""

from typing import Annotated

import typer

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Branch, Json, Store
from omnigraph.errors import JsonValue


@command(
    "omnigraph log --store people.omni",
    "omnigraph log --store people.omni --branch agent/42 --limit 5 --json",
)
def log(
    store: Store,
    branch: Branch = "main",
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="COUNT", min=1, help="How many commits at most.")
    ] = 20,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Only commits of this actor.")
    ] = None,
    as_json: Json = False,
) -> Status:
    """Show the commits of a branch, the newest first."""
    with og.open(store, "r", settings=settings()) as graph:
        commits = graph.commits.list(branch, limit=limit, actor=actor)
    if as_json:
        render.out().json([commit_to_json(each) for each in commits])
        return Status.OK
    headings = ("commit", "time", "kind", "actor", "message")
    rows = [
        (
            (each.id, "yellow"),
            f"{each.created_at:%Y-%m-%d %H:%M:%S}",
            "merge" if each.merged_parent_id else each.kind,
            each.actor or "-",
            each.message or "-",
        )
        for each in commits
    ]
    render.out().table(headings, rows)
    return Status.OK


def commit_to_json(commit: og.Commit) -> dict[str, JsonValue]:
    """A commit as plain values."""
    return {
        "graph_commit_id": commit.id,
        "parent_commit_id": commit.parent_id,
        "merged_parent_commit_id": commit.merged_parent_id,
        "graph_branch": commit.branch,
        "actor_id": commit.actor,
        "created_at": commit.created_at.isoformat().replace("+00:00", "Z"),
        "kind": commit.kind,
        "message": commit.message,
    }
