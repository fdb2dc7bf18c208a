"""`omnigraph branch delete`: deletes a branch."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import IdempotencyKey, Json
from omnigraph.cli.parameters import Argument, Option
from omnigraph.cli.targets import Target


@command("omnigraph branch delete people.omni agent/42", destroys=True)
def branch_delete(
    target: Target,
    name: Annotated[str, Argument(metavar="NAME", help="The name of the branch.")],
    if_head: Annotated[
        str | None, Option("--if-head", metavar="COMMIT", help="Only if this is the head.")
    ] = None,
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> Status:
    """Delete a branch; its commits that no other branch shares go with it."""
    target.confirm(f"delete the branch {name}")
    with target.open() as graph:
        graph.branches.delete(name, if_head=if_head, idempotency_key=idempotency_key)
        target.remember(branch=graph.branches.list(), are_all=True)
    if as_json:
        render.out().json({"name": name, "deleted": True})
    else:
        render.out().line(f"{name} is deleted")
    return Status.OK
