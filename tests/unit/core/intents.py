"""Intents for tests that need one and care about a part of it."""

from __future__ import annotations

from typing import Any

from omnigraph.core.recovery.intent import Intent, PlannedTable, WriterKind
from omnigraph.core.recovery.owner import this_process
from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.ids import UlidIds
from omnigraph.types import MAIN, CommitId

NOW = 1_700_000_000_000_000
_ids = UlidIds.seeded(7, ManualClock(NOW))


def planned(
    key: str,
    *,
    expected: int = 5,
    uuids: tuple[str, ...] = ("a",),
    confirmed: int | None = None,
) -> PlannedTable:
    return PlannedTable(
        table_key=key,
        path=f"nodes/{key}",
        table_branch=None,
        expected=expected,
        uuids=uuids,
        row_count=3,
        confirmed=confirmed,
    )


def an_intent(**values: Any) -> Intent:
    chosen: dict[str, Any] = {
        "operation_id": _ids.new(),
        "kind": WriterKind.MUTATION,
        "branch": MAIN,
        "incarnation": "main",
        "commit_id": CommitId(_ids.new()),
        "rollback_commit_id": CommitId(_ids.new()),
        "schema_base": "digest",
        "created_at": NOW,
        "owner": this_process(NOW),
        "tables": (planned("t"),),
        "confirms": False,
    }
    return Intent(**{**chosen, **values})
