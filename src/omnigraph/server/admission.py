"""Admission: bounds on what one actor may ask for at once, and per second."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import Busy, Code
from omnigraph.runtime.clock import Clock
from omnigraph.server.streams import body_limit

_NS: int = 1_000_000_000
_Place = tuple[str, str]


class InFlight:
    """The bytes that one request holds, among those of its actor. Thread-safe."""

    __slots__ = ("_admission", "_held", "_is_over", "_most", "_place")

    def __init__(self, admission: Admission, place: _Place, most: int) -> None:
        """Hold nothing yet, of at most so many bytes of the actor."""
        self._admission = admission
        self._place = place
        self._most = most
        self._held = 0
        self._is_over = False

    def take(self, count: int) -> None:
        """Hold so many bytes more, or fewer if the number is negative.

        Raises:
            LimitExceeded: The request alone holds more than the actor may.
            Busy: All requests of the actor together do.
        """
        if self._is_over:
            return
        held = self._held + count
        if held > self._most:
            raise body_limit(self._place[1], self._most, held)
        self._admission.change(self._place, count, self._most)
        self._held = held

    def release(self) -> None:
        """Release everything; later calls hold nothing."""
        self._is_over = True
        if self._held:
            self._admission.change(self._place, -self._held, self._most)
            self._held = 0


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
        self._in_flight: Counter[_Place] = Counter()
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
        self.change((actor, what), 1, max(1, most // self._workers))
        try:
            yield
        finally:
            self.change((actor, what), -1, most)

    def bytes(self, actor: str, what: str, most: int) -> InFlight:
        """The bytes of a new request, none so far; to be released in the end."""
        return InFlight(self, (actor, what), max(1, most // self._workers))

    def in_flight(self, what: str) -> int:
        """The amount of something that all actors together have in flight."""
        with self._lock:
            return sum(count for place, count in self._in_flight.items() if place[1] == what)

    def change(self, place: _Place, count: int, most: int) -> None:
        """Count more in flight, up to a bound, or less.

        Raises:
            Busy: That would be too much.
        """
        with self._lock:
            held = self._in_flight[place] + count
            if count > 0 and held > most:
                raise _busy(place[1], 1)
            if held:
                self._in_flight[place] = held
            else:
                self._in_flight.pop(place, None)


def _busy(what: str, seconds: float) -> Busy:
    wait = max(1, int(seconds + 0.999))
    text = f"too much at once: the budget `{what}` of this actor is used up; wait {wait} s"
    return Busy(Code.BUSY, text, limit=what, retry_after=wait)
