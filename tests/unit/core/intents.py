"""Intents for tests that need one and care about a part of it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.commits.requirements import (
    HeadIs,
    JudgedTableAt,
    SchemaIs,
    TableAt,
    requirement_of,
)
from omnigraph.core.commits.target import ExistingBranch, Target
from omnigraph.core.journal.intent import Intent, PlannedTable, WriterKind
from omnigraph.core.locks.owner import this_process
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
    """An intent; what is said about it may be of the intent, its commit or its request."""
    said = {"branch": MAIN, "incarnation": "main", "tables": (planned("t"),), **values}
    names = {item.name for item in fields(CommitRecord)}
    commit = {name: said.pop(name) for name in list(said) if name in names}
    chosen: dict[str, Any] = {
        "id": CommitId(_ids.new()),
        "parent_id": None,
        "actor": None,
        "created_at": NOW,
        "kind": WriterKind.MUTATION,
        **commit,
    }
    incarnation = said.pop("incarnation")
    branch = ExistingBranch(branch=chosen["branch"], incarnation=incarnation)
    target: Target = said.pop("target", branch)
    moved = (TableAt(item.table_key, item.expected) for item in said["tables"])
    head, judged = said.pop("head", None), said.pop("judged", {})
    request = CommitRequest(
        commit=CommitRecord(**chosen),
        target=target,
        requires=(
            requirement_of(target),
            *(() if head is None else (HeadIs(head),)),
            SchemaIs("digest"),
            *moved,
            *(JudgedTableAt(key, version) for key, version in judged.items()),
        ),
        records=said.pop("records", ()),
        schema_digest=said.pop("schema_digest", None),
    )
    intent: dict[str, Any] = {
        "operation_id": _ids.new(),
        "request": request,
        "rollback_commit_id": CommitId(_ids.new()),
        "owner": this_process(NOW),
        "confirms": False,
    }
    return Intent(**{**intent, **said})
