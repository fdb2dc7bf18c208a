"""`omnigraph branch rename`: renames a branch."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import IdempotencyKey, Json, Message
from omnigraph.cli.parameters import Argument
from omnigraph.cli.targets import Target


@command("omnigraph branch rename people.omni draft agent/42")
def branch_rename(
    target: Target,
    name: Annotated[str, Argument(metavar="NAME", help="The name that it has.")],
    to: Annotated[str, Argument(metavar="NEW", help="The name that it gets.")],
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> Status:
    """Give a branch another name."""
    with target.open() as graph:
        made = graph.branches.rename(name, to, message=message, idempotency_key=idempotency_key)
    if as_json:
        render.out().json({"name": made.name, "renamed_from": name, "head": made.head})
    else:
        render.out().line(f"{name} is {made.name} now")
    return Status.OK
