"""The report of a recovery."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

# The outcomes of writes about which something is left to do.
_OPEN: Final = frozenset({"live", "deferred", "stuck"})


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
        return not any(write.outcome in _OPEN for write in self.writes)
