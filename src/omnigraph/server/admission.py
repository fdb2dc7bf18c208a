"""Admission: how much one actor may ask for at once, and in the long run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import Busy, Code
from omnigraph.runtime.clock import Clock

_NS: int = 1_000_000_000


class Admission:
    """Counts what actors have in flight, and refills their buckets. Thread-safe.

    A server of several processes has one of these in each, so the bounds are divided by their
    number.
    """

    def __init__(self, clock: Clock, *, per_second: float, workers: int = 1) -> None:
        """Let every actor make so many requests per second; 0 for any number."""
        self._clock = clock
        self._rate = per_second / workers
        self._workers = workers
        self._lock = threading.Lock()
        self._in_flight: Counter[tuple[str, str]] = Counter()
        self._buckets: dict[str, tuple[float, int]] = {}

    def request(self, actor: str) -> None:
        """Take one request from the bucket of an actor.

        Raises:
            Busy: It is empty; `details["retry_after"]` says for how many seconds.
        """
        if not self._rate:
            return
        most = max(1.0, self._rate)
        now = self._clock.ticks_ns()
        with self._lock:
            if len(self._buckets) > 100_000:
                self._buckets.clear()
            left, before = self._buckets.get(actor, (most, now))
            left = min(most, left + (now - before) / _NS * self._rate)
            if left < 1:
                self._buckets[actor] = (left, now)
                raise _busy("requests_per_second", (1 - left) / self._rate)
            self._buckets[actor] = (left - 1, now)

    @contextmanager
    def holding(self, actor: str, what: str, most: int) -> Iterator[None]:
        """Hold one of the places that an actor has for something.

        Raises:
            Busy: All of them are taken.
        """
        key = (actor, what)
        bound = max(1, most // self._workers)
        with self._lock:
            if self._in_flight[key] >= bound:
                raise _busy(what, 1)
            self._in_flight[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_flight[key] -= 1
                if not self._in_flight[key]:
                    del self._in_flight[key]


def _busy(what: str, seconds: float) -> Busy:
    wait = max(1, int(seconds + 0.999))
    text = f"too much at once: the budget `{what}` of this actor is used up; wait {wait} s"
    return Busy(Code.BUSY, text, limit=what, retry_after=wait)
