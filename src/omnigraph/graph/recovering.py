"""The report of `graph.recover()`: each write that had stopped half-way, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from omnigraph.core.layout import intent_path
from omnigraph.core.recovery.settlement import Settled, Settlement
from omnigraph.store.tables import SetAside

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OPEN = frozenset({Settled.LIVE, Settled.DEFERRED, Settled.STUCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredWrite:
    """A write that had stopped half-way.

    Attributes:
        operation_id: The operation, as an error about it named it; empty for what another tool did.
        outcome: `rolled_forward`: it is visible now. `rolled_back`: nothing of it is left.
            `live`: its process is at work. `deferred`: others were faster, try again.
            `stuck`: nothing was touched, see the explanation.
        commit: The commit that holds the outcome; None where there is none.
        branch: Where it wrote.
        kind: What it was: `mutation`, `load` and so on.
        tables: The types that it changes, such as `node:Person`.
        explanation: What was found and done, and what to do next where something is left to do.
    """

    operation_id: str
    outcome: str
    commit: str | None
    branch: str
    kind: str
    tables: tuple[str, ...]
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideFile:
    """A file that a power cut left unfinished, and that was moved out of the way.

    Attributes:
        path: Where it was, relative to the graph.
        kept_as: Where it is now.
        reason: What was wrong with it.
        at: When it was moved, in UTC.
    """

    path: str
    kept_as: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryResult:
    """The findings and actions of `recover`.

    Attributes:
        writes: Each write that had stopped half-way, what the opening of this handle settled
            included.
        set_aside: Every file of this graph that was ever set aside.
    """

    writes: tuple[RecoveredWrite, ...]
    set_aside: tuple[SetAsideFile, ...]

    @property
    def is_settled(self) -> bool:
        """True if nothing is left that waits, or needs a person."""
        return not any(Settled(write.outcome) in _OPEN for write in self.writes)


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
