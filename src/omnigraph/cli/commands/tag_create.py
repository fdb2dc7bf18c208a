"""`omnigraph tag create`: names a commit."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, IdempotencyKey, Json, Message
from omnigraph.cli.parameters import Argument, Option
from omnigraph.cli.records import tag_record
from omnigraph.cli.targets import Target


@command(
    "omnigraph tag create people.omni v1 -m 'as published'",
    "omnigraph tag create people.omni v1 --at main~2 --force",
    branch=True,
)
def tag_create(
    target: Target,
    name: Annotated[str, Argument(metavar="NAME", help="The name of the tag.")],
    at: At = None,
    force: Annotated[
        bool, Option("--force", help="Take the name from the commit that has it.")
    ] = False,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> Status:
    """Give a commit a name; the newest one of the branch, if no other is named."""
    with target.open() as graph:
        made = graph.tags.create(
            name,
            at or target.on,
            message=message,
            force=force,
            idempotency_key=idempotency_key,
        )
    target.remember(tag=[made.name])
    if as_json:
        render.out().json(tag_record(made))
    else:
        render.out().line(f"{made.name} is {made.commit} on {made.branch}")
    return Status.OK
