"""Errors of Spark, translated into ours with a hint."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from omnigraph.core.storage_errors import public
from omnigraph.dataplane.worker_tables import not_shared
from omnigraph.errors import (
    Code,
    GraphError,
    Internal,
    InvalidInput,
    LimitExceeded,
    Unavailable,
)

_WORKERS: Final = (
    "workers need the packages pyarrow, pylance and obstore, for the same Python as here; "
    "set PYSPARK_PYTHON to a Python that has them"
)
# What a text of Spark shows, and what it means. The first that matches counts.
_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
# The line of ours in whose import a worker finds that it lacks something.
_IMPORTING: Final = re.compile(r'/omnigraph/[\w/]+\.py", line \d+, in <module>')
_PROGRAM: Final = re.compile(r'Cannot run program "(?P<name>[^"]+)"')
_VERSIONS: Final = re.compile(r"PYTHON_VERSION_MISMATCH|different (?:minor )?version")
_GONE: Final = re.compile(
    r"Python worker (?:exited unexpectedly|failed to connect|process terminated)|"
    r"ExecutorLostFailure|SparkContext was shut down|stopped SparkContext|Connection refused|"
    r"UNAVAILABLE|RETRIES_EXCEEDED|NO_ACTIVE_SESSION|INVALID_HANDLE|Answer from Java side is empty|"
    r"connecting to the Java server"
)
_NO_SPACE: Final = re.compile(r"No space left on device|Disk quota exceeded")
_MASTER: Final = re.compile(
    r"Could not parse Master URL[^\n]*|INVALID_MASTER_URL[^\n]*|"
    r"(?:Invalid master URL|Asked to launch cluster with)[^\n]*"
)
_RAISED: Final = re.compile(r"[\w.]*(?:Error|Exception|Failure|Interrupt): ")
_FOREIGN: Final = re.compile(r"org\.apache\.|py4j\.|java\.")
_ATTEMPT: Final = re.compile(
    r"most recent failure:[^\n]*?\): (?:[\w.$]+(?:Exception|Error): )?(?P<reason>[^\n]+)"
)
_REPLIED: Final = re.compile(r'^\s*details = "(?P<reason>[^"\n]+)', re.MULTILINE)
_CAUSED: Final = re.compile(r"(?:: )?[\w.$]+(?:Exception|Error): (?P<reason>.+)")
# Of the log of a JVM: lines that say what happened, without those that only say that something is
# wrong.
_REASON: Final = re.compile(r"(?:Exception|Error)\b|\bInvalid\b|\bUnrecognized\b|not found")
_EMPTY: Final = re.compile(r"fatal exception has occurred|Could not create the Java Virtual")


def job_error(error: BaseException, log: Path | None) -> GraphError:
    """The public error for a job that failed."""
    text = str(error)
    if found := task_error(text, log) or _worker_lacks(text):
        return found
    if full := _NO_SPACE.search(text):
        return Unavailable(
            Code.UNAVAILABLE,
            f"Spark failed: {full[0]}, where it keeps what it sorts and exchanges; make room "
            f"there, or name another disk (spark.local.dir, SPARK_LOCAL_DIRS){_see(log)}",
            place="spark.local.dir",
        )
    reason = reason_in(text)
    if _GONE.search(text):
        return Unavailable(Code.UNAVAILABLE, f"Spark failed: {reason}{_see(log)}")
    return Internal(Code.INTERNAL, f"Spark failed: {reason}{_see(log)}")


def task_error(text: str, log: Path | None = None) -> GraphError | None:
    """The public error of a task of ours, from a text of Spark; None if it tells of none."""
    # Only here: it needs Arrow, and a session starts before Arrow is needed.
    from omnigraph.dataplane.spark.kernel import failure_in  # noqa: PLC0415

    failure = failure_in(text)
    if failure is None:
        return None
    if failure.error is not None:
        return unshared(failure.error)
    if failure.storage is not None:
        return unshared(public(failure.storage))
    if failure.kind == "MemoryError":
        return out_of_memory(f"{failure.text}{_see(log)}")
    if failure.kind == "ModuleNotFoundError":
        return _worker_lacks(text)
    return Internal(
        Code.INTERNAL,
        f"a task failed on Spark: {failure.kind}: {failure.text}{_see(log)}",
        kind=failure.kind,
    )


def format_error(text: str) -> GraphError | None:
    """The public error of a worker that cannot import the format; None if a text has none."""
    return _worker_lacks(text) if _IMPORTING.search(text) else None


def frame_error(error: BaseException, log: Path | None) -> GraphError:
    """The public error for a job that failed while it computed a DataFrame of the caller."""
    found = job_error(error, log)
    text = str(error)
    if not isinstance(found, Internal) or task_error(text) is not None:
        return found
    reason = reason_in(text)
    message = f"the DataFrame cannot be computed: {reason}{_see(log)}"
    return InvalidInput(Code.INPUT_INVALID, message)


def out_of_memory(text: str) -> LimitExceeded:
    """The error of a task that found no memory."""
    return LimitExceeded(
        Code.OUT_OF_MEMORY,
        f"a task on a worker of Spark ran out of memory: {text}; give workers more "
        "(spark.executor.pyspark.memory), or let fewer tasks run at once (local[2,3], "
        "spark.executor.cores)",
    )


def unshared(error: GraphError) -> GraphError:
    """An error of a worker; that it does not see a file of this machine, if that is what it is."""
    place = error.details.get("place", error.details.get("path"))
    is_missing = error.details.get("kind") == "not_found" or error.code is Code.FILE_NOT_FOUND
    if not is_missing or not isinstance(place, str):
        return error
    path = Path(place.removeprefix("file://"))
    # The paths of tables are relative to their graph; those of files are as the user gave them.
    is_file = error.code is Code.FILE_NOT_FOUND or path.is_absolute()
    return not_shared(str(path)) if is_file and path.exists() else error


def start_error(error: BaseException, master: str, log: Path | None) -> GraphError:
    """The public error for a session that did not start."""
    text = str(error)
    if isinstance(error, ImportError):
        return InvalidInput(
            Code.ENGINE_UNAVAILABLE,
            f'Spark cannot be imported: {_first(text)}; pip install "omnigraph[spark]"',
        )
    if found := _MASTER.search(text):
        return InvalidInput(Code.SETTINGS_INVALID, f"Spark refuses the master: {found[0].strip()}")
    if "CONTEXT_UNAVAILABLE_FOR_REMOTE_CLIENT" in text:
        return InvalidInput(
            Code.ENGINE_UNAVAILABLE,
            "this process has a session of Spark Connect, so Spark starts no other in it; pass "
            "that session, or name a master that begins with sc://",
        )
    written = _last_reason(log) if "JAVA_GATEWAY_EXITED" in text else None
    reason = written or reason_in(text)
    return Unavailable(
        Code.UNAVAILABLE, f"Spark did not start at {master}: {reason}{_see(log)}", master=master
    )


def reason_in(text: str) -> str:
    """The line that says most: what the worker raised, why the last attempt failed, or the first.

    A text of Spark is a report of many lines, in which one says what happened.
    """
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line) and not _FOREIGN.match(line)]
    if raised:
        return raised[-1][:500]
    if found := _ATTEMPT.search(text):
        return found["reason"][:500]
    caused = [found["reason"] for line in lines if (found := _CAUSED.match(line))]
    if not caused and (found := _REPLIED.search(text)):
        return found["reason"][:500]
    return (caused[0] if caused else _first(text))[:500]


def _worker_lacks(text: str) -> GraphError | None:
    if found := _MODULE.search(text):
        problem = f"a worker of Spark has no module {found['name']}"
    elif found := _PROGRAM.search(text):
        problem = f"a worker of Spark cannot run {found['name']}"
    elif _VERSIONS.search(text) and "Python" in text:
        problem = f"the workers of Spark have another Python: {reason_in(text)}"
    else:
        return None
    named = {"module": found["name"]} if found else {}
    return InvalidInput(Code.ENGINE_UNAVAILABLE, f"{problem}; {_WORKERS}", **named)


def _last_reason(log: Path | None) -> str | None:
    if log is None or not log.exists():
        return None
    text = log.read_text(encoding="utf-8", errors="replace")[-20_000:]
    lines = [line.strip()[:500] for line in text.splitlines() if line.strip()]
    reasons = [line for line in lines if _REASON.search(line) and not _EMPTY.search(line)]
    return reasons[-1] if reasons else next(reversed(lines), None)


def _first(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return lines[0][:500] if lines else "it gave no reason"


def _see(log: Path | None) -> str:
    return "" if log is None else f" (log: {log})"
