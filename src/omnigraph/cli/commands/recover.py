"""`omnigraph recover`: settle what dead writers left, and say what was found."""

from dataclasses import asdict

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.errors import JsonValue
from omnigraph.graph.opening import open as open_graph
from omnigraph.graph.recovering import RecoveredWrite, RecoveryResult


def perform(store: str, *, as_json: bool) -> Status:
    """Recover a graph; fails if something is left that needs a person."""
    with open_graph(store, settings=settings()) as graph:
        found = graph.recover()
    screen = render.out()
    if as_json:
        screen.json(_plain(found))
    else:
        for write in found.writes:
            screen.line(_line(write))
            screen.line(f"  {write.explanation}")
        for file in found.set_aside:
            screen.line(f"set aside {file.path} ({file.reason}), kept as {file.kept_as}")
        if not found.writes:
            screen.line("nothing to recover")
    return Status.OK if found.is_settled else Status.FAILED


def _line(write: RecoveredWrite) -> str:
    what = f"{write.kind or 'commit of another tool'} on {write.branch}"
    outcome = write.outcome.replace("_", " ")
    named = f"{write.operation_id}  " if write.operation_id else ""
    return f"{named}{outcome}: {what} ({', '.join(write.tables)})"


def _plain(found: RecoveryResult) -> dict[str, JsonValue]:
    return {
        "writes": [asdict(write) for write in found.writes],
        "set_aside": [
            {**asdict(file), "at": file.at.isoformat().replace("+00:00", "Z")}
            for file in found.set_aside
        ],
        "settled": found.is_settled,
    }
