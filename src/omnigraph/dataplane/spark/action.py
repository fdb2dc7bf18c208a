"""One job of Spark: run aside, watched, and cancelled when the caller no longer waits.

The caller's thread only waits, so that an interrupt finds it outside of any conversation with the
JVM. One thread runs the job; another polls its progress, and cancels it when asked to.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.lost_workers import lost_workers_of
from omnigraph.runtime import cancellation

T = TypeVar("T")

OnProgress = Callable[[int, int], None]

_numbers: Final = itertools.count(1)


class JobFailed(Exception):
    """A job that ended with an error, which is its cause; not an error of the waiting thread."""


class Action(Generic[T]):
    """A job that is about to run, runs, or has ended."""

    def __init__(
        self,
        session: Any,
        is_connect: bool,
        title: str,
        work: Callable[[], T],
        on_progress: OnProgress | None = None,
    ) -> None:
        """Describe a job.

        Args:
            session: Where it runs.
            is_connect: True if that is a session of Spark Connect.
            title: What Spark shows as its description.
            work: Starts the job and waits for it, on the thread that it is called on.
            on_progress: Called with the numbers of tasks that are done and of all, by the caller's
                thread.
        """
        self._session = session
        self._is_connect = is_connect
        self._title = title
        self._work = work
        self._on_progress = on_progress
        self._tag = f"omnigraph-{os.getpid()}-{next(_numbers)}"
        self._news = threading.Condition()
        self._done = False
        self._cancelled = False
        self._result: list[T] = []
        self._error: BaseException | None = None
        # What the caller has yet to hear, and what was said last.
        self._progress: tuple[int, int] | None = None
        self._told: tuple[int, int] | None = None

    def result(self) -> T:
        """Run the job to its end.

        Raises:
            JobFailed: It failed.
            BaseException: What interrupted the wait, ended the operation, or `on_progress`
                raised; the job is then gone.
        """
        runs = threading.Thread(target=self._run, name=f"{self._tag}-runs", daemon=True)
        watches = threading.Thread(target=self._watch, name=f"{self._tag}-watches", daemon=True)
        try:
            runs.start()
            watches.start()
            self._wait()
        except BaseException:
            if runs.is_alive():
                self._cancel()
            raise
        runs.join()
        watches.join()
        if self._error is not None:
            raise JobFailed from self._error
        return self._result[0]

    def _wait(self) -> None:
        # Otherwise this thread does not notice that the operation's time is up.
        pause = tuning.active.poll_ms / 1_000 if cancellation.is_limited() else None
        while True:
            cancellation.check()
            with self._news:
                self._news.wait_for(lambda: self._done or self._progress is not None, pause)
                done, progress, self._progress = self._done, self._progress, None
            if progress is not None and self._on_progress is not None:
                self._on_progress(*progress)
            if done:
                return

    def _cancel(self) -> None:
        with self._news:
            self._cancelled = True
            self._news.notify_all()
            self._news.wait_for(lambda: self._done, timeout=tuning.active.cancel_timeout_s)

    # ------------------------------------------------ on the thread of the job

    def _run(self) -> None:
        try:
            with suppress(Exception):
                self._mark()
            # It may have been cancelled before Spark heard of it.
            with self._news:
                if self._cancelled:
                    return
            self._result.append(self._work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
            self._error = error
        finally:
            if self._is_connect:
                with suppress(Exception):
                    self._session.removeProgressHandler(self._hear)
            with self._news:
                self._done = True
                self._news.notify_all()

    def _mark(self) -> None:
        if self._is_connect:
            self._session.addTag(self._tag)
            self._session.registerProgressHandler(self._hear)
        else:
            self._session.sparkContext.setJobGroup(self._tag, self._title, interruptOnCancel=True)

    def _hear(self, stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        """Progress as Connect reports it: on the thread of the operation."""
        if threading.current_thread().name == f"{self._tag}-runs" and stages:
            told = list(stages)
            self._note_progress(
                sum(each.num_completed_tasks for each in told),
                sum(each.num_tasks for each in told),
            )

    # ------------------------------------------------ on the thread of the watcher

    def _watch(self) -> None:
        lost = None
        with suppress(Exception):
            lost = None if self._is_connect else lost_workers_of(self._session)
        while True:
            with self._news:
                self._news.wait_for(lambda: self._done, timeout=tuning.active.poll_ms / 1_000)
                if self._done:
                    return
                cancelled = self._cancelled
            # Spark answers with errors of many kinds once it is going down.
            with suppress(Exception):
                if cancelled:
                    # Again and again: a job that was not there yet is not cancelled.
                    self._interrupt()
                elif not self._is_connect and self._on_progress is not None:
                    self._ask()
            if lost is not None and not cancelled:
                with suppress(Exception):
                    lost.pass_by()

    def _interrupt(self) -> None:
        if self._is_connect:
            self._session.interruptTag(self._tag)
        else:
            self._session.sparkContext.cancelJobGroup(self._tag)

    def _ask(self) -> None:
        tracker = self._session.sparkContext.statusTracker()
        done = tasks = 0
        for job in tracker.getJobIdsForGroup(self._tag):
            info = tracker.getJobInfo(job)
            for stage in [] if info is None else info.stageIds:
                known = tracker.getStageInfo(stage)
                if known is not None:
                    done += known.numCompletedTasks
                    tasks += known.numTasks
        if tasks:
            self._note_progress(done, tasks)

    def _note_progress(self, done: int, tasks: int) -> None:
        with self._news:
            if (done, tasks) != self._told:
                self._told = self._progress = (done, tasks)
                self._news.notify_all()
