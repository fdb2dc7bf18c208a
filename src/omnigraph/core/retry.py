"""Starting over: what a writer does when others have changed its base meanwhile.

A write is made for one state of the graph, and is refused when what it depends on has moved on. Its
author then makes it anew for the newest state, a bounded number of times. Writers of one process
that start over do so one by one, in the order in which they came, and newcomers queue up behind
them; writers of several processes pause a little longer after each loss.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TypeVar

from omnigraph.core.locks import writer_queue
from omnigraph.errors import Busy, Code, Conflict
from omnigraph.runtime import cancellation, telemetry
from omnigraph.runtime.retry_policy import RetryPolicy, wait_seconds

__all__ = ["RetryPolicy", "is_lost_race", "wait_seconds", "with_retries"]

T = TypeVar("T")

_LOST_RACES: Final = frozenset(
    {Code.EXPECTED_VERSION_MISMATCH, Code.HEAD_CONTENTION, Code.WRITER_ACTIVE, Code.BUSY}
)


def is_lost_race(error: Conflict | Busy) -> bool:
    """True if the same write may succeed when it is made for a newer state."""
    return error.code in _LOST_RACES


def with_retries(
    attempt: Callable[[int, bool], T],
    *,
    root: str,
    branch: str,
    policy: RetryPolicy,
    name: str,
    wait: Callable[[float], None] = wait_seconds,
    takes_turns: bool = True,
    reads_schema: bool = False,
) -> T:
    """Attempt a write on newer and newer states until it goes through.

    Args:
        attempt: Makes the write and commits it; gets the number of attempts before it, and
            whether the state that the caller pinned is stale, so that it has to look anew.
        root: Where the graph is.
        branch: What the write changes.
        policy: How often, and how long to wait.
        name: What to count the retries under.
        wait: Sleeps.
        takes_turns: Others of this process that start over on the branch wait meanwhile. Not for
            long work.
        reads_schema: An attempt looks at the schema anew, so that it can follow a change of it.

    Raises:
        Conflict, Busy: What the last attempt met, with the number of attempts in its details.
    """
    losses, is_stale = 0, False
    with ExitStack() as turn:
        if takes_turns and policy.retries and writer_queue.is_started_over(root, branch):
            turn.enter_context(writer_queue.starting_over(root, branch))
            is_stale = True
        while True:
            try:
                return attempt(losses, is_stale)
            except (Conflict, Busy) as error:
                losses += 1
                is_followed = reads_schema and error.code is Code.SCHEMA_CHANGED
                if not is_followed and not is_lost_race(error):
                    raise
                if losses > policy.retries:
                    raise _final(error, losses) from error
            if takes_turns and not is_stale:
                turn.enter_context(writer_queue.starting_over(root, branch))
            is_stale = True
            telemetry.count(f"{name}.again")
            wait(policy.pause(losses))
            cancellation.check()


def following_schema(attempt: Callable[[], T], policy: RetryPolicy) -> T:
    """Attempt a write again for the schema that has come into force meanwhile."""
    for _ in range(policy.long_retries):
        try:
            return attempt()
        except Conflict as error:
            if error.code is not Code.SCHEMA_CHANGED:
                raise
    return attempt()


def _final(error: Conflict | Busy, attempts: int) -> Conflict | Busy:
    """The error that the caller sees, with the number of attempts."""
    text = str(error) if attempts == 1 else f"{error} (attempt {attempts}, the last one)"
    return type(error)(error.code, text, **{**error.details, "attempts": attempts})
