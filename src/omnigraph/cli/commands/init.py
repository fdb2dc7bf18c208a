"""`omnigraph init`: makes a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.parameters import Option
from omnigraph.cli.plain import counted
from omnigraph.cli.targets import Target


@command("omnigraph init --schema people.pg people.omni")
def init(
    target: Target,
    schema: Annotated[
        Path, Option("--schema", "-s", metavar="FILE", help="The schema, a .pg file.")
    ],
    as_json: Json = False,
) -> Status:
    """Make a new graph."""
    with og.init(target.stored, schema, actor=target.actor, settings=settings()) as graph:
        snapshot = graph.snapshot()
        nodes = sum(key.startswith("node:") for key in snapshot.counts)
        edges = len(snapshot.counts) - nodes
        target.remember(type=[key.partition(":")[2] for key in snapshot.counts], are_all=True)
        if as_json:
            render.out().json(
                {"uri": graph.uri, "graph_commit_id": snapshot.commit, "types": [*snapshot.counts]}
            )
        else:
            types = f"{counted(nodes, 'node type')}, {counted(edges, 'edge type')}"
            render.out().line(f"made {graph.uri} with {types}")
    return Status.OK
