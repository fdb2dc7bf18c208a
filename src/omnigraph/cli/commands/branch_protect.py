"""`omnigraph branch protect`: protects a branch from being deleted, renamed and reset."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import IdempotencyKey, Json, Message
from omnigraph.cli.parameters import Argument
from omnigraph.cli.targets import Target


@command("omnigraph branch protect people.omni release")
def branch_protect(
    target: Target,
    name: Annotated[str, Argument(metavar="NAME", help="The branch.")],
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> Status:
    """Protect a branch: it is neither deleted, renamed nor reset."""
    with target.open() as graph:
        found = graph.branches.protect(name, message=message, idempotency_key=idempotency_key)
    if as_json:
        render.out().json({"name": found.name, "protected": found.protected, "head": found.head})
    else:
        render.out().line(f"{found.name} is protected")
    return Status.OK
