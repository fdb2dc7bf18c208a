"""A cache of derived structures in memory: bounded by bytes, built once, least recently used out.

A slot is a place for one structure, with the function that makes it. Callers hold the slot and
get the structure, made anew if it was dropped. Structures in use stay alive while they are used,
whatever the cache does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Any, Generic, TypeVar

from omnigraph.runtime.cancellation import acquired

T = TypeVar("T")


class StructureCache:
    """The slots that are filled, and how much memory they take. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        """Keep at most this much, but always the structure that was made last."""
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._filled: dict[Slot[Any], int] = {}
        self._bytes = 0
        self.ticks = count(1)

    @property
    def nbytes(self) -> int:
        """The bytes of the kept structures."""
        return self._bytes

    def slot(self, build: Callable[[], T], size: Callable[[T], int]) -> Slot[T]:
        """A place for one structure; nothing is built yet."""
        return Slot(self, build, size)

    def admit(self, slot: Slot[Any], nbytes: int) -> None:
        """Counts a structure that was made, and drops others if it is too much."""
        with self._lock:
            self._bytes += nbytes - self._filled.get(slot, 0)
            self._filled[slot] = nbytes
            if self._bytes <= self.bytes_max:
                return
            for old in sorted(self._filled, key=_last_used):
                if self._bytes <= self.bytes_max:
                    break
                if old is not slot:
                    self._remove(old)

    def drop(self, slot: Slot[Any]) -> None:
        """Drops a structure now."""
        with self._lock:
            if slot in self._filled:
                self._remove(slot)

    def clear(self) -> None:
        """Drops all structures."""
        with self._lock:
            for slot in list(self._filled):
                self._remove(slot)

    def _remove(self, slot: Slot[Any]) -> None:
        self._bytes -= self._filled.pop(slot)
        slot.empty()


class Slot(Generic[T]):
    """A place for one structure."""

    __slots__ = ("_build", "_cache", "_lock", "_made", "_older", "_size", "_value", "used")

    def __init__(
        self, cache: StructureCache, build: Callable[[], T], size: Callable[[T], int]
    ) -> None:
        """Belongs to a cache. `build` makes the structure, `size` returns its bytes."""
        self._cache = cache
        self._build = build
        self._size = size
        self._lock = threading.RLock()
        self._value: T | None = None
        self._older: Slot[T] | None = None
        self._made = 0
        self.used = 0

    def get(self) -> T:
        """The structure, made if need be; of several threads one makes it."""
        value = self._value
        if value is None:
            value = self._fill()
        self.used = next(self._cache.ticks)
        return value

    def peek(self) -> T | None:
        """The structure if it is there."""
        return self._value

    def put(self, value: T) -> None:
        """Keeps a structure that was made elsewhere, unless there is one."""
        # The thread that makes it may be waiting for the caller: do not wait for it.
        if self._lock.acquire(blocking=False):
            try:
                if self._value is None:
                    self._keep(value)
            finally:
                self._lock.release()

    def supersedes(self, older: Slot[T]) -> None:
        """Notes that the structure here was derived from that of an older version.

        The one before that is dropped, unless it has been used since.
        """
        self._older = older
        oldest, older._older = older._older, None
        if oldest is not None and oldest.used <= older._made:
            self._cache.drop(oldest)

    def empty(self) -> None:
        """Drops the structure; called by the cache, which keeps count."""
        self._value = None

    def _fill(self) -> T:
        with acquired(self._lock):
            value = self._value
            if value is None:
                value = self._build()
                self._keep(value)
        return value

    def _keep(self, value: T) -> None:
        self._value = value
        self.used = self._made = next(self._cache.ticks)
        self._cache.admit(self, self._size(value))


def _last_used(slot: Slot[Any]) -> int:
    return slot.used
