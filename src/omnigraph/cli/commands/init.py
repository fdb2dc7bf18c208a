"""`omnigraph init`: a new graph."""

from pathlib import Path

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.plain import counted
from omnigraph.graph.opening import init


def perform(store: str, schema: Path, *, as_json: bool) -> Status:
    """Make the graph and say what it can hold."""
    with init(store, schema, settings=settings()) as graph:
        snapshot = graph.snapshot()
        nodes = sum(key.startswith("node:") for key in snapshot.counts)
        edges = len(snapshot.counts) - nodes
        if as_json:
            render.out().json(
                {"uri": graph.uri, "graph_commit_id": snapshot.commit, "types": [*snapshot.counts]}
            )
        else:
            types = f"{counted(nodes, 'node type')}, {counted(edges, 'edge type')}"
            render.out().line(f"made {graph.uri} with {types}")
    return Status.OK
