"""Kernels: they run on the workers, a task for an item, or for the rows of a partition.

Spark sees numbers go out and pickled outcomes come back. A kernel is pickled with everything that
it needs; what it imports, it imports there. An error that would come again on every attempt comes
back as an outcome; any other is raised, so that Spark tries the task once more.
"""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from omnigraph.core.storage_errors import public
from omnigraph.dataplane.run.memory import take_small_pages
from omnigraph.errors import Busy, GraphError, Unavailable
from omnigraph.store.failures import StorageFailure

MESSAGE: Final = "number long, payload binary"
# Items of one block are pickled together, so that what they share is written once; a task unpacks
# the block that holds its item, and no other.
_BLOCK_ITEMS: Final = 64
_MARK: Final = "omnigraph-task-failure:"
_ARROW: Final = pa.schema([("number", pa.int64()), ("payload", pa.binary())])


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The end of a task: a value, or an error that another attempt would not mend."""

    value: Any = None
    error: GraphError | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that was raised to Spark, as far as it is known."""

    kind: str
    text: str
    storage: StorageFailure | None = None
    error: GraphError | None = None


class TaskFailed(Exception):
    """Raised to Spark when a task failed; its text carries the `Failure`, readable and not."""

    def __init__(self, failure: Failure) -> None:
        packed = base64.b64encode(pickle.dumps(failure)).decode()
        super().__init__(f"{failure.kind}: {failure.text} [{_MARK}{packed}]")

    def __reduce__(self) -> Any:
        return Exception, (str(self),)


def failure_in(text: str) -> Failure | None:
    """The failure that a text of Spark carries, if it does."""
    _, found, rest = text.partition(_MARK)
    if not found:
        return None
    try:
        failure = pickle.loads(base64.b64decode(rest.partition("]")[0]))
    except (ValueError, EOFError, AttributeError, ImportError, pickle.UnpicklingError):
        return None
    return failure if isinstance(failure, Failure) else None


class ItemKernel:
    """Runs a task for the items whose numbers a partition holds."""

    def __init__(
        self, task: Callable[[Any], Any], items: Sequence[Any], dumps: Callable[[Any], bytes]
    ) -> None:
        """Pack a task and its items.

        Args:
            task: What to run.
            items: What for.
            dumps: Pickles them.
        """
        self._task = dumps(task)
        self._blocks = [
            zlib.compress(dumps(list(items[start : start + _BLOCK_ITEMS])), 1)
            for start in range(0, len(items), _BLOCK_ITEMS)
        ]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn numbers into outcomes."""
        take_small_pages()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _message(number, attempted(partial(self._run, number)))

    def _run(self, number: int) -> Any:
        block, place = divmod(number, _BLOCK_ITEMS)
        return pickle.loads(self._task)(pickle.loads(zlib.decompress(self._blocks[block]))[place])


class FrameKernel:
    """Runs a task for the rows of a partition."""

    def __init__(
        self,
        task: Callable[[int, Iterator[pa.RecordBatch]], Any],
        dumps: Callable[[Any], bytes],
    ) -> None:
        """Pack a task."""
        self._task = dumps(task)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn rows into the outcome of the partition."""
        from pyspark import TaskContext  # noqa: PLC0415 - on a worker it is loaded already

        take_small_pages()
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        yield _message(number, attempted(lambda: pickle.loads(self._task)(number, batches)))


def attempted(action: Callable[[], Any]) -> TaskOutcome:
    """Run a task, and return how it ended.

    Raises:
        TaskFailed: Another attempt may go better.
    """
    try:
        return TaskOutcome(value=action())
    except (Busy, Unavailable) as error:
        raise TaskFailed(Failure(type(error).__name__, _line(error), error=error)) from error
    except GraphError as error:
        return TaskOutcome(error=error)
    except StorageFailure as error:
        raise TaskFailed(Failure("StorageFailure", _line(error), storage=error)) from error
    except MemoryError as error:
        # Arrow has a subclass of its own.
        raise TaskFailed(Failure("MemoryError", _line(error))) from error
    except Exception as error:
        raise TaskFailed(Failure(type(error).__name__, _line(error))) from error


@contextmanager
def raising() -> Iterator[None]:
    """Raise every error inside as `TaskFailed`, so that the driver can read it."""
    try:
        yield
    except (GeneratorExit, TaskFailed):
        raise
    except (GraphError, StorageFailure) as error:
        # The caller of a frame reads this text, in an exception of Spark.
        known = public(error) if isinstance(error, StorageFailure) else error
        raise TaskFailed(Failure(type(known).__name__, str(known), error=known)) from error
    except Exception as error:
        raise TaskFailed(Failure(type(error).__name__, _line(error))) from error


def _message(number: int, outcome: TaskOutcome) -> pa.RecordBatch:
    try:
        payload = pickle.dumps(outcome, protocol=5)
    except Exception as error:
        raise TaskFailed(Failure(type(error).__name__, _line(error))) from error
    return pa.record_batch([pa.array([number]), pa.array([payload], pa.binary())], schema=_ARROW)


def _line(error: BaseException) -> str:
    """The first line of an error and where it arose."""
    lines = str(error).strip().splitlines()
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = ""
    if trace is not None:
        file = trace.tb_frame.f_code.co_filename.rpartition("/")[2]
        place = f" ({file}:{trace.tb_lineno})"
    return (lines[0] if lines else type(error).__name__) + place
