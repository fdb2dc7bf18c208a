"""`omnigraph recover`: settles what dead writers left, and says what was found."""

from __future__ import annotations

from dataclasses import asdict

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.targets import Target
from omnigraph.errors import JsonValue


@command("omnigraph recover people.omni")
def recover(target: Target, as_json: Json = False) -> Status:
    """Settle writes that stopped half-way, and say what was found.

    Opening a graph and writing to it do the same for what stands in their way. This looks at every
    table, and explains. Ends with 1 if something is left that needs a person.
    """
    with target.open() as graph:
        found = graph.recover()
    screen = render.out()
    if as_json:
        screen.json(_plain(found))
    else:
        for write in found.writes:
            screen.line(_line(write))
            screen.line(f"  {write.explanation}")
        for file in found.set_aside:
            screen.line(f"set aside {file.path} ({file.reason}), kept as {file.kept_as}")
        if not found.writes:
            screen.line("nothing to recover")
    return Status.OK if found.is_settled else Status.FAILED


def _line(write: og.RecoveredWrite) -> str:
    what = f"{write.kind or 'commit of another tool'} on {write.branch}"
    outcome = write.outcome.replace("_", " ")
    named = f"{write.operation_id}  " if write.operation_id else ""
    return f"{named}{outcome}: {what} ({', '.join(write.tables)})"


def _plain(found: og.RecoveryResult) -> dict[str, JsonValue]:
    return {
        "writes": [asdict(write) for write in found.writes],
        "set_aside": [
            {**asdict(file), "at": file.at.isoformat().replace("+00:00", "Z")}
            for file in found.set_aside
        ],
        "settled": found.is_settled,
    }
