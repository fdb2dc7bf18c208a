"""`omnigraph mutate`: runs a changing query, as one commit."""

from typing import Annotated

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import IdempotencyKey, Json, Message
from omnigraph.cli.parameters import Option
from omnigraph.cli.plain import counted
from omnigraph.cli.queries import QueryArguments, query_name
from omnigraph.cli.targets import Target


@command(
    "omnigraph mutate people.omni --query changes.gq rename -p old=Bo -p new=Bob",
    "omnigraph mutate people.omni@draft -e 'query q() { insert Person { name: \"Di\" } }'",
    branch=True,
)
def mutate(
    target: Target,
    asked: QueryArguments,
    if_commit: Annotated[
        str | None,
        Option(
            "--if-commit",
            metavar="COMMIT",
            help="Only if no commit since this one changed data; else it ends with 4.",
        ),
    ] = None,
    idempotency_key: IdempotencyKey = None,
    message: Message = None,
    as_json: Json = False,
) -> Status:
    """Run a changing query: all of it is one commit, or nothing happens."""
    queries, values = asked.read()
    with target.open() as graph:
        done = graph.mutate(
            queries,
            values,
            name=asked.name,
            branch=target.on,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            message=message,
        )
    screen = render.out()
    commit = None if done.commit is None else done.commit.id
    if as_json:
        screen.json(
            {
                "branch": target.on,
                "query_name": query_name(queries, asked.name),
                "graph_commit_id": commit,
                "affected_nodes": done.affected_nodes,
                "affected_edges": done.affected_edges,
                "actor_id": None if done.commit is None else done.commit.actor,
                "replayed": done.replayed,
                "warnings": [item.message for item in done.warnings],
            }
        )
        return Status.OK
    for item in done.warnings:
        render.err().line(("warning", "bold yellow"), f": {item.message}")
    if commit is None:
        screen.line("nothing changes")
    else:
        counts = f"{counted(done.affected_nodes, 'node')}, {counted(done.affected_edges, 'edge')}"
        screen.line(f"{counts}, commit {commit} on {target.on}")
    return Status.OK
