"""`omnigraph cleanup`: removes old states of a graph, and the files that only they need."""

from dataclasses import asdict
from typing import Annotated

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Confirm, Json
from omnigraph.cli.parameters import Option, UsageError
from omnigraph.cli.plain import counted
from omnigraph.cli.targets import Target

Keep = Annotated[
    int | None,
    Option("--keep", metavar="N", help="The newest N commits of each branch stay."),
]
OlderThan = Annotated[
    str | None,
    Option("--older-than", metavar="AGE", help="Younger commits stay: 30d, 12h, 30m."),
]
SetAside = Annotated[bool, Option("--set-aside", help="Old files that were set aside go, too.")]


@command(
    "omnigraph cleanup people.omni --keep 10 --older-than 30d",
    "omnigraph cleanup people.omni --keep 10 --older-than 30d --yes",
    destroys=True,
)
def cleanup(
    target: Target,
    keep: Keep = None,
    older_than: OlderThan = None,
    set_aside: SetAside = False,
    confirm: Confirm = False,
    as_json: Json = False,
) -> Status:
    """Remove old states of a graph, and every file that none of the others needs.

    Tells what would go; with --yes it goes. The newest state of each branch, tags and the states
    that branches are merged by always stay. With both --keep and --older-than a commit goes only if
    both say so. Ends with 1 if a table could not be cleaned up.
    """
    if keep is None and older_than is None:
        raise UsageError("say which commits stay: --keep COUNT, --older-than AGE, or both")
    with (
        target.open() as graph,
        render.progress(quiet=target.is_quiet or as_json) as listener,
    ):
        done = graph.cleanup(
            keep=keep,
            older_than=older_than,
            dry_run=not (target.is_confirmed or confirm),
            set_aside=set_aside,
            progress=listener,
        )
    screen = render.out()
    if as_json:
        screen.json(
            {
                "dry_run": done.dry_run,
                "states": done.states,
                "versions": done.versions,
                "files": done.files,
                "bytes": done.bytes,
                "tables": [asdict(table) for table in done.tables],
            }
        )
    else:
        for table in done.tables:
            screen.line(_line(table))
        verb = "would go" if done.dry_run else "went"
        stay = "1 state stays" if done.states == 1 else f"{done.states:,} states stay"
        screen.line(f"{_numbers(done)} {verb}; {stay}")
    return Status.FAILED if any(table.error for table in done.tables) else Status.OK


def _line(table: og.CleanedTable) -> str:
    name = table.type or table.path
    if table.error:
        return f"{name}: left as it is: {table.error}"
    return f"{name}: {_numbers(table, table.forks)}"


def _numbers(went: og.CleanedTable | og.CleanupResult, forks: int = 0) -> str:
    parts = [counted(went.versions, "version"), counted(forks, "fork")][: 2 if forks else 1]
    return ", ".join([*parts, counted(went.files, "file"), counted(went.bytes, "byte")])
