"""Starting over: what a writer does when others have changed its base meanwhile.

A write is made for one state of the graph, and is refused when what it depends on has moved on. Its
author then makes it anew for the newest state, a bounded number of times. Writers of one process
that start over do so one by one, in the order in which they came, and newcomers queue up behind
them; writers of several processes pause a little longer after each loss.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from omnigraph.core import gates
from omnigraph.errors import Busy, Code, Conflict
from omnigraph.runtime import cancellation, telemetry

__all__ = ["RetryPolicy", "is_lost_race", "wait_seconds", "with_retries"]

T = TypeVar("T")

_LOST_RACES: Final = frozenset(
    {Code.EXPECTED_VERSION_MISMATCH, Code.HEAD_CONTENTION, Code.WRITER_ACTIVE, Code.BUSY}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a write starts over, and how it backs off.

    Attributes:
        retries: How often at most; 0 gives the conflict to the caller at once.
        pause_s: How long it waits after the second loss, in seconds; twice as long after the
            third, and so on.
        pause_max_s: The longest pause.
    """

    retries: int = 100
    pause_s: float = 0.002
    pause_max_s: float = 0.1

    def pause(self, losses: int) -> float:
        """Return how long to wait after so many lost races; after the first, not at all."""
        return min(self.pause_s * (losses - 1), self.pause_max_s)


def wait_seconds(seconds: float) -> None:
    """Sleep."""
    threading.Event().wait(seconds)


def is_lost_race(error: Conflict | Busy) -> bool:
    """Whether the same write may succeed when it is made for a newer state."""
    return error.code in _LOST_RACES


def with_retries(
    attempt: Callable[[int], T],
    *,
    root: str,
    branch: str,
    policy: RetryPolicy,
    name: str,
    wait: Callable[[float], None] = wait_seconds,
) -> T:
    """Attempt a write on newer and newer states until it goes through.

    Args:
        attempt: Makes the write and commits it; is told how many attempts there were before.
        root: Where the graph is.
        branch: What the write changes.
        policy: How often, and how long to wait.
        name: What to count the retries under.
        wait: Sleeps.

    Raises:
        Conflict, Busy: What the last attempt met, with the number of attempts in its details.
    """
    losses = 0
    if not (policy.retries and gates.is_started_over(root, branch)):
        try:
            return attempt(0)
        except (Conflict, Busy) as error:
            losses = 1
            if not is_lost_race(error):
                raise
            if losses > policy.retries:
                raise _final(error, losses) from error
    with gates.again(root, branch):
        while True:
            wait(policy.pause(losses))
            cancellation.check()
            telemetry.count(f"{name}.again")
            try:
                return attempt(losses)
            except (Conflict, Busy) as error:
                losses += 1
                if not is_lost_race(error):
                    raise
                if losses > policy.retries:
                    raise _final(error, losses) from error


def _final(error: Conflict | Busy, attempts: int) -> Conflict | Busy:
    """The error that the caller sees, with the number of attempts."""
    text = str(error) if attempts == 1 else f"{error} (attempt {attempts}, the last one)"
    return type(error)(error.code, text, **{**error.details, "attempts": attempts})
