"""`omnigraph serve`: serves graphs over HTTP."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.extras import extra
from omnigraph.cli.lazy import command
from omnigraph.cli.parameters import Argument, Option, UsageError


@command(
    "omnigraph serve people.omni",
    "omnigraph serve graphs/ --bind 0.0.0.0:8080 --tokens tokens.json --workers 4",
    "omnigraph serve --config server.yaml",
)
def serve(
    graph: Annotated[
        str | None,
        Argument(metavar="GRAPH|FOLDER", help="A graph, or a folder of graphs."),
    ] = None,
    config: Annotated[
        Path | None,
        Option("--config", "-c", metavar="FILE", help="Graphs, tokens and budgets, in YAML."),
    ] = None,
    bind: Annotated[
        str | None, Option("--bind", metavar="HOST:PORT", help="Port 0 takes any free one.")
    ] = None,
    tokens: Annotated[
        Path | None, Option("--tokens", metavar="FILE", help="The bearer tokens, as JSON.")
    ] = None,
    unauthenticated: Annotated[
        bool,
        Option("--unauthenticated", help="Let everybody in, from other machines, too."),
    ] = False,
    queries: Annotated[
        Path | None,
        Option("--queries", metavar="FOLDER", help="The stored queries of the one graph."),
    ] = None,
    jobs: Annotated[
        Path | None, Option("--jobs", metavar="FOLDER", help="Keeps jobs and their parts.")
    ] = None,
    workers: Annotated[
        int, Option("--workers", min=1, max=64, help="How many processes serve.")
    ] = 1,
) -> Status:
    """Serve graphs over HTTP, until a signal ends it."""
    # The server brings a web framework along, for which nobody else should wait.
    with extra("server", "the server"):
        from omnigraph.server.config import ServerConfig, address, found_graphs, read_config
        from omnigraph.server.run import serve as run

    if (graph is None) == (config is None):
        raise UsageError("give either a graph, or a folder of graphs, or --config")
    fields: dict[str, Any] = (
        read_config(config) if config is not None else {"graphs": found_graphs(graph or "")}
    )
    if bind is not None:
        fields["host"], fields["port"] = address(bind)
    if tokens is not None:
        fields["tokens"] = tokens
    if jobs is not None:
        fields["jobs"] = jobs
    if unauthenticated:
        fields["unauthenticated"] = True
    if queries is not None:
        fields["graphs"] = tuple(replace(each, queries=queries) for each in fields["graphs"])
    screen = render.out()
    run(ServerConfig(**fields), workers=workers, told=lambda line: _told(screen, line))
    return Status.OK


def _told(screen: Any, line: str) -> None:
    screen.exactly(f"{line}\n")
    sys.stdout.flush()
