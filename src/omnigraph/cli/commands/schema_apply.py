"""`omnigraph schema apply`: changes the schema of a stored graph."""

from pathlib import Path
from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.commands.schema_plan import plan_stored
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.files import read_text
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Engine, IdempotencyKey, Json, Message, Spark
from omnigraph.cli.parameters import Option
from omnigraph.cli.plain import counted
from omnigraph.cli.targets import Target


@command(
    "omnigraph schema apply people.omni --schema people_v2.pg",
    branch=True,
    destroys=True,
)
def schema_apply(
    target: Target,
    schema: Annotated[
        Path,
        Option(
            "--schema", "-s", metavar="FILE", help="The wanted schema, .pg; - for standard input."
        ),
    ],
    allow_data_loss: Annotated[
        bool,
        Option("--allow-data-loss", help="Take dropped values out of the files, for good."),
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be done; change nothing.")
    ] = False,
    engine: Engine = "auto",
    spark: Spark = None,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    as_json: Json = False,
) -> Status:
    """Change the schema of a branch, in one commit.

    Stored rows that break a new rule are listed, and nothing changes.
    `omnigraph schema plan` shows the steps beforehand.
    """
    if dry_run:
        return plan_stored(target, schema, [], allow_data_loss=allow_data_loss, as_json=as_json)
    if allow_data_loss:
        target.confirm("remove the values of dropped properties and types for good")
    text = read_text(schema, settings())
    is_quiet = target.address.is_remote or target.is_quiet or as_json
    with target.open() as graph, render.progress(quiet=is_quiet) as listener:
        done = graph.schema.apply(
            text,
            branch=target.on,
            allow_data_loss=allow_data_loss,
            message=message,
            idempotency_key=idempotency_key,
            engine=engine,
            spark=spark,
            progress=listener,
        )
    commit = None if done.commit is None else done.commit.id
    if as_json:
        render.out().json({"graph_commit_id": commit, "steps": [dict(step) for step in done.steps]})
    elif commit is None:
        render.out().line("the schema is in force already")
    else:
        for note in done.notes:
            render.out().line(("note", "yellow"), f": {note}")
        render.out().line(f"{counted(len(done.steps), 'step')}, commit {commit} on {target.on}")
    return Status.OK
