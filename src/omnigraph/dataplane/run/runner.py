"""The runner of the tasks of a stage: threads of this process, or Spark.

A task is a function of a module with one picklable argument and a picklable result: a
specification goes out, a receipt comes back. It may run more than once, at the same time even, and
only one of its results counts; so it never changes anything visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

Item = TypeVar("Item")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs tasks."""

    @property
    def parallelism(self) -> int:
        """Roughly how many tasks run at once."""
        ...

    @property
    def is_remote(self) -> bool:
        """True if tasks run in other processes and exchange data through storage."""
        ...

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        """Run a task for each item; yield the number of an item and its result as they come.

        The first error ends the stage: other tasks are cancelled, and it is raised once none of
        them runs any more. Closing the iterator, or an interrupt, cancels them too.

        Raises:
            GraphError: A task raised it.
        """
        ...


@runtime_checkable
class FrameRunner(Protocol):
    """Runs tasks on the partitions of a DataFrame: a runner on Spark."""

    @property
    def session(self) -> Any:
        """The session of Spark."""
        ...

    def run_frame(
        self, stage: str, task: Callable[[int, Iterator[pa.RecordBatch]], Result], frame: Any
    ) -> Iterator[tuple[int, Result]]:
        """Run a task for each partition; yield its number and its result as they come."""
        ...
