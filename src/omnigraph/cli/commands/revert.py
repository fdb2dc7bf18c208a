"""`omnigraph revert`: takes a commit back by another one."""

from typing import Annotated

from omnigraph.cli.commands.branch_merge import (
    DryRun,
    Resolutions,
    Resolve,
    check_resolve,
    show_merge,
)
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import IdempotencyKey, Json, Message
from omnigraph.cli.parameters import Argument
from omnigraph.cli.targets import Target


@command(
    "omnigraph revert people.omni main~1 -m 'a mistake'",
    "omnigraph revert people.omni@draft 01J… --dry-run",
    branch=True,
)
def revert(
    target: Target,
    revision: Annotated[
        str, Argument(metavar="REVISION", help="The commit: its id, a tag or main~1.")
    ],
    resolve: Resolve = None,
    dry_run: DryRun = False,
    resolutions: Resolutions = None,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> Status:
    """Take back what a commit changed, as a new commit.

    Ends with 1 when later commits have changed the same; the conflicts are listed.
    """
    check_resolve(resolve, resolutions, dry_run)
    with target.open("r" if dry_run else "rw") as graph:
        done = graph.branches.revert(
            revision,
            target.on,
            resolve=resolve,
            dry_run=dry_run,
            message=message,
            idempotency_key=idempotency_key,
        )
    head = f"{done.source} {'would be' if dry_run else 'is'} taken back on {target.on}"
    if done.outcome == "already_up_to_date":
        head = f"nothing of {done.source} is left to be taken back on {target.on}"
    return show_merge(done, resolutions, as_json=as_json, head=head)
