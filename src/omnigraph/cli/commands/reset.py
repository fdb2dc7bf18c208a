"""`omnigraph reset`: gives a branch an older state back."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.commands.branch_merge import DryRun
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import IdempotencyKey, Json, Message
from omnigraph.cli.parameters import Argument, Option
from omnigraph.cli.records import counts_record
from omnigraph.cli.targets import Target


@command(
    "omnigraph reset people.omni@draft draft~2",
    "omnigraph reset people.omni@draft v1 --dry-run",
    branch=True,
    destroys=True,
)
def reset(
    target: Target,
    to: Annotated[str, Argument(metavar="REVISION", help="The state: a commit, a tag or draft~1.")],
    if_head: Annotated[
        str | None, Option("--if-head", metavar="COMMIT", help="Only if this is the head.")
    ] = None,
    dry_run: DryRun = False,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> Status:
    """Give a branch the state of an older commit back, as a new commit."""
    if not dry_run:
        target.confirm(f"reset the branch {target.on} to {to}")
    with target.open("r" if dry_run else "rw") as graph:
        done = graph.branches.reset(
            target.on,
            to,
            if_head=if_head,
            dry_run=dry_run,
            message=message,
            idempotency_key=idempotency_key,
        )
    commit = None if done.commit is None else done.commit.id
    screen = render.out()
    if as_json:
        screen.json(
            {
                "branch": done.branch,
                "to": done.to,
                "former_head": done.former_head,
                "graph_commit_id": commit,
                "counts": counts_record(done.counts),
            }
        )
        return Status.OK
    for key, each in done.counts.items():
        screen.line(f"{key}  +{each.inserted:,} ~{each.updated:,} -{each.deleted:,}")
    screen.line("nothing changes" if commit is None else f"commit {commit} on {done.branch}")
    return Status.OK
