"""What runs on workers, without Spark: packing, outcomes, which errors are raised."""

import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.dataplane.spark.kernel import (
    Failure,
    ItemKernel,
    TaskFailed,
    TaskOutcome,
    attempted,
    failure_in,
)
from omnigraph.errors import Busy, Code, Conflict, GraphError, InvalidInput, Unavailable
from omnigraph.store.failures import FailureKind, StorageFailure


def numbers(*found: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(found, pa.int64())], names=["id"])


def outcomes(kernel: ItemKernel, *batches: pa.RecordBatch) -> dict[int, TaskOutcome]:
    found: dict[int, TaskOutcome] = {}
    for batch in pickle.loads(pickle.dumps(kernel))(iter(batches)):
        assert batch.schema.names == ["number", "payload"]
        for number, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found[number] = pickle.loads(payload)
    return found


def test_numbers_become_outcomes() -> None:
    kernel = ItemKernel(str, list(range(1000, 1200)), pickle.dumps)
    found = outcomes(kernel, numbers(0, 63, 64), numbers(), numbers(199))
    assert {number: outcome.value for number, outcome in found.items()} == {
        0: "1000",
        63: "1063",
        64: "1064",
        199: "1199",
    }


def test_what_items_share_is_packed_once() -> None:
    shared = Path("x" * 100_000)
    size = len(pickle.dumps(ItemKernel(str, [(shared, n) for n in range(64)], pickle.dumps)))
    assert size < 20_000


def failing(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput(Code.INPUT_INVALID, "bad", at=3),
        Conflict(Code.CONFLICT, "two at once"),
    ],
)
def test_an_error_that_would_come_again_is_an_outcome(error: GraphError) -> None:
    outcome = pickle.loads(pickle.dumps(attempted(lambda: failing(error))))
    assert outcome.error.to_json() == error.to_json()


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (Unavailable(Code.UNAVAILABLE, "later"), "Unavailable", "later"),
        (Busy(Code.BUSY, "later"), "Busy", "later"),
        (
            StorageFailure(FailureKind.UNKNOWN, "table.write", "n/1", "what?"),
            "StorageFailure",
            "table.write of 'n/1': unknown: what?",
        ),
        (ValueError("first\nsecond ]"), "ValueError", "first"),
        (OSError(), "OSError", "OSError"),
    ],
)
def test_any_other_error_is_raised_and_can_be_read_from_any_text(
    error: Exception, kind: str, text: str
) -> None:
    with pytest.raises(TaskFailed) as caught:
        attempted(lambda: failing(error))
    report = f"org.apache.spark.SparkException: …\nTaskFailed: {caught.value}\n\tat org.apache.x"
    found = failure_in(report)
    assert found is not None
    assert found.kind == kind
    assert found.text == f"{text} (test_kernel.py:{failing.__code__.co_firstlineno + 1})"
    if isinstance(error, StorageFailure):
        assert found.storage is not None
        assert found.storage.args == error.args
    if isinstance(error, GraphError):
        assert found.error is not None
        assert found.error.to_json() == error.to_json()


def test_a_result_that_cannot_be_pickled_fails_the_task() -> None:
    kernel = ItemKernel(_lock_for, [1], pickle.dumps)
    with pytest.raises(TaskFailed, match="cannot pickle"):
        outcomes(kernel, numbers(0))


def _lock_for(item: int) -> object:
    return threading.Lock()


@pytest.mark.parametrize("text", ["", "x", "omnigraph-task-failure:", "omnigraph-task-failure:!]"])
def test_texts_without_a_failure(text: str) -> None:
    assert failure_in(text) is None


def test_a_failure_travels_in_an_exception_that_pickles() -> None:
    error = TaskFailed(Failure("ValueError", "x"))
    assert failure_in(str(pickle.loads(pickle.dumps(error)))) == Failure("ValueError", "x")
