"""Time as a component.

Wall time is for records and people and may jump; ticks are for durations and only go forward.
Both are integers, because floats lose microseconds in this century.
"""

import threading
import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "ProcessorClock", "SystemClock"]


class Clock(Protocol):
    """A source of time."""

    def now_us(self) -> int:
        """Return microseconds since the Unix epoch."""
        ...

    def ticks_ns(self) -> int:
        """Return nanoseconds since an arbitrary moment; never decreases."""
        ...

    def wait(self, us: int) -> None:
        """Return after about as many microseconds."""
        ...


class SystemClock:
    """The time of the machine."""

    __slots__ = ()

    def now_us(self) -> int:
        """Return microseconds since the Unix epoch."""
        return time.time_ns() // 1_000

    def ticks_ns(self) -> int:
        """Return the machine's monotonic counter."""
        return time.monotonic_ns()

    def wait(self, us: int) -> None:
        """Sleep."""
        time.sleep(us / 1e6)


class ProcessorClock(SystemClock):
    """A clock whose ticks are the processor time of the calling thread."""

    __slots__ = ()

    def ticks_ns(self) -> int:
        """Return the time that the calling thread has worked, without what it waited."""
        return time.thread_time_ns()


class ManualClock:
    """A clock that stands still until it is moved. Safe to share between threads."""

    def __init__(self, now_us: int = 0) -> None:
        self._lock = threading.Lock()
        self._now_us = now_us
        self._ticks_ns = 0

    def now_us(self) -> int:
        """Return the wall time as last set."""
        with self._lock:
            return self._now_us

    def ticks_ns(self) -> int:
        """Return the sum of all advances."""
        with self._lock:
            return self._ticks_ns

    def advance(self, us: int) -> None:
        """Let time pass, on the wall and in ticks."""
        if us < 0:
            raise ValueError("time passes forward; use set_wall to turn the wall clock back")
        with self._lock:
            self._now_us += us
            self._ticks_ns += us * 1_000

    def wait(self, us: int) -> None:
        """Let the time pass at once."""
        self.advance(us)

    def set_wall(self, now_us: int) -> None:
        """Turn the wall clock, in either direction, as an administrator would."""
        with self._lock:
            self._now_us = now_us
