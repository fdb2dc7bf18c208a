"""`omnigraph repair`: settles what another tool did to tables of a graph."""

from dataclasses import asdict
from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Confirm, Json
from omnigraph.cli.parameters import Option
from omnigraph.cli.targets import Target

Force = Annotated[bool, Option("--force", help="Publish tables whose rows were changed, too.")]


@command(
    "omnigraph repair people.omni",
    "omnigraph repair people.omni --yes",
    destroys=True,
)
def repair(
    target: Target, force: Force = False, confirm: Confirm = False, as_json: Json = False
) -> Status:
    """Settle tables that are further than what is published, because of another tool.

    Tells what it found; with --yes it publishes tables whose rows are the same. Ends with 1 if
    something is left to do.
    """
    with target.open() as graph:
        done = graph.repair(dry_run=not (target.is_confirmed or confirm), force=force)
    screen = render.out()
    if as_json:
        screen.json({**asdict(done), "settled": done.is_settled})
    else:
        for table in done.tables:
            screen.line(
                f"{table.action}: {table.type} on {table.branch}, published at {table.published}, "
                f"its table is at {table.head} ({table.verdict})"
            )
            screen.line(f"  {table.explanation}")
        for flaw in done.irreparable:
            screen.line(f"cannot be repaired ({flaw.aspect}) {flaw.place}: {flaw.text}")
        if not done.tables and not done.irreparable:
            screen.line("nothing to repair")
    return Status.OK if done.is_settled else Status.FAILED
