"""Routes of maintenance: what keeps a graph small, fast and sound."""

from __future__ import annotations

from omnigraph.results.maintenance_wire import (
    cleanup_json,
    embed_json,
    indices_json,
    optimize_json,
    recovery_json,
    repair_json,
    verify_json,
)
from omnigraph.server import requests
from omnigraph.server.call import Reply, RouteCall


def optimize(call: RouteCall) -> Reply:
    """Compact tables and bring indexes up to date."""
    asked: requests.MaintenanceInput = call.body or requests.MaintenanceInput()
    done = call.graph.optimize(
        branch=asked.branch, message=asked.message, cancel=call.cancel, engine="inprocess"
    )
    return Reply(body=optimize_json(done))


def ensure_indices(call: RouteCall) -> Reply:
    """Build every index that is missing or damaged."""
    asked: requests.MaintenanceInput = call.body or requests.MaintenanceInput()
    done = call.graph.ensure_indices(branch=asked.branch, message=asked.message, cancel=call.cancel)
    return Reply(body=indices_json(done))


def recover(call: RouteCall) -> Reply:
    """Settle what dead writers left behind."""
    return Reply(body=recovery_json(call.graph.recover()))


def cleanup(call: RouteCall) -> Reply:
    """Remove old states of the graph, and every file that none of the others needs."""
    asked: requests.CleanupInput = call.body or requests.CleanupInput()
    done = call.graph.cleanup(
        keep=asked.keep,
        older_than=asked.older_than,
        dry_run=asked.dry_run,
        set_aside=asked.set_aside,
        cancel=call.cancel,
    )
    return Reply(body=cleanup_json(done))


def verify(call: RouteCall) -> Reply:
    """Compare what the graph says about itself with what is stored."""
    asked: requests.VerifyInput = call.body or requests.VerifyInput()
    found = call.graph.verify(asked.depth, engine="inprocess", cancel=call.cancel)
    return Reply(body=verify_json(found))


def repair(call: RouteCall) -> Reply:
    """Settle tables that are further than what is published."""
    asked: requests.RepairInput = call.body or requests.RepairInput()
    return Reply(body=repair_json(call.graph.repair(dry_run=asked.dry_run, force=asked.force)))


def embed(call: RouteCall) -> Reply:
    """Compute vectors that are missing from their texts."""
    asked: requests.EmbedInput = call.body or requests.EmbedInput()
    done = call.graph.embed(
        missing=asked.missing,
        types=asked.types,
        branch=asked.branch,
        batch=asked.batch,
        message=asked.message,
        engine="inprocess",
        cancel=call.cancel,
    )
    return Reply(body=embed_json(done))
