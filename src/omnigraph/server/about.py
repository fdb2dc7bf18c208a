"""Routes about the server, its graphs, their states and their maintenance."""

from __future__ import annotations

from typing import Any, Final, NotRequired, TypedDict

import omnigraph as og
from omnigraph.errors import NotFound
from omnigraph.policy.authorization import Permission
from omnigraph.results.wire import commit_json
from omnigraph.server import requests
from omnigraph.server.call import Reply, RouteCall, Streamed
from omnigraph.server.encoding import encode
from omnigraph.server.streams import Sink

# The wire that is spoken: clients of the original look at it.
WIRE_VERSION: Final = "0.10.0"
_SCHEMA_VERSION: Final = 6
_EVENT_WAIT_US: Final = 500_000


class HealthOutput(TypedDict):
    """A server that answers."""

    status: str
    version: str
    source_version: str
    internal_schema_version: int


class ReadyOutput(TypedDict):
    """The number of graphs that are ready."""

    ready: bool
    status: str
    served: int
    blocked: int
    shutdown_grace_seconds: int


class GraphsOutput(TypedDict):
    """The graphs of a server."""

    graphs: list[dict[str, Any]]


class Dataset(TypedDict):
    """The table of one type."""

    entity_kind: str
    type_name: str
    dataset_path: str
    published_dataset_version: int
    entity_count: int
    native_dataset_branch: NotRequired[str]


class SnapshotOutput(TypedDict):
    """A pinned state of a graph."""

    graph_branch: str
    graph_commit_id: str
    graph_manifest_version: int
    internal_schema_version: int
    datasets: list[Dataset]


def health(call: RouteCall) -> Reply:
    """Say that the server lives."""
    found: HealthOutput = {
        "status": "ok",
        "version": WIRE_VERSION,
        "source_version": og.__version__,
        "internal_schema_version": _SCHEMA_VERSION,
    }
    return Reply(body=found)


def ready(call: RouteCall) -> Reply:
    """Say whether the server is ready for requests."""
    server = call.server
    served = sum(each.is_ready for each in server.graphs.values())
    is_ready = served > 0 and not server.is_ending
    found: ReadyOutput = {
        "ready": is_ready,
        "status": "ready" if is_ready else "not_ready",
        "served": served,
        "blocked": len(server.graphs) - served,
        "shutdown_grace_seconds": server.config.budgets.shutdown_seconds,
    }
    return Reply(body=found, status=200 if is_ready else 503)


def list_graphs(call: RouteCall) -> Reply:
    """List the graphs."""
    call.server.authorise(call.actor, Permission.GRAPH_LIST)
    found: GraphsOutput = {
        "graphs": [
            {"graph_id": name, "uri": f"/graphs/{name}"} for name in sorted(call.server.graphs)
        ]
    }
    return Reply(body=found)


def metrics(call: RouteCall) -> Reply:
    """The numbers of the server, in the text format of Prometheus."""
    call.server.authorise(call.actor, Permission.GRAPH_LIST)
    admission = call.server.admission
    held = {name: admission.in_flight(f"{name}_bytes_per_actor") for name in ("body", "spool")}
    text = call.server.metrics.text(dict(call.server.in_use), held)
    return Reply(body=text.encode(), media="text/plain; version=0.0.4")


def snapshot(call: RouteCall) -> Reply:
    """Show a state of a graph: its commit, and how many entities its types have."""
    asked: requests.SnapshotTerms = call.terms
    pinned = call.graph.snapshot(asked.branch, at=asked.at, version=asked.version)
    datasets: list[Dataset] = []
    for key, pin in sorted(pinned.pinned.tables.items()):
        kind, _, name = key.partition(":")
        item: Dataset = {
            "entity_kind": kind,
            "type_name": name,
            "dataset_path": pin.path,
            "published_dataset_version": pin.version,
            "entity_count": pin.row_count,
        }
        if pin.table_branch is not None:
            item["native_dataset_branch"] = pin.table_branch
        datasets.append(item)
    found: SnapshotOutput = {
        "graph_branch": pinned.branch,
        "graph_commit_id": pinned.commit,
        "graph_manifest_version": pinned.version,
        "internal_schema_version": _SCHEMA_VERSION,
        "datasets": datasets,
    }
    return Reply(body=found)


def blame(call: RouteCall) -> Reply:
    """List the commits that changed one entity."""
    asked: requests.BlameTerms = call.terms
    lines = call.graph.blame(
        asked.type, asked.id, branch=asked.branch, at=asked.at, limit=asked.limit
    )
    return Reply(
        body={
            "lines": [
                {
                    "commit": commit_json(line.commit),
                    "op": line.operation,
                    "changed": list(line.changed),
                }
                for line in lines
            ]
        }
    )


def events(call: RouteCall) -> Streamed:
    """Send an event whenever the head of a branch has moved, as server-sent events."""
    asked: requests.BranchTerms = call.terms
    graph, clock = call.graph, call.server.clock
    first = graph.snapshot(asked.branch).commit

    def write(sink: Sink) -> None:
        last = ""
        sink.write(b": heads of a branch\n\n")
        while not call.cancel.cancelled and not call.server.is_ending:
            try:
                head = graph.snapshot(asked.branch).commit
            except NotFound:
                sink.write(b"event: gone\ndata: {}\n\n")
                return
            if head != last:
                data = encode({"branch": asked.branch or "main", "graph_commit_id": head})
                name = b"head" if last else b"start"
                sink.write(b"event: " + name + b"\ndata: " + data + b"\n\n")
                last = head
            clock.wait(_EVENT_WAIT_US)

    headers = {"cache-control": "no-store", "omnigraph-graph-commit": first}
    return Streamed(write=write, media="text/event-stream", headers=headers)
