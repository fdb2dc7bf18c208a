"""Ending an operation early: when its time is up, or when another thread cancels it.

An operation that can be ended runs inside of a `limited` block. The places where it can stop
without harm, between two operators or two batches, call `check`. The limit travels in a context
variable, so that no function in between has to hand it on; threads that work for an operation run
in a copy of its context. Nothing is checked once a write has begun to change what is stored.
"""

import contextvars
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, TypeVar

from omnigraph.errors import Cancelled, Code, LimitExceeded
from omnigraph.runtime.clock import Clock, ProcessorClock, SystemClock

__all__ = ["CancelToken", "WorkLimit", "acquired", "check", "checked", "is_limited", "limited"]

T = TypeVar("T")

_POLL_S: Final = 0.05
_TIME: Final[Clock] = SystemClock()
_WORK: Final[Clock] = ProcessorClock()


class CancelToken:
    """Cancels the calls that it is given to as `cancel=`, from any thread.

    A token that was cancelled stays so: later calls with it are refused at once.

    Example:
        ```python
        token = og.CancelToken()
        timer = threading.Timer(30, token.cancel)
        timer.start()
        rows = graph.query("query q() { match { $p: Person } return { $p.name } }", cancel=token)
        timer.cancel()
        ```
    """

    __slots__ = ("_cancelled",)

    def __init__(self) -> None:
        """Cancel nothing yet."""
        self._cancelled = False

    def cancel(self) -> None:
        """End the calls that were given this token, soon."""
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        """True once `cancel` was called."""
        return self._cancelled


class _Limit:
    """The limits that end the running operation; a nested operation also obeys the outer ones."""

    __slots__ = ("_before", "_clock", "_deadline_ns", "_outer", "_timeout", "_token")

    def __init__(self, clock: Clock, timeout: float | None, token: CancelToken | None) -> None:
        self._clock = clock
        self._timeout = timeout
        self._token = token
        self._outer = _limit.get()
        self._deadline_ns = None if timeout is None else clock.ticks_ns() + int(timeout * 1e9)

    def __enter__(self) -> None:
        self.check()
        self._before = _limit.set(self)

    def __exit__(self, *failure: object) -> None:
        _limit.reset(self._before)

    def check(self) -> None:
        if self._outer is not None:
            self._outer.check()
        if self._token is not None and self._token.cancelled:
            raise Cancelled(Code.CANCELLED, "the operation was cancelled")
        if self._deadline_ns is None or self._clock.ticks_ns() < self._deadline_ns:
            return
        if self._is_over():
            text = f"the operation takes longer than its timeout of {self._timeout:g} seconds"
            raise LimitExceeded(Code.TIMEOUT, text, limit="timeout", most=self._timeout)

    def _is_over(self) -> bool:
        """True if an operation whose deadline has passed has to end."""
        return True


class WorkLimit(_Limit):
    """Lets `check` end what runs in the block after so much processor time of this thread.

    Reading it is a system call, which costs a small read more than its own work between two
    checks. So it is read only after half of the limit has passed on the clock, and the other half
    counts from there: less time on the clock is never more processor time.
    """

    __slots__ = ("_half_ns", "_work", "_work_end_ns")

    def __init__(self, seconds: float, time: Clock = _TIME, work: Clock = _WORK) -> None:
        """Begin to count, on a clock and on one of processor time."""
        super().__init__(time, seconds / 2, None)
        self._work = work
        self._half_ns = int(seconds / 2 * 1e9)
        self._work_end_ns: int | None = None

    def _is_over(self) -> bool:
        now = self._work.ticks_ns()
        if self._work_end_ns is None:
            self._work_end_ns = now + self._half_ns
        return now >= self._work_end_ns


_limit: Final[contextvars.ContextVar[_Limit | None]] = contextvars.ContextVar("limit", default=None)


def limited(
    clock: Clock, timeout: float | None, token: CancelToken | None
) -> AbstractContextManager[None]:
    """Let `check` end what runs in the block.

    Args:
        clock: Measures the time.
        timeout: After how many seconds; None for never.
        token: Whose cancellation ends it, too.
    """
    if timeout is None and token is None:
        return nullcontext()
    return _Limit(clock, timeout, token)


def is_limited() -> bool:
    """True if the running operation can be ended early."""
    return _limit.get() is not None


def check() -> None:
    """End the running operation here if its time is up or it was cancelled.

    Raises:
        LimitExceeded: Its time is up.
        Cancelled: It was cancelled.
    """
    limit = _limit.get()
    if limit is not None:
        limit.check()


def checked(items: Iterable[T]) -> Iterator[T]:
    """Items as they are, with a place to end before each of them."""
    for item in items:
        check()
        yield item


@contextmanager
def acquired(lock: "threading.Lock | threading.RLock") -> Iterator[None]:
    """Hold a lock; an operation that can be ended does not wait for it longer than it may."""
    if not is_limited():
        lock.acquire()
    else:
        while not lock.acquire(timeout=_POLL_S):
            check()
    try:
        yield
    finally:
        lock.release()
