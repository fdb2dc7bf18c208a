"""Progress of what is sent to a server and received from it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from omnigraph.dataplane.progress import Progress
from omnigraph.runtime.clock import Clock, SystemClock

Listener = Callable[[Progress], None]

_REPORTED_EVERY_NS: Final = 100_000_000  # ten times a second, however small the pieces are


class Transfer:
    """Counts the bytes of a load or an export, and reports them to a listener."""

    def __init__(
        self, operation: str, listener: Listener | None, clock: Clock | None = None
    ) -> None:
        """Begin to count, for a listener."""
        self._clock = clock or SystemClock()
        self._began = self._reported_ns = self._clock.ticks_ns()
        self._operation = operation
        self._listener = listener
        self.bytes = 0

    @property
    def seconds(self) -> float:
        """The time since it began."""
        return (self._clock.ticks_ns() - self._began) / 1e9

    def add(self, count: int, stage: str, total: int | None = None) -> None:
        """Count bytes, and report them unless that was done a moment ago."""
        self.bytes += count
        now = self._clock.ticks_ns()
        if count and now - self._reported_ns < _REPORTED_EVERY_NS and self.bytes != total:
            return
        self._reported_ns = now
        self.report(stage, total=total)

    def report(self, stage: str, *, rows: int = 0, total: int | None = None) -> None:
        """Report the progress."""
        if self._listener is not None:
            self._listener(
                Progress(
                    operation=self._operation,
                    engine="server",
                    reason="the graph is behind a server",
                    stage=stage,
                    rows=rows,
                    bytes=self.bytes,
                    bytes_total=total,
                    seconds=self.seconds,
                )
            )


class CountedBody:
    """A body that is sent as it is read, and counted."""

    def __init__(self, body: Any, transfer: Transfer) -> None:
        """Send this body."""
        self._body = body
        self._transfer = transfer
        self._total = _size(body)

    def read(self, size: int = -1) -> bytes:
        """Read the next piece; the last one is empty, and the server is at work from then on."""
        piece: bytes = self._body.read(size)
        self._transfer.add(len(piece), "read" if piece else "server", self._total)
        return piece


def _size(body: Any) -> int | None:
    """The number of bytes of a file that has one; None for a stream."""
    try:
        return os.fstat(body.fileno()).st_size or None
    except (AttributeError, OSError):
        return len(body.getbuffer()) if hasattr(body, "getbuffer") else None
