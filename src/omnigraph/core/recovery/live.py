"""The operations that are at work in this process right now."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final


class Live:
    """A set of operation ids. Thread-safe."""

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
        """Is this operation at work here?"""
        with self._lock:
            return operation_id in self._ids


# One per process: two handles of one graph must know of each other's writes.
PROCESS: Final = Live()
