"""`omnigraph diff`: compares two states of a graph."""

from __future__ import annotations

from typing import Annotated, Final

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, Types
from omnigraph.cli.parameters import Argument, Option
from omnigraph.cli.plain import Screen
from omnigraph.cli.records import change_line, change_record, counts_record
from omnigraph.cli.targets import Target

STYLES: Final = {"insert": "green", "update": "yellow", "delete": "red"}

Counts = Annotated[
    bool, Option("--counts", "--stat", help="Only how many entities differ, by type.")
]


@command(
    "omnigraph diff people.omni main agent/42",
    "omnigraph diff people.omni main~3 --type Person --stat",
)
def diff(
    target: Target,
    older: Annotated[str, Argument(metavar="OLDER", help="A branch, a commit, a tag, or main~3.")],
    newer: Annotated[
        str | None, Argument(metavar="NEWER", help="The same; by default the branch.")
    ] = None,
    types: Types = None,
    counts: Counts = False,
    as_json: Json = False,
) -> Status:
    """Compare two states of the graph, entity by entity."""
    with target.open("r") as graph, render.paged(as_json=as_json) as screen:
        show_diff(screen, graph.diff(older, newer or target.on, types=types), counts, as_json)
    return Status.OK


def show_diff(screen: Screen, found: og.Diff, counts: bool, as_json: bool) -> None:
    """Print changes, or only their numbers."""
    if as_json:
        screen.json(
            {
                "counts": counts_record(found.counts),
                "changes": [] if counts else [change_record(each) for each in found],
            }
        )
    elif counts:
        rows = [
            (key, f"{c.inserted:,}", f"{c.updated:,}", f"{c.deleted:,}")
            for key, c in found.counts.items()
        ]
        screen.table(("type", "inserted", "updated", "deleted"), rows)
    else:
        for change in found:
            screen.line((change_line(change), STYLES[change.operation]))
