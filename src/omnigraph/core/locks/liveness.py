"""Liveness: decides if the owner of an intent or a claim can still be at work.

Two clocks are never compared. How long ago an owner on another machine wrote its file is known from
the store alone: the age of the file is the time that the store gives a new object, minus the time
that it gave the file. An owner that has been silent for its lease and a grace is taken for dead.
Should it only have been slow, it gets a clean conflict: before its write is given up, a fence
lands.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from omnigraph.core import tuning
from omnigraph.core.layout import STORE_CLOCK
from omnigraph.core.locks.owner import Owner
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.ids import Ids
from omnigraph.store.io.objects import ObjectStore


class LiveOperations:
    """The operations that this process works on, by id. Thread-safe."""

    __slots__ = ("_ids", "_lock")

    def __init__(self) -> None:
        """Start with none."""
        self._lock = threading.Lock()
        self._ids: set[str] = set()

    @contextmanager
    def working(self, operation_id: str) -> Iterator[None]:
        """Count an operation as live for the length of a block, however the block ends."""
        self.start(operation_id)
        try:
            yield
        finally:
            self.end(operation_id)

    def start(self, operation_id: str) -> None:
        """Count an operation as live until it ends."""
        with self._lock:
            self._ids.add(operation_id)

    def end(self, operation_id: str) -> None:
        """Count an operation as live no longer."""
        with self._lock:
            self._ids.discard(operation_id)

    def holds(self, operation_id: str) -> bool:
        """True if this operation runs in this process."""
        with self._lock:
            return operation_id in self._ids


# One per process: two handles of one graph must know of each other's writes.
LIVE_OPERATIONS: Final = LiveOperations()

_EVER_US: Final = 1 << 62  # older than any lease


@dataclass(slots=True)
class StoreClock:
    """The time of the store, as it stamps objects. Reading it writes and removes an object."""

    objects: ObjectStore
    clock: Clock
    ids: Ids
    _read_at_ns: int | None = field(default=None, init=False)
    _read_us: int = field(default=0, init=False)

    def now_us(self) -> int:
        """Return the store's time; a reading of the last few seconds is carried forward."""
        ticks = self.clock.ticks_ns()
        if self._read_at_ns is None or ticks - self._read_at_ns > tuning.active.store_time_ns:
            self._read_us, self._read_at_ns = self._read(), ticks
        return self._read_us + (ticks - self._read_at_ns) // 1_000

    def _read(self) -> int:
        place = f"{STORE_CLOCK}/{self.ids.new()}"
        self.objects.put_new(place, place.encode())
        try:
            return max(info.modified_us for info in self.objects.list(STORE_CLOCK))
        finally:
            self.objects.delete(place)

    def modified_us(self, place: str) -> int | None:
        """The time at which the store last saw an object written; None when it is not there."""
        folder, _, _ = place.rpartition("/")
        found = (info.modified_us for info in self.objects.list(folder) if info.path == place)
        return next(found, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """Judges owners, as seen from this process."""

    live: LiveOperations
    store_clock: StoreClock

    def is_alive(self, owner: Owner, token: str, place: str, modified_us: int | None) -> bool:
        """True if the owner of an object may still be at work.

        Args:
            owner: The process that wrote it.
            token: By what this process counts its own work as live.
            place: The object.
            modified_us: When the store saw it written, if a listing has shown it already.
        """
        if owner.is_us():
            return self.live.holds(token)
        if owner.is_released:
            return False
        if owner.is_here:
            return owner.runs()
        return self._age_us(place, modified_us) < owner.lease_us + tuning.active.lease_grace_us

    def _age_us(self, place: str, modified_us: int | None) -> int:
        written = self.store_clock.modified_us(place) if modified_us is None else modified_us
        # An object that is gone was removed by an owner that has finished.
        return _EVER_US if written is None else self.store_clock.now_us() - written


def is_certainly_over(owner: Owner, *, local: bool) -> bool:
    """True if no request of the owner can arrive any more.

    True for a process of this machine that is gone, where storage is this machine's disk. A request
    to a server may be applied after its sender is gone, and a released lease says nothing about
    calls that are still under way.
    """
    return local and owner.is_here and not owner.runs()
