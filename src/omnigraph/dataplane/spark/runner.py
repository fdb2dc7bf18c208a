"""Tasks on Spark: one partition per task, numbers out, outcomes back.

Only what Spark Connect has, too, does the work, so one runner serves every kind of session.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark import cloudpickle

from omnigraph.dataplane.run.runner import Item, Result
from omnigraph.dataplane.spark.action import Action, JobFailed, OnProgress
from omnigraph.dataplane.spark.failures import frame_error, job_error, unshared
from omnigraph.dataplane.spark.kernel import (
    MESSAGE,
    FrameKernel,
    ItemKernel,
    TaskOutcome,
    failure_in,
)
from omnigraph.dataplane.spark.session import HeldSession
from omnigraph.dataplane.spark.shipping import ship
from omnigraph.errors import Code, GraphError, Internal, InvalidInput, Unavailable

# Makes the public error of a failed job; the path is that of the log.
PublicError: TypeAlias = Callable[[BaseException, Path | None], GraphError]


class SparkRunner:
    """Runs tasks on a session of Spark.

    Attributes:
        on_progress: Called with the numbers of tasks that are done and of all tasks of the stage.
            An error that it raises cancels the stage.
    """

    is_remote = True

    def __init__(
        self,
        held: HeldSession,
        on_progress: OnProgress | None = None,
        describe: Callable[[str, int | None], str] | None = None,
    ) -> None:
        """Use a session for as long as it is held.

        Args:
            held: The session.
            on_progress: See the attribute.
            describe: Puts a stage and the number of its tasks in words, for users that look at the
                jobs of Spark.
        """
        self._describe = describe or _described
        self._held = held
        self._parallelism: int | None = None
        self.on_progress = on_progress

    @property
    def session(self) -> Any:
        """The session of Spark."""
        return self._held.session

    @property
    def parallelism(self) -> int:
        """Roughly how many tasks run at once."""
        if self._parallelism is None:
            self._parallelism = max(1, self._perform("parallelism", self._slots, None))
        return self._parallelism

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """Run a task for each item; yield the number of an item and its result.

        Results come when the last task is done. Spark tries a task again that failed, unless it
        raised a `GraphError` that would come again.

        Raises:
            GraphError: A task raised it, or Spark failed.
        """
        if not items:
            return
        with _sending():
            kernel = ItemKernel(task, items, cloudpickle.dumps)
        count = len(items)

        def work() -> list[Any]:
            numbers = self.session.range(0, count, 1, count)
            return list(numbers.mapInArrow(kernel, MESSAGE).collect())

        found = dict(self._outcomes(stage, work, count))
        if len(found) != count:
            raise Internal(Code.INTERNAL, f"Spark returned {len(found)} results of {count} tasks")
        if self.on_progress is not None:
            self.on_progress(count, count)
        yield from sorted(found.items())

    def run_frame(
        self,
        stage: str,
        task: Callable[[int, Iterator[pa.RecordBatch]], Result],
        frame: Any,
    ) -> Iterator[tuple[int, Result]]:
        """Run a task for each partition of a DataFrame; yield its number and its result.

        Args:
            stage: What this is called.
            task: Is given the number of a partition and its rows. Empty partitions count, too.
            frame: A DataFrame of the runner's session.

        Raises:
            GraphError: A task raised it, or Spark failed.
        """
        with _sending():
            kernel = FrameKernel(task, cloudpickle.dumps)

        def work() -> list[Any]:
            return list(frame.mapInArrow(kernel, MESSAGE).collect())

        yield from self._outcomes(stage, work, public=frame_error)

    def _outcomes(
        self,
        stage: str,
        work: Callable[[], list[Any]],
        tasks: int | None = None,
        public: PublicError = job_error,
    ) -> Iterator[tuple[int, Any]]:
        rows = self._perform(stage, work, self.on_progress, tasks, public)
        found = [(int(row[0]), _unpacked(row[1])) for row in rows]
        # The error of the first item, whichever was raised first: the same one on every run.
        for _, outcome in sorted(found, key=lambda pair: pair[0]):
            if outcome.error is not None:
                raise unshared(outcome.error)
        return ((number, outcome.value) for number, outcome in found)

    def perform(self, stage: str, work: Callable[[], Result]) -> Result:
        """Run a job of Spark that `work` starts and waits for.

        Raises:
            GraphError: Spark failed, or a task did.
        """
        found: Result = self._perform(stage, work, self.on_progress)
        return found

    def _perform(
        self,
        stage: str,
        work: Callable[[], Any],
        on_progress: OnProgress | None,
        tasks: int | None = None,
        public: PublicError = job_error,
    ) -> Any:
        held = self._held

        def shipped() -> Any:
            if held.ships:
                ship(held.session, held.cache)
            return work()

        title = self._describe(stage, tasks)
        action = Action(held.session, held.is_connect, title, shipped, on_progress)
        try:
            return action.result()
        except JobFailed as failed:
            cause = failed.__cause__ or failed
            error = public(cause, held.log)
            if held.is_connect and isinstance(error, Unavailable) and not failure_in(str(cause)):
                held.forget()
            raise error from cause

    def _slots(self) -> int:
        if not self._held.is_connect:
            return int(self.session.sparkContext.defaultParallelism)
        # Connect does not report it; so look how many partitions Spark makes by itself.
        found = self.session.sql("SELECT spark_partition_id() FROM range(0, 4096)")
        return len({row[0] for row in found.collect()})


def _described(stage: str, tasks: int | None) -> str:
    return f"omnigraph: {stage}" + ("" if tasks is None else f", {tasks:,} tasks")


@contextmanager
def _sending() -> Iterator[None]:
    """Raise a typed error for an embedder that cannot be pickled."""
    try:
        yield
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        text = f"what the tasks need cannot be sent to Spark: {error}; is it the embedder?"
        raise InvalidInput(Code.INPUT_INVALID, text) from error


def _unpacked(payload: bytes | bytearray) -> TaskOutcome:
    outcome = pickle.loads(payload)
    if not isinstance(outcome, TaskOutcome):
        raise Internal(Code.INTERNAL, "a task on Spark returned no outcome")
    return outcome
