"""Tasks that wait for a worker that is gone.

Spark learns that a worker has died from its socket alone. While any other process holds that
socket, such as one that the worker had started, the task waits for ever: the settings
`spark.python.worker.idleTimeoutSeconds` and `killOnIdleTimeout` end workers that are there, and
never a task whose worker is not. So the thread that waits for a job on this machine looks for such
tasks, and ends their attempts; Spark then runs them again.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from omnigraph.dataplane.spark import tuning

_TASK: Final = re.compile(r"Executor task launch worker for task .*\(TID (\d+)\)")
_READS: Final = "BasePythonRunner$ReaderInputStream.read"
_DAEMON: Final = "pyspark.daemon"
_PROCESSES: Final = Path("/proc")


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A process of this machine: its parent, and its command."""

    parent: int
    command: str


class LostWorkers:
    """Ends attempts of tasks whose worker is gone, in a session whose tasks run in its JVM."""

    def __init__(self, context: Any) -> None:
        """Look after the tasks of a context of Spark."""
        self._context = context
        self._passes = 0
        self._waited: frozenset[int] = frozenset()

    def pass_by(self) -> None:
        """Look now and then, and end what has waited since the last look without any worker."""
        self._passes += 1
        if self._passes % tuning.active.polls_per_worker_check:
            return
        waiting = self._waiting()
        if waiting and _has_workers(self._context._jvm.java.lang.ProcessHandle.current().pid()):
            waiting = frozenset()
        for number in waiting & self._waited:
            reason = "its Python worker is gone"
            self._context._jsc.sc().killTaskAttempt(number, True, reason)
        self._waited = waiting

    def _waiting(self) -> frozenset[int]:
        """The numbers of the attempts that read from a worker just now."""
        traces = self._context._jvm.java.lang.Thread.getAllStackTraces()
        found = set()
        for thread in list(traces.keySet()):
            task = _TASK.match(thread.getName())
            if task and any(_READS in call.toString() for call in traces.get(thread)):
                found.add(int(task[1]))
        return frozenset(found)


def lost_workers_of(session: Any) -> LostWorkers | None:
    """The watcher of the tasks of a session; None if they run elsewhere."""
    context = session.sparkContext
    is_here = context.master == "local" or context.master.startswith("local[")
    return LostWorkers(context) if is_here and (_PROCESSES / "self" / "stat").exists() else None


def _has_workers(jvm: int) -> bool:
    """True if there may be a worker of this JVM."""
    known = _processes()
    for pid, process in known.items():
        line = _parents(pid, known)
        if jvm in line and not (line[0] == jvm and _DAEMON in process.command):
            return True
        # Workers whose daemon was killed have no parent, and may be of this JVM.
        above = known.get(process.parent)
        if _DAEMON in process.command and (above is None or not _may_fork(above)):
            return True
    return False


def _may_fork(process: WorkerProcess) -> bool:
    return _DAEMON in process.command or "java" in process.command.partition(" ")[0]


def _parents(pid: int, known: dict[int, WorkerProcess]) -> list[int]:
    line = []
    while pid in known and known[pid].parent not in line:
        pid = known[pid].parent
        line.append(pid)
    return line


def _processes() -> dict[int, WorkerProcess]:
    """All processes that run, without those that have ended and were not yet fetched."""
    found = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        # It may end while it is looked at.
        with suppress(OSError):
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
            if state != "Z":
                found[int(folder.name)] = WorkerProcess(int(parent), command)
    return found
