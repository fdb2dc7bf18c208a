"""`omnigraph tag delete`: deletes a tag."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import IdempotencyKey, Json
from omnigraph.cli.parameters import Argument
from omnigraph.cli.records import tag_record
from omnigraph.cli.targets import Target


@command("omnigraph tag delete people.omni v1", destroys=True)
def tag_delete(
    target: Target,
    name: Annotated[str, Argument(metavar="NAME", help="The name of the tag.")],
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> Status:
    """Delete a tag; its commit stays."""
    target.confirm(f"delete the tag {name}")
    with target.open() as graph:
        gone = graph.tags.delete(name, idempotency_key=idempotency_key)
    if as_json:
        render.out().json({**tag_record(gone), "deleted": True})
    else:
        render.out().line(f"{gone.name} is deleted; it was {gone.commit}")
    return Status.OK
