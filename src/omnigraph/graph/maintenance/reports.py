"""The reports of `graph.cleanup()`, `graph.recover()` and `graph.repair()`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from omnigraph.core.cleanup.cleaner import Cleaned, CleanedPart
from omnigraph.core.layout import intent_path
from omnigraph.core.maintenance.verify import Flaw
from omnigraph.core.recovery.repair import Drift, DriftVerdict
from omnigraph.core.recovery.settlement import Settled, Settlement
from omnigraph.results.maintenance import (
    CleanedTable,
    CleanupResult,
    RepairedTable,
    RepairResult,
    VerifyFinding,
)
from omnigraph.results.recovery import RecoveredWrite, RecoveryResult, SetAsideFile
from omnigraph.store.tables import SetAside
from omnigraph.types import BranchName, CommitId

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DRIFT = {
    DriftVerdict.MAINTENANCE: (
        "another tool has rewritten fragments or built indexes; rows are the same"
    ),
    DriftVerdict.SUSPICIOUS: (
        "another tool has changed rows, columns or settings; take that back with the tool that "
        "made it, or publish it as it is with `force`"
    ),
    DriftVerdict.UNVERIFIABLE: "what was done cannot be told; restore the table from a backup",
}


def cleanup_result(done: Cleaned, keys: Mapping[str, str], *, dry_run: bool) -> CleanupResult:
    """The report of a clean-up; `keys` names the type of each table by its folder."""
    tables = tuple(_cleaned(part, keys) for part in done.parts)
    return CleanupResult(tables=tables, states=done.states, dry_run=dry_run)


def _cleaned(part: CleanedPart, keys: Mapping[str, str]) -> CleanedTable:
    return CleanedTable(
        path=part.path,
        type=keys.get(part.path),
        versions=part.versions,
        forks=part.forks,
        files=part.files,
        bytes=part.bytes,
        error=part.error,
    )


def recovery_result(
    settlements: Iterable[Settlement], set_aside: Iterable[SetAside]
) -> RecoveryResult:
    """The report of some outcomes; of several about one operation the last one counts."""
    last = {(item.operation_id or item.note): item for item in settlements}
    return RecoveryResult(
        writes=tuple(_write(item) for item in last.values()),
        set_aside=tuple(
            SetAsideFile(
                path=item.path,
                kept_as=item.kept_as,
                reason=item.reason,
                at=_EPOCH + timedelta(microseconds=item.at_us),
            )
            for item in set_aside
        ),
    )


def _write(item: Settlement) -> RecoveredWrite:
    done = item.settled in (Settled.ROLLED_FORWARD, Settled.ROLLED_BACK)
    return RecoveredWrite(
        operation_id=item.operation_id,
        outcome=item.settled.value,
        commit=str(item.commit_id) if done and item.commit_id is not None else None,
        branch=str(item.branch),
        kind=item.writer,
        tables=item.tables,
        explanation=_explanation(item),
    )


def _explanation(item: Settlement) -> str:
    match item.settled:
        case Settled.ROLLED_FORWARD:
            return "it had landed as a whole, so it was finished"
        case Settled.ROLLED_BACK:
            return item.note or "it had not landed as a whole, so it was taken back"
        case Settled.GONE:
            return "somebody else settled it meanwhile"
        case Settled.LIVE:
            return "its process is at work, or was a moment ago; it is left alone"
        case Settled.DEFERRED:
            return f"it could not be settled now: {item.note}; try again"
        case Settled.STUCK if not item.operation_id:
            return item.note
        case Settled.STUCK:
            return (
                f"the evidence does not decide ({item.note}), so nothing was touched; once the "
                f"tables are as they should be, remove {intent_path(item.operation_id)}"
            )


def repair_result(
    found: Iterable[Drift],
    made: Mapping[BranchName, CommitId],
    flaws: Iterable[Flaw],
    *,
    dry_run: bool,
) -> RepairResult:
    """The report of a repair."""
    return RepairResult(
        tables=tuple(_repaired(drift, made, dry_run=dry_run) for drift in found),
        commits={str(branch): str(commit) for branch, commit in made.items()},
        dry_run=dry_run,
        irreparable=tuple(finding(flaw) for flaw in flaws),
    )


def finding(flaw: Flaw) -> VerifyFinding:
    """A finding as it is reported to callers."""
    return VerifyFinding(
        severity="warning" if flaw.is_harmless else "error",
        aspect=flaw.aspect.value,
        place=flaw.place,
        text=flaw.text,
    )


def _repaired(drift: Drift, made: Mapping[BranchName, CommitId], *, dry_run: bool) -> RepairedTable:
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
        explanation=_DRIFT[drift.verdict],
    )
