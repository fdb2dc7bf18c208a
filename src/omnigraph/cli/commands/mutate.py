"""`omnigraph mutate`: a changing query as one commit."""

from typing import Annotated

import typer

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Actor, Branch, Json, Message, Store
from omnigraph.cli.queries import (
    Parameters,
    QueryFile,
    QueryName,
    QueryText,
    parameters,
    query_text,
)


@command(
    "omnigraph mutate --store people.omni --query changes.gq rename -p old=Bo -p new=Bob",
    "omnigraph mutate --store people.omni -e 'query q() { insert Person { name: \"Di\" } }'",
)
def mutate(
    store: Store,
    name: QueryName = None,
    file: QueryFile = None,
    text: QueryText = None,
    param: Parameters = None,
    branch: Branch = "main",
    if_commit: Annotated[
        str | None,
        typer.Option("--if-commit", metavar="COMMIT", help="Only if this is the head."),
    ] = None,
    actor: Actor = None,
    message: Message = None,
    as_json: Json = False,
) -> Status:
    """Run a changing query: all of it is one commit, or nothing happens."""
    chosen = settings()
    queries, values = query_text(file, text, chosen), parameters(param)
    with og.open(store, settings=chosen) as graph:
        done = graph.mutate(
            queries,
            values,
            name=name,
            branch=branch,
            if_commit=if_commit,
            actor=actor,
            message=message,
        )
    screen = render.out()
    commit = None if done.commit is None else done.commit.id
    if as_json:
        screen.json(
            {
                "graph_commit_id": commit,
                "affected_nodes": done.affected_nodes,
                "affected_edges": done.affected_edges,
                "warnings": [item.message for item in done.warnings],
            }
        )
        return Status.OK
    for item in done.warnings:
        render.err().line(("warning", "bold yellow"), f": {item.message}")
    if commit is None:
        screen.line("nothing changes")
    else:
        counts = f"{done.affected_nodes:,} nodes, {done.affected_edges:,} edges"
        screen.line(f"{counts}, commit {commit} on {branch}")
    return Status.OK
