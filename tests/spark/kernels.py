"""Tasks for the tests of the runner. Workers import this module."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from omnigraph.errors import Code, InvalidInput, Unavailable
from omnigraph.store.failures import FailureKind, StorageFailure

_POLL_S = 0.02


@dataclass(frozen=True)
class Spec:
    """An item: a number, and a folder to leave traces in."""

    folder: Path
    number: int


def square(spec: Spec) -> int:
    return spec.number**2


def where_code_is(spec: Spec) -> str:
    import omnigraph  # noqa: PLC0415 - it is the worker's that is meant

    return omnigraph.__file__


def attempt() -> int:
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber()


def trace(spec: Spec, text: str = "") -> Path:
    """Leave a file that no other attempt leaves."""
    path = spec.folder / f"{spec.number}-{attempt()}-{os.getpid()}"
    path.write_text(text)
    return path


def traces(folder: Path, number: int) -> list[Path]:
    return sorted(folder.glob(f"{number}-*"))


def write(spec: Spec) -> tuple[str, int]:
    """Write a file, and name it: a receipt."""
    return trace(spec, f"row {spec.number}").name, attempt()


def fail_after_write(spec: Spec) -> tuple[str, int]:
    """Write; the second item fails the first time, with its file in place."""
    receipt = write(spec)
    if spec.number == 1 and attempt() == 0:
        raise OSError("the disk hiccups")
    return receipt


def take_memory(spec: Spec) -> int:
    """Take four gigabytes."""
    return len(bytearray(4 << 30))


def leave_sockets(spec: Spec) -> tuple[str, int]:
    """Write; the first attempt dies half-way, and a process that it started keeps its sockets."""
    receipt = write(spec)
    if attempt() == 0:
        names = [int(path.name) for path in Path("/proc/self/fd").iterdir() if path.is_socket()]
        heir = subprocess.Popen(["sleep", "3600"], pass_fds=names, start_new_session=True)
        (spec.folder / "heir").write_text(str(heir.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    return receipt


def kill_executor(spec: Spec) -> tuple[str, int]:
    """Write; the first of all attempts kills the executor that it runs under, half-way."""
    receipt = write(spec)
    try:
        (spec.folder / "killed").touch(exist_ok=False)
    except FileExistsError:
        return receipt
    os.kill(executor(), signal.SIGKILL)
    hang()
    raise AssertionError("nobody lives on without an executor")


def executor() -> int:
    """The JVM above this worker: the parent of the daemon that forked it."""
    return int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])


def straggle(spec: Spec) -> tuple[str, int]:
    """Write; the first attempt of the first item never ends, so that a copy must win."""
    receipt = write(spec)
    if spec.number == 0 and attempt() == 0:
        hang()
    return receipt


def hang_first(spec: Spec) -> int:
    """Say that it began, and never end."""
    trace(spec)
    return hang()


def hang() -> int:
    threading.Event().wait()
    return 0


def refuse(spec: Spec) -> int:
    trace(spec)
    if spec.number >= 1:
        raise InvalidInput(Code.INPUT_INVALID, f"item {spec.number} is bad", number=spec.number)
    return spec.number


def storage_down(spec: Spec) -> int:
    trace(spec)
    raise StorageFailure(FailureKind.UNAVAILABLE, "table.write", "nodes/1", "it is raining")


def storage_hiccup(spec: Spec) -> int:
    trace(spec)
    if attempt() == 0:
        raise StorageFailure(FailureKind.UNAVAILABLE, "table.write", "nodes/1", "it is raining")
    return spec.number


def busy_elsewhere(spec: Spec) -> int:
    trace(spec)
    raise Unavailable(Code.UNAVAILABLE, "come back later", where="there")


def bug(spec: Spec) -> int:
    trace(spec)
    raise ZeroDivisionError("a bug")


def lacks_module(spec: Spec) -> int:
    import no_such_module_anywhere  # type: ignore[import-not-found]  # noqa: PLC0415

    return int(no_such_module_anywhere.answer)


def unpicklable(spec: Spec) -> object:
    return threading.Lock()


def crash(spec: Spec) -> int:
    """The worker itself dies, as it does when it has taken too much memory."""
    trace(spec)
    os.kill(os.getpid(), signal.SIGKILL)
    return hang()


def total(number: int, batches: Iterator[pa.RecordBatch]) -> tuple[int, int, list[str]]:
    """Of a partition: how many rows, the sum of their first column, the names of all."""
    rows = amount = 0
    names: list[str] = []
    for batch in batches:
        rows += batch.num_rows
        amount += sum(batch.column(0).to_pylist())
        names = list(batch.schema.names)
    return rows, amount, names


def first_row_only(number: int, batches: Iterator[pa.RecordBatch]) -> int:
    """Leave the rest of the rows where they are."""
    return next((int(batch.column(0)[0].as_py()) for batch in batches), -1)


def refuse_rows(number: int, batches: Iterator[pa.RecordBatch]) -> int:
    next(batches, None)
    raise InvalidInput(Code.INPUT_INVALID, f"partition {number} is bad")


def pause() -> None:
    """Let others go on, in a loop that waits for them."""
    threading.Event().wait(_POLL_S)


class Killing:
    """Does what another function does to a batch; the first calls of all kill a process or hang.

    Args:
        make: What it stands for.
        folder: Where the kills are counted.
        victim: "worker", the "daemon" that forks workers, or the "executor" above both. With
            "nobody" the call hangs instead.
        times: So many kills.
    """

    def __init__(
        self,
        make: Callable[[pa.RecordBatch], pa.RecordBatch],
        folder: Path,
        victim: str,
        times: int,
    ) -> None:
        self.make = make
        self.folder = folder
        self.victim = victim
        self.times = times

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for number in range(self.times):
            try:
                (self.folder / f"kill-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            found = {"worker": os.getpid, "daemon": os.getppid, "executor": executor}
            if self.victim in found:
                os.kill(found[self.victim](), signal.SIGKILL)
            if self.victim != "daemon":
                hang()
        return self.make(batch)
