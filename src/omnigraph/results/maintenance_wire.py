"""Reports of maintenance and profiles as JSON: the server writes them, the client reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from omnigraph.errors import JsonValue
from omnigraph.results.maintenance import (
    CleanedTable,
    CleanupResult,
    RepairedTable,
    RepairResult,
    VerifyFinding,
    VerifyResult,
)
from omnigraph.results.recovery import RecoveredWrite, RecoveryResult, SetAsideFile
from omnigraph.results.wire import read_commit, written_commit
from omnigraph.results.writes import EmbedResult, IndexResult, OptimizeResult


def verify_json(found: VerifyResult) -> dict[str, JsonValue]:
    """A verification."""
    return {**asdict(found), "findings": [asdict(each) for each in found.findings]}


def read_verify(found: Mapping[str, Any]) -> VerifyResult:
    """A verification, as a server has reported it."""
    findings = tuple(VerifyFinding(**each) for each in found["findings"])
    return VerifyResult(**{**found, "findings": findings})


def repair_json(done: RepairResult) -> dict[str, JsonValue]:
    """A repair."""
    return {
        "tables": [asdict(each) for each in done.tables],
        "commits": dict(done.commits),
        "dry_run": done.dry_run,
        "irreparable": [asdict(each) for each in done.irreparable],
    }


def read_repair(found: Mapping[str, Any]) -> RepairResult:
    """A repair, as a server has reported it."""
    return RepairResult(
        tables=tuple(RepairedTable(**each) for each in found["tables"]),
        commits=found["commits"],
        dry_run=found["dry_run"],
        irreparable=tuple(VerifyFinding(**each) for each in found.get("irreparable", ())),
    )


def cleanup_json(done: CleanupResult) -> dict[str, JsonValue]:
    """A clean-up."""
    return {
        "tables": [asdict(each) for each in done.tables],
        "states": done.states,
        "dry_run": done.dry_run,
    }


def read_cleanup(found: Mapping[str, Any]) -> CleanupResult:
    """A clean-up, as a server has reported it."""
    tables = tuple(CleanedTable(**each) for each in found["tables"])
    return CleanupResult(tables=tables, states=found["states"], dry_run=found["dry_run"])


def recovery_json(found: RecoveryResult) -> dict[str, JsonValue]:
    """A recovery."""
    return {
        "is_settled": found.is_settled,
        "writes": [{**asdict(each), "tables": list(each.tables)} for each in found.writes],
        "set_aside": [{**asdict(each), "at": each.at.isoformat()} for each in found.set_aside],
    }


def read_recovery(found: Mapping[str, Any]) -> RecoveryResult:
    """A recovery, as a server has reported it."""
    return RecoveryResult(
        writes=tuple(
            RecoveredWrite(**{**each, "tables": tuple(each["tables"])}) for each in found["writes"]
        ),
        set_aside=tuple(
            SetAsideFile(**{**each, "at": datetime.fromisoformat(each["at"])})
            for each in found["set_aside"]
        ),
    )


def embed_json(done: EmbedResult) -> dict[str, Any]:
    """A computation of vectors."""
    return {
        **written_commit(done.commit),
        "commits": done.commits,
        "vectors": dict(done.vectors),
        "skipped": done.skipped,
        "engine": done.engine,
        "reason": done.reason,
        "seconds": done.seconds,
    }


def read_embed(found: Mapping[str, Any]) -> EmbedResult:
    """A computation of vectors, as a server has reported it."""
    return EmbedResult(
        commit=_commit(found),
        commits=found["commits"],
        vectors=found["vectors"],
        skipped=found["skipped"],
        engine=found["engine"],
        reason=found["reason"],
        seconds=found["seconds"],
    )


def optimize_json(done: OptimizeResult) -> dict[str, Any]:
    """An optimisation."""
    return {
        **written_commit(done.commit),
        "fragments": {key: list(pair) for key, pair in done.fragments.items()},
        "indexes": [list(pair) for pair in done.indexes],
        "pending": [list(item) for item in done.pending],
        "engine": done.engine,
        "reason": done.reason,
        "seconds": done.seconds,
    }


def read_optimize(found: Mapping[str, Any]) -> OptimizeResult:
    """An optimisation, as a server has reported it."""
    return OptimizeResult(
        commit=_commit(found),
        fragments={key: (pair[0], pair[1]) for key, pair in found["fragments"].items()},
        indexes=tuple((a, b) for a, b in found["indexes"]),
        pending=tuple((a, b, c) for a, b, c in found["pending"]),
        engine=found["engine"],
        reason=found["reason"],
        seconds=found["seconds"],
    )


def indices_json(done: IndexResult) -> dict[str, Any]:
    """Indexes that were built."""
    return {
        **written_commit(done.commit),
        "built": [list(pair) for pair in done.built],
        "pending": [list(item) for item in done.pending],
    }


def read_indices(found: Mapping[str, Any]) -> IndexResult:
    """Indexes that a server has built."""
    return IndexResult(
        commit=_commit(found),
        built=tuple((a, b) for a, b in found["built"]),
        pending=tuple((a, b, c) for a, b, c in found["pending"]),
    )


def _commit(found: Mapping[str, Any]) -> Any:
    return None if found["commit"] is None else read_commit(found["commit"])
