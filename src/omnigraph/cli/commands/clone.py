"""`omnigraph clone`: copies a graph consistently."""

from typing import Annotated

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Engine, Json, Spark
from omnigraph.cli.parameters import Argument, Option
from omnigraph.cli.plain import amount, counted
from omnigraph.cli.targets import Target


@command(
    "omnigraph clone people.omni s3://backups/people-monday",
    "omnigraph clone people.omni@draft draft.omni",
    "omnigraph clone s3://backups/people-monday restored.omni",
    branch=True,
)
def clone(
    target: Target,
    to: Annotated[
        str, Argument(metavar="TARGET", help="Where the copy will be; nothing may be there.")
    ],
    at: At = None,
    no_verify: Annotated[
        bool, Option("--no-verify", help="Compare sizes only; do not read the copy again.")
    ] = False,
    engine: Engine = "auto",
    spark: Spark = None,
    as_json: Json = False,
) -> Status:
    """Copy a graph, or a branch of it, to another place: backup and restore.

    Others may go on writing. A copy that was interrupted is no graph; the same command
    goes on with it.
    """
    with (
        og.open(target.stored, "r", settings=settings()) as graph,
        render.progress(quiet=target.is_quiet or as_json) as listener,
    ):
        done = graph.copy_to(
            to,
            branch=target.branch,
            at=at,
            verify=not no_verify,
            engine=engine,
            spark=spark,
            progress=listener,
            hold=True,
        )
    if as_json:
        render.out().json(
            {
                "uri": done.uri,
                "graph_commit_id": done.commit,
                "branches": [*done.branches],
                "files": done.files,
                "bytes": done.bytes,
                "reused": done.reused,
                "engine": done.engine,
                "reason": done.reason,
            }
        )
        return Status.OK
    branches = counted(len(done.branches), "branch", "branches")
    render.out().line(
        f"copied {branches}, {counted(done.files, 'file')}, {amount(done.bytes)}, to {done.uri}"
    )
    return Status.OK
