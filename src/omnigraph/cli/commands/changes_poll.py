"""`omnigraph changes poll`: a page of the change feed."""

from __future__ import annotations

from typing import Annotated, Literal

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.commands.diff import STYLES
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, Types
from omnigraph.cli.parameters import Option
from omnigraph.cli.plain import Screen
from omnigraph.cli.records import change_line, change_record
from omnigraph.cli.targets import Target
from omnigraph.errors import JsonValue

Cursor = Annotated[
    str | None, Option("--cursor", metavar="TEXT", help="Where the last page ended.")
]
Start = Annotated[
    Literal["beginning", "now"],
    Option("--start", help="Without a cursor: all of the history, or from now on."),
]
Operations = Annotated[
    list[str] | None,
    Option("--op", metavar="NAME", help="Only insert, update or delete; may be repeated."),
]
Limit = Annotated[
    int, Option("--limit", "-n", metavar="COUNT", min=1, help="How many changes at most.")
]


@command(
    "omnigraph changes poll people.omni",
    "omnigraph changes poll people.omni@draft --start now --json=cursor",
    "omnigraph changes poll people.omni --cursor TEXT --limit 100 --json",
    branch=True,
)
def changes_poll(
    target: Target,
    cursor: Cursor = None,
    start: Start = "beginning",
    types: Types = None,
    operations: Operations = None,
    limit: Limit = 1_000,
    as_json: Json = False,
) -> Status:
    """Read the changes that follow a cursor; without one, start anew."""
    with target.open("r") as graph:
        page = graph.changes.poll(
            cursor,
            branch=target.branch if cursor else target.on,
            start=start,
            types=types,
            operations=operations,  # type: ignore[arg-type]  # judged by the call
            limit=limit,
        )
    screen = render.out()
    if as_json:
        screen.json(page_record(page))
    else:
        show_page(screen, page)
        render.err().line((f"cursor {page.cursor}{' (there is more)' if page.more else ''}", "dim"))
    return Status.OK


def page_record(page: og.ChangePage) -> dict[str, JsonValue]:
    """A page in plain values: a block for each commit, with its changes."""
    blocks: list[dict[str, JsonValue]] = []
    for event in page.events:
        cause = _cause(event.commit)
        if not blocks or blocks[-1]["cause"] != cause:
            blocks.append({"cause": cause, "changes": []})
        blocks[-1]["changes"].append(change_record(event.change))  # type: ignore[union-attr]
    return {"blocks": blocks, "cursor": page.cursor, "caught_up": not page.more}


def _cause(commit: og.Commit) -> dict[str, JsonValue]:
    return {
        "graph_commit_id": commit.id,
        "parent_commit_id": commit.parent_id,
        "merged_parent_commit_id": commit.merged_parent_id,
        "authored_branch": commit.branch,
        "authored_at": commit.created_at.isoformat().replace("+00:00", "Z"),
        "actor_id": commit.actor,
    }


def show_page(screen: Screen, page: og.ChangePage) -> None:
    """Print the changes of a page below their commits."""
    last = None
    for event in page.events:
        if event.commit.id != last:
            last = event.commit.id
            by = f" by {event.commit.actor}" if event.commit.actor else ""
            screen.line((f"commit {last}", "yellow"), by)
        screen.line((f"  {change_line(event.change)}", STYLES[event.change.operation]))
