"""`omnigraph branch create`: makes a branch."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, IdempotencyKey, Json
from omnigraph.cli.parameters import Argument, Option
from omnigraph.cli.records import branch_record
from omnigraph.cli.targets import Target


@command(
    "omnigraph branch create people.omni agent/42",
    "omnigraph branch create people.omni fix --from main --at main~3",
)
def branch_create(
    target: Target,
    name: Annotated[str, Argument(metavar="NAME", help="The name of the branch.")],
    from_: Annotated[
        str | None, Option("--from", metavar="NAME", help="The branch to start from.")
    ] = None,
    at: At = None,
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> Status:
    """Make a branch. It takes one small write, however large the graph is."""
    with target.open() as graph:
        made = graph.branches.create(
            name, from_ or target.on, at=at, idempotency_key=idempotency_key
        )
    target.remember(branch=[made.name])
    if as_json:
        render.out().json(branch_record(made))
    else:
        render.out().line(f"{made.name} from {made.parent} at {made.head}")
    return Status.OK
