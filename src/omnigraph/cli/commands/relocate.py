"""`omnigraph relocate`: repairs the branches of a graph that was moved or copied."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.parameters import Option
from omnigraph.cli.targets import Target


@command(
    "omnigraph relocate people.omni",
    "omnigraph relocate --dry-run s3://bucket/people",
)
def relocate(
    target: Target,
    dry_run: Annotated[bool, Option("--dry-run", help="Only look what there is to do.")] = False,
    as_json: Json = False,
) -> Status:
    """Make the branches of a graph work that was moved or copied.

    Branches name the files that they share by their full path; this writes the present place into
    them. It may be repeated, also after it was interrupted.
    """
    found = og.relocate(target.stored, dry_run=dry_run)
    screen = render.out()
    if as_json:
        screen.json({**asdict(found), "recorded": list(found.recorded)})
    elif not found.changed:
        screen.line("nothing to relocate")
    else:
        verb = "to be relocated" if dry_run else "relocated"
        screen.line(f"{verb}: {found.changed} of {found.files} version files of branches")
        for place in found.recorded:
            screen.line(f"  they named {place}")
    return Status.OK
