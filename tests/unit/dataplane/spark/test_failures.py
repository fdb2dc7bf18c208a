"""Reports of Spark, as seen, and what is made of them."""

from pathlib import Path

import pytest

from omnigraph.dataplane.spark.carried_errors import spark_error
from omnigraph.dataplane.spark.failures import (
    frame_error,
    job_error,
    reason_in,
    start_error,
    unshared,
)
from omnigraph.dataplane.spark.kernel import Failure, TaskFailed, raising
from omnigraph.errors import Code, Internal, InvalidInput, LimitExceeded, NotFound, Unavailable
from omnigraph.store.failures import FailureKind, StorageFailure

LOG = Path("/home/x/spark-1.log")
CRASHED = """An error occurred while calling o274.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed \
3 times, most recent failure: Lost task 0.2 in stage 1.0 (TID 3) (127.0.0.1 executor driver): \
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.x(PythonRunner.scala:1)
"""
LACKING = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/usr/lib/pyspark/worker.py", line 1, in read
ModuleNotFoundError: No module named 'lance.fragment'
"""
LACKING_FOR_FORMAT = """[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: \
Traceback (most recent call last):
  File "/tmp/userFiles/omnigraph-139ca3.zip/omnigraph/core/repository.py", line 14, in <module>
    import pyarrow as pa
ModuleNotFoundError: No module named 'pyarrow'
 SQLSTATE: 38000
"""


def test_a_worker_that_crashed_is_unavailable() -> None:
    found = job_error(RuntimeError(CRASHED), LOG)
    assert isinstance(found, Unavailable)
    assert str(found) == (
        "Spark failed: Python worker exited unexpectedly (crashed). (log: /home/x/spark-1.log)"
    )


def test_a_server_that_is_gone_is_unavailable() -> None:
    text = "[RETRIES_EXCEEDED] The maximum number of retries has been exceeded."
    assert isinstance(job_error(RuntimeError(text), None), Unavailable)


def test_a_worker_that_lacks_something_says_what() -> None:
    found = job_error(RuntimeError(LACKING), None)
    assert isinstance(found, InvalidInput)
    assert found.code is Code.ENGINE_UNAVAILABLE
    assert found.details == {"module": "lance.fragment"}
    assert "workers need the packages pyarrow, pylance and obstore" in str(found)
    text = 'java.io.IOException: Cannot run program "/no/python": error=2, No such file'
    assert "cannot run /no/python" in str(job_error(RuntimeError(text), None))
    text = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than 3.11"
    assert "another Python" in str(job_error(RuntimeError(text), None))


def test_a_worker_that_cannot_import_the_format_says_what_it_lacks() -> None:
    found = spark_error(RuntimeError(LACKING_FOR_FORMAT))
    assert isinstance(found, InvalidInput)
    assert (found.code, found.details) == (Code.ENGINE_UNAVAILABLE, {"module": "pyarrow"})
    assert "workers need the packages pyarrow, pylance and obstore" in str(found)
    # A function of the caller may lack something, too.
    assert spark_error(RuntimeError(LACKING)) is None


def test_a_frame_that_cannot_be_computed_is_a_mistake_of_its_caller() -> None:
    text = '[CAST_INVALID_INPUT] The value \'x\' of the type "STRING" cannot be cast to "INT".'
    assert isinstance(job_error(RuntimeError(text), LOG), Internal)
    found = frame_error(RuntimeError(text), LOG)
    assert (type(found), found.code) == (InvalidInput, Code.INPUT_INVALID)
    assert str(found).startswith("the DataFrame cannot be computed: [CAST_INVALID_INPUT] The value")
    # What is wrong with Spark, or with us, stays what it is.
    assert isinstance(frame_error(RuntimeError(CRASHED), LOG), Unavailable)
    mine = TaskFailed(Failure("KeyError", "'x' (a.py:3)"))
    assert isinstance(frame_error(mine, LOG), Internal)


def test_a_failure_of_a_task_is_what_it_was() -> None:
    storage = StorageFailure(FailureKind.UNAVAILABLE, "table.write", "n", "down")
    found = job_error(TaskFailed(Failure("StorageFailure", "x", storage=storage)), LOG)
    assert isinstance(found, Unavailable)
    assert found.details["place"] == "n"
    refused = StorageFailure(FailureKind.INVALID, "table.write", "n", "no")
    assert isinstance(job_error(TaskFailed(Failure("S", "x", storage=refused)), LOG), Internal)
    mine = Unavailable(Code.UNAVAILABLE, "mine", a=1)
    assert job_error(TaskFailed(Failure("Unavailable", "x", error=mine)), LOG).details == {"a": 1}
    bug = job_error(TaskFailed(Failure("KeyError", "'x' (a.py:3)")), LOG)
    assert isinstance(bug, Internal)
    assert "a task failed on Spark: KeyError: 'x' (a.py:3)" in str(bug)
    here = StorageFailure(FailureKind.NOT_FOUND, "object.open", __file__, "no such file")
    found = job_error(TaskFailed(Failure("StorageFailure", "x", storage=here)), LOG)
    assert found.code is Code.PATH_NOT_SHARED
    assert unshared(NotFound(Code.FILE_NOT_FOUND, "x", path="/no/such")).code == "file_not_found"
    lack = job_error(TaskFailed(Failure("MemoryError", "x")), LOG)
    assert isinstance(lack, LimitExceeded)
    assert lack.code is Code.OUT_OF_MEMORY


def test_what_a_frame_of_ours_raised_is_found_in_the_exception_of_spark() -> None:
    denied = StorageFailure(FailureKind.UNAVAILABLE, "table.open", "nodes/a", "403 Forbidden")
    with pytest.raises(TaskFailed, match="check the credentials") as caught, raising():
        raise denied
    shown = RuntimeError(f"An exception was thrown from the Python worker:\n{caught.value}")
    found = spark_error(shown)
    assert found is not None
    assert (found.code, found.details["place"]) == (Code.STORAGE_DENIED, "nodes/a")
    with pytest.raises(TaskFailed) as lacking, raising():
        raise MemoryError("no room")
    found = spark_error(RuntimeError(str(lacking.value)))
    assert found is not None
    assert found.code is Code.OUT_OF_MEMORY
    with pytest.raises(TaskFailed) as gone, raising():
        raise ModuleNotFoundError("No module named 'lance'", name="lance")
    found = spark_error(RuntimeError(f"omnigraph.dataplane.spark.kernel.TaskFailed: {gone.value}"))
    assert found is not None
    assert (found.code, found.details) == (Code.ENGINE_UNAVAILABLE, {"module": "lance"})
    assert spark_error(RuntimeError(LACKING)) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "it gave no reason"),
        ("one\ntwo", "one"),
        ("x\nValueError: deep\norg.apache.spark.SparkException: outer", "ValueError: deep"),
        ("called\n: java.lang.IllegalStateException: stopped\n\tat x", "stopped"),
        (
            "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAUTHENTICATED"
            '\n\tdetails = "Invalid authentication token"\n\tdebug_error_string = "UNKNOWN:"\n>',
            "Invalid authentication token",
        ),
    ],
)
def test_the_telling_line(text: str, line: str) -> None:
    assert reason_in(text) == line


def test_why_it_did_not_start(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text(
        "WARNING: Using incubator modules\nInvalid maximum heap size: -Xmxmany\n"
        "Error: Could not create the Java Virtual Machine.\n"
        "Error: A fatal exception has occurred. Program will exit.\n"
    )
    found = start_error(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway exited"), "local", log)
    assert isinstance(found, Unavailable)
    assert str(found) == (
        f"Spark did not start at local: Invalid maximum heap size: -Xmxmany (log: {log})"
    )
    empty = start_error(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway exited"), "local", None)
    assert "Java gateway exited" in str(empty)
    bad = start_error(RuntimeError("x\nCould not parse Master URL: 'lokal'\n"), "lokal", None)
    assert isinstance(bad, InvalidInput)
    assert "Could not parse Master URL: 'lokal'" in str(bad)
    assert isinstance(start_error(ImportError("no grpc"), "sc://x", None), InvalidInput)
    remote = start_error(RuntimeError("[CONTEXT_UNAVAILABLE_FOR_REMOTE_CLIENT] x"), "local", None)
    assert "session of Spark Connect" in str(remote)
