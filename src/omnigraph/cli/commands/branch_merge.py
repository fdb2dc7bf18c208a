"""`omnigraph branch merge`: merges a branch into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import IdempotencyKey, Json, Message
from omnigraph.cli.parameters import Argument, Option, UsageError
from omnigraph.cli.records import merge_record
from omnigraph.cli.targets import Target
from omnigraph.results.merging import CONFLICT_COLUMNS

Resolve = Annotated[
    str | None,
    Option(
        "--resolve",
        metavar="ours|theirs|FILE",
        help="The side that wins where both changed the same, or a file of resolutions.",
    ),
]
DryRun = Annotated[bool, Option("--dry-run", help="Show what would be done, and write nothing.")]
Resolutions = Annotated[
    Path | None,
    Option(
        "--resolutions",
        metavar="FILE",
        help="With --dry-run: write the conflicts here, to be completed and given to --resolve.",
    ),
]


@command(
    "omnigraph branch merge people.omni agent/42",
    "omnigraph branch merge people.omni agent/42 --into main --dry-run --resolutions c.jsonl",
    "omnigraph branch merge people.omni agent/42 --resolve theirs --delete-branch",
    destroys=True,
)
def branch_merge(
    target: Target,
    source: Annotated[str, Argument(metavar="SOURCE", help="The branch to merge.")],
    into: Annotated[
        str | None,
        Option("--into", metavar="NAME", help="The branch that gets its changes."),
    ] = None,
    resolve: Resolve = None,
    dry_run: DryRun = False,
    resolutions: Resolutions = None,
    delete_branch: Annotated[
        bool, Option("--delete-branch", help="Delete the source afterwards.")
    ] = False,
    idempotency_key: IdempotencyKey = None,
    message: Message = None,
    as_json: Json = False,
) -> Status:
    """Bring the changes of one branch into another: one commit, or nothing.

    Ends with 1 when there are conflicts; they are listed, and nothing changes.
    """
    check_resolve(resolve, resolutions, dry_run)
    if delete_branch and not dry_run:
        target.confirm(f"delete the branch {source} after the merge")
    with target.open("r" if dry_run else "rw") as graph:
        done = graph.branches.merge(
            source,
            into or target.on,
            resolve=resolve,
            dry_run=dry_run,
            delete_branch=delete_branch,
            idempotency_key=idempotency_key,
            message=message,
        )
    return show_merge(done, resolutions, as_json=as_json)


def check_resolve(resolve: str | None, resolutions: Path | None, dry_run: bool) -> None:
    """Refuse what cannot settle conflicts."""
    if resolve is not None and resolve not in ("ours", "theirs") and Path(resolve).suffix == "":
        raise UsageError(f"--resolve takes ours, theirs or a .jsonl file, not {resolve!r}")
    if resolutions is not None and not dry_run:
        raise UsageError("--resolutions goes with --dry-run")


def show_merge(
    done: og.MergeResult, resolutions: Path | None, *, as_json: bool, head: str | None = None
) -> Status:
    """Print what a merge or a revert did, or would do; its conflicts are a failure."""
    if resolutions is not None:
        done.write_resolutions(resolutions)
    screen = render.out()
    if as_json:
        screen.json(merge_record(done))
    else:
        first, *rest = str(done).splitlines()
        for line in (head or first, *rest):
            screen.line(line)
        if done.commit is not None:
            screen.line(f"commit {done.commit.id} on {done.into}")
        if done.conflicts:
            screen.line("")
            # The last column has choices, and there are none yet unless some were given.
            columns = CONFLICT_COLUMNS if done.settled else CONFLICT_COLUMNS[:-1]
            screen.table(columns, [row[: len(columns)] for row in done.conflict_rows()])
        if resolutions is not None and done.conflicts:
            screen.line(f"fill in each choice in {resolutions}, then give it to --resolve")
    if done.branch_delete_error is not None:
        render.err().line(("warning", "bold yellow"), f": {done.branch_delete_error}")
    return Status.FAILED if done.conflicts else Status.OK
