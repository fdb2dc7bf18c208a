"""The report of `graph.repair()`: each table that was adrift, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from omnigraph.core.recovery.repair import Drift, DriftVerdict
from omnigraph.results.upkeep import RepairedTable, RepairResult
from omnigraph.types import BranchName, CommitId

_EXPLANATIONS = {
    DriftVerdict.MAINTENANCE: (
        "another tool has rewritten fragments or built indexes; rows are the same"
    ),
    DriftVerdict.SUSPICIOUS: (
        "another tool has changed rows, columns or settings; take that back with the tool that "
        "made it, or publish it as it is with `force`"
    ),
    DriftVerdict.UNVERIFIABLE: "what was done cannot be told; restore the table from a backup",
}


def repair_result(
    found: Iterable[Drift], made: Mapping[BranchName, CommitId], *, dry_run: bool
) -> RepairResult:
    """The report of a repair."""
    return RepairResult(
        tables=tuple(_table(drift, made, dry_run=dry_run) for drift in found),
        commits={str(branch): str(commit) for branch, commit in made.items()},
        dry_run=dry_run,
    )


def _table(drift: Drift, made: Mapping[BranchName, CommitId], *, dry_run: bool) -> RepairedTable:
    is_done = drift.branch in made and drift.rows is not None
    if dry_run:
        action = "preview"
    elif drift.verdict is DriftVerdict.MAINTENANCE:
        action = "healed"
    else:
        action = "forced" if is_done else "refused"
    return RepairedTable(
        branch=str(drift.branch),
        type=drift.pin.table_key,
        path=drift.pin.path,
        published=drift.pin.version,
        head=drift.head,
        verdict=drift.verdict.value,
        action=action,
        explanation=_EXPLANATIONS[drift.verdict],
    )
