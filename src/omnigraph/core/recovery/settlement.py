"""The outcome of settling a write that stopped half-way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from omnigraph.types import BranchName, CommitId

RECOVERY_ACTOR: Final = "omnigraph:recovery"


class Settled(StrEnum):
    """The ways in which the intent of a write was settled, or was not."""

    ROLLED_FORWARD = "rolled_forward"
    ROLLED_BACK = "rolled_back"
    GONE = "gone"  # another process settled it
    LIVE = "live"  # its owner is at work
    DEFERRED = "deferred"  # others were faster too often
    STUCK = "stuck"  # the evidence does not decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """One write and what became of it.

    Attributes:
        operation_id: The operation; of an orphaned version, the one that took it back.
        commit_id: The commit that the write makes or would have made; of an orphaned version, the
            one that took it back.
        settled: What became of it.
        branch: Where it wrote.
        writer: What kind of write it was.
        tables: What it changes, or would have changed.
        note: What was seen.
    """

    operation_id: str
    commit_id: CommitId | None
    settled: Settled
    branch: BranchName
    writer: str
    tables: tuple[str, ...]
    note: str = ""
