"""`omnigraph changes follow`: prints changes as they are committed."""

import sys
from contextlib import suppress
from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.commands.changes_poll import (
    Cursor,
    Operations,
    Start,
    page_record,
    show_page,
)
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, Types
from omnigraph.cli.parameters import Option
from omnigraph.cli.results import show_lines
from omnigraph.cli.targets import Target


@command(
    "omnigraph changes follow people.omni",
    "omnigraph changes follow people.omni --start beginning --json --pages 1",
    branch=True,
)
def changes_follow(
    target: Target,
    cursor: Cursor = None,
    start: Start = "now",
    types: Types = None,
    operations: Operations = None,
    every: Annotated[
        float, Option("--every", metavar="SECONDS", help="How long to wait between looks.")
    ] = 1.0,
    pages: Annotated[
        int | None,
        Option("--pages", metavar="COUNT", min=1, help="End after so many pages."),
    ] = None,
    as_json: Json = False,
) -> Status:
    """Print changes as they are committed, until it is interrupted; --json prints a page a line."""
    # To interrupt it is how it ends.
    with target.open("r") as graph, suppress(KeyboardInterrupt):
        found = graph.changes.follow(
            cursor,
            branch=target.branch if cursor else target.on,
            start=start,
            types=types,
            operations=operations,  # type: ignore[arg-type]  # judged by the call
            every=every,
        )
        for number, page in enumerate(found, start=1):
            if as_json:
                show_lines(render.out(), [page_record(page)])
            else:
                show_page(render.out(), page)
            sys.stdout.flush()
            if number == pages:
                break
    return Status.OK
