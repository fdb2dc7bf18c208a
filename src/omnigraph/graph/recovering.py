"""The report of `graph.recover()`: each write that had stopped half-way, in words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from omnigraph.core.layout import intent_path
from omnigraph.core.recovery.settlement import Settled, Settlement
from omnigraph.results.recovery import RecoveredWrite, RecoveryResult, SetAsideFile
from omnigraph.store.tables import SetAside

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
            return f"{item.note}; take that commit back with the tool that made it"
        case Settled.STUCK:
            return (
                f"the evidence does not decide ({item.note}), so nothing was touched; once the "
                f"tables are as they should be, remove {intent_path(item.operation_id)}"
            )
