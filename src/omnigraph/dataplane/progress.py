"""Progress of long operations, and stopping them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from omnigraph.runtime import cancellation
from omnigraph.runtime.clock import Clock


class StopRequested(Exception):
    """The operation was asked to stop. Never leaves the data plane as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A moment of a load, an export, an optimisation or other bulk work.

    Attributes:
        operation: `load`, `export`, `optimize`, `embed`, `verify`, `copy` or `schema_apply`.
        engine: `inprocess` or `spark`.
        reason: Why this engine.
        stage: What is going on: `read`, `match`, `write`, `judge`, `commit` and so on.
        tasks_done: How many tasks of the stage are done.
        tasks: How many it has; None while that is not known.
        rows: Rows read or written so far, over all stages.
        bytes: Bytes of input read, or of output written, so far.
        bytes_total: How many there will be; None when it is not known.
        violations: Broken rules found so far.
        seconds: Since the operation began.
    """

    operation: str
    engine: str
    reason: str
    stage: str
    tasks_done: int = 0
    tasks: int | None = None
    rows: int = 0
    bytes: int = 0
    bytes_total: int | None = None
    violations: int = 0
    seconds: float = 0.0

    @property
    def rows_per_second(self) -> float:
        """The average rate so far."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @property
    def bytes_per_second(self) -> float:
        """The average rate so far."""
        return self.bytes / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFigures:
    """The figures of one stage of an operation.

    Attributes:
        stage: Its name: `read`, `match`, `write`, `judge`, `commit` and so on.
        tasks: How many tasks are done.
        rows: How many rows they read or wrote.
        bytes: How many bytes of input they read, or of output they wrote.
        seconds: How long it took.
    """

    stage: str
    tasks: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0


Listener: TypeAlias = Callable[[Progress], None]


class Monitor:
    """Counts what an operation has done, and reports it to a listener. Thread-safe.

    The listener is called by one thread at a time, after every step; it should return quickly. An
    error that it raises stops the operation.

    Attributes:
        keep: Is called every now and then, for whatever has to be renewed while the operation runs.
    """

    def __init__(
        self,
        operation: str,
        engine: str,
        reason: str,
        clock: Clock,
        listener: Listener | None = None,
    ) -> None:
        """Start the clock."""
        self._clock = clock
        self._listener = listener
        self._lock = threading.RLock()
        self._start = clock.now_us()
        self._now = Progress(operation=operation, engine=engine, reason=reason, stage="start")
        self._stopped = threading.Event()
        self._ended: list[StageFigures] = []
        self._current = StageFigures(stage="start")
        self._began = self._start
        self.keep: Callable[[], None] = lambda: None

    def stage(self, name: str, tasks: int | None = None) -> None:
        """Begin a stage."""
        with self._lock:
            if name != self._current.stage or self._current.tasks:
                self._ended.append(self._measured())
                self._current, self._began = StageFigures(stage=name), self._clock.now_us()
            self._change(stage=name, tasks=tasks, tasks_done=0)

    def expect(self, bytes_total: int | None) -> None:
        """Say how many bytes there will be."""
        self._change(bytes_total=bytes_total)

    def add(
        self,
        *,
        tasks: int = 0,
        rows: int = 0,
        bytes: int = 0,
        violations: int = 0,
        rows_again: int = 0,
    ) -> None:
        """Count something that was done; `rows_again` are those that an earlier stage counted."""
        with self._lock:
            now, stage = self._now, self._current
            self._current = replace(
                stage,
                tasks=stage.tasks + tasks,
                rows=stage.rows + rows + rows_again,
                bytes=stage.bytes + bytes,
            )
            self._change(
                tasks_done=_capped(now.tasks_done + tasks, now.tasks),
                rows=now.rows + rows,
                bytes=now.bytes + bytes,
                violations=now.violations + violations,
            )

    def reached(self, tasks_done: int, tasks: int) -> None:
        """Report the progress of a stage whose results come all at once."""
        self.keep()
        with self._lock:
            share = 0 if tasks <= 0 else min(tasks_done / tasks, 1.0)
            done = int(share * (self._now.tasks or 0))
            if done > self._now.tasks_done:
                self._change(tasks_done=done)

    @property
    def now(self) -> Progress:
        """The progress of the operation at this moment."""
        with self._lock:
            return replace(self._now, seconds=self._seconds())

    @property
    def stages(self) -> tuple[StageFigures, ...]:
        """The stages so far, except those that did nothing; the last one as far as it is."""
        with self._lock:
            found = [*self._ended, self._measured()]
        return tuple(item for item in found if item.tasks or item.rows or item.stage == "commit")

    def describe(self, stage: str, tasks: int | None) -> str:
        """A stage that begins, in words, with what the operation has done so far."""
        now = self.now
        text = f"omnigraph {now.operation}: {stage}"
        if tasks is not None:
            text += f", {tasks:,} {'task' if tasks == 1 else 'tasks'}"
        if now.rows or now.bytes:
            text += f"; so far {now.rows:,} rows, {now.bytes:,} bytes in {now.seconds:,.1f} s"
        return text

    @property
    def is_stopped(self) -> bool:
        """True if the operation has been asked to stop."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Ask the tasks of the operation to stop soon."""
        self._stopped.set()

    def resume(self) -> None:
        """Withdraw the request to stop: the operation starts over."""
        self._stopped.clear()

    def check(self) -> None:
        """Stop here if that was asked for, or the operation's time is up.

        Raises:
            StopRequested: The operation was interrupted, or another part of it failed.
            GraphError: Its time is up, or its caller cancelled it.
        """
        cancellation.check()
        self.keep()
        if self._stopped.is_set():
            raise StopRequested

    def _measured(self) -> StageFigures:
        return replace(self._current, seconds=(self._clock.now_us() - self._began) / 1_000_000)

    def _seconds(self) -> float:
        return (self._clock.now_us() - self._start) / 1_000_000

    def _change(self, **values: object) -> None:
        with self._lock:
            self._now = replace(self._now, **values, seconds=self._seconds())  # type: ignore[arg-type]
            if self._listener is not None:
                self._listener(self._now)


def _capped(done: int, tasks: int | None) -> int:
    return done if tasks is None else min(done, tasks)
