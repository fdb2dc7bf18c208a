"""The decision about an intent: a pure function of what is stored. `sweep` carries it out.

All tables of an intent go the same way, forward or back. Forward is chosen only when every table
has landed exactly what was planned; back only when whatever moved is provably the writer's own.
Anything else stops, with an error that says what was seen.

Back means two things. Tables that have not moved are fenced: the place that the writer could still
take is occupied, so that a landing which arrives late is refused. Tables that moved are restored.

Two processes that decide about the intent of a dead writer at the same time see the same facts and
come to the same verdict. A restored table is such a fact: it carries the name of the roll-back in
its history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.core.journal.intent import Intent, PlannedTable


class TableState(StrEnum):
    """The state of a table with respect to an intent."""

    NO_MOVEMENT = "no_movement"
    ROLLED_PAST_EXPECTED = "rolled_past_expected"
    RESTORED = "restored"
    OVERTAKEN = "overtaken"  # another write took the place, so this one never landed and never will
    UNEXPECTED_AT_P1 = "unexpected_at_p1"
    UNEXPECTED_MULTISTEP = "unexpected_multistep"
    INCOMPLETE_PHASE_B = "incomplete_phase_b"
    INVARIANT_VIOLATION = "invariant_violation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tip:
    """A table as recovery sees it: its head, transactions since `expected`, its published pin."""

    head: int
    uuids: tuple[str | None, ...]  # of the versions expected + 1 to head
    published: int | None  # None when the branch does not list the table, or another fork of it


@dataclass(frozen=True, slots=True)
class Forget:
    """The outcome is published already: only the audit and the file are left to do."""


@dataclass(frozen=True, slots=True)
class Discard:
    """Nothing moved and nothing can: the write never happened."""


@dataclass(frozen=True, slots=True)
class RollForward:
    """Everything landed: publish these versions."""

    versions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RollBack:
    """It cannot be published as a whole.

    `fence` are the tables that have not moved, `restore` those that have, beginning with those that
    have not landed as a whole. That order matters: once the next place of one table is taken, the
    writer can neither finish nor publish.
    """

    fence: tuple[str, ...]
    restore: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """The evidence does not decide; nothing may be touched."""

    states: Mapping[str, TableState]

    @property
    def reason(self) -> str:
        """The evidence, in one line."""
        return ", ".join(f"{key}: {state}" for key, state in sorted(self.states.items()))


Verdict = Forget | Discard | RollForward | RollBack | Stop

_FOREIGN = frozenset(
    {
        TableState.UNEXPECTED_AT_P1,
        TableState.UNEXPECTED_MULTISTEP,
        TableState.INVARIANT_VIOLATION,
    }
)


def classify(planned: PlannedTable, tip: Tip | None, *, confirms: bool) -> TableState:
    """The state of one table. `confirms`: the writer notes landed versions before it goes on.

    Without a tip nothing is known about the table, which is as bad as a contradiction.
    """
    if tip is None or tip.head < planned.expected:
        return TableState.INVARIANT_VIOLATION
    if _overtaken(planned, tip):
        return TableState.OVERTAKEN
    if tip.published is not None and tip.published > planned.expected:
        # No writer publishes a table that an unpublished write has moved.
        return TableState.INVARIANT_VIOLATION
    landed = _own_commits(planned, tip)
    if landed is None:
        one = tip.head == planned.expected + 1
        return TableState.UNEXPECTED_AT_P1 if one else TableState.UNEXPECTED_MULTISTEP
    if landed < len(tip.uuids):
        return TableState.RESTORED
    if landed == 0:
        return TableState.NO_MOVEMENT
    complete = planned.confirmed == tip.head if confirms else tip.head == planned.planned
    return TableState.ROLLED_PAST_EXPECTED if complete else TableState.INCOMPLETE_PHASE_B


def _overtaken(planned: PlannedTable, tip: Tip) -> bool:
    """True if another commit has the place of our first one.

    What is published must be among what is seen. A version whose commit is not known might be
    ours, as long as the place of the first commit is not known to be taken.
    """
    ours = {*planned.uuids, planned.restore_uuid}
    if not tip.uuids or tip.uuids[0] in (None, *ours) or tip.head < (tip.published or 0):
        return False
    return ours.isdisjoint(tip.uuids) and len(tip.uuids) == tip.head - planned.expected


def _own_commits(planned: PlannedTable, tip: Tip) -> int | None:
    """The number of planned commits that have landed; None when anything else is among them.

    The history since `expected` must be the planned commits in their order, as far as they came,
    and after them nothing or the one that restores or fences the table.
    """
    if len(tip.uuids) != tip.head - planned.expected:
        return None
    seen = tip.uuids
    if seen and seen[-1] == planned.restore_uuid:
        seen = seen[:-1]
    return len(seen) if seen == planned.uuids[: len(seen)] else None


def decide(
    intent: Intent,
    tips: Mapping[str, Tip],
    *,
    settled: bool = False,
    holds: bool = True,
) -> Verdict:
    """The verdict on an intent, given a tip for each of its tables.

    Args:
        intent: The write that stopped.
        tips: What is seen of its tables; not looked at when `settled`.
        settled: Whether the commit of the write, or the one that undid it, is visible.
        holds: Whether everything that the write depends on is still as it was. Once it is not, it
            never is again, so a later process cannot come to another verdict.
    """
    if settled:
        return Forget()
    planned = {item.table_key: item.planned for item in intent.tables}

    def is_whole(key: str) -> bool:
        return tips[key].head >= planned[key]

    states = {
        item.table_key: classify(item, tips.get(item.table_key), confirms=intent.confirms)
        for item in intent.tables
    }
    seen = set(states.values())
    if seen & _FOREIGN:
        return Stop(states)
    if seen == {TableState.ROLLED_PAST_EXPECTED} and holds:
        return RollForward({key: tips[key].head for key in states})
    fence = tuple(sorted(key for key, state in states.items() if state is TableState.NO_MOVEMENT))
    still = {TableState.NO_MOVEMENT, TableState.OVERTAKEN}
    restore = tuple(key for key, state in states.items() if state not in still)
    if not fence and not restore:
        return Discard()
    return RollBack(fence, tuple(sorted(restore, key=lambda key: (is_whole(key), key))))
