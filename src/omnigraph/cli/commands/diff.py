"""`omnigraph diff`: what is different between two states of a graph."""

from typing import Annotated

import typer

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, Store, Types
from omnigraph.cli.results import plain_row


@command(
    "omnigraph diff --store people.omni main agent/42",
    "omnigraph diff --store people.omni main~3 main --type Person --counts",
)
def diff(
    store: Store,
    older: Annotated[
        str, typer.Argument(metavar="OLDER", help="A branch, a commit, a tag, or main~3.")
    ],
    newer: Annotated[str, typer.Argument(metavar="NEWER", help="The same.")] = "main",
    types: Types = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Only how many entities differ, by type.")
    ] = False,
    as_json: Json = False,
) -> Status:
    """Compare two states of the graph, entity by entity."""
    screen = render.out()
    with og.open(store, "r", settings=settings()) as graph:
        found = graph.diff(older, newer, types=types)
        if counts and not as_json:
            rows = [
                (key, f"{c.inserted:,}", f"{c.updated:,}", f"{c.deleted:,}")
                for key, c in found.counts.items()
            ]
            screen.table(("type", "inserted", "updated", "deleted"), rows)
        elif as_json:
            screen.json(
                {
                    "counts": {
                        key: {"inserted": c.inserted, "updated": c.updated, "deleted": c.deleted}
                        for key, c in found.counts.items()
                    },
                    "changes": [] if counts else [_change(each) for each in found],
                }
            )
        else:
            for change in found:
                style = {"insert": "green", "update": "yellow", "delete": "red"}[change.operation]
                screen.line((str(change), style))
    return Status.OK


def _change(change: og.Change) -> dict[str, og.errors.JsonValue]:
    return {
        "type": change.type,
        "id": change.id,
        "operation": change.operation,
        "before": None if change.before is None else plain_row(change.before),
        "after": None if change.after is None else plain_row(change.after),
    }
