"""What a process and all that it started use: the peak of their memory, their processor time."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_GONE: Final = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a tree of processes has used.

    Attributes:
        driver_bytes: The peak of the process itself.
        jvm_bytes: The peaks of Java processes below it.
        workers_bytes: The peaks of all others below it.
        worker_bytes: The largest of those.
        read_bytes: What all of them have read, from a disk or its cache.
        cpu_seconds: Of all of them, ended ones included.
    """

    driver_bytes: int
    jvm_bytes: int
    workers_bytes: int
    worker_bytes: int
    read_bytes: int
    cpu_seconds: float

    @property
    def peak_bytes(self) -> int:
        """All together, as if they peaked at once."""
        return self.driver_bytes + self.jvm_bytes + self.workers_bytes


def forget_peaks(root: int) -> None:
    """Let the peaks of a process and of those below it begin anew."""
    for pid in _tree(root):
        with suppress(*_GONE):
            (PROC / str(pid) / "clear_refs").write_text("5", encoding="ascii")


def usage(root: int) -> Usage:
    """What a process and those below it have used."""
    peaks = {"driver": 0, "java": 0, "worker": 0}
    ticks = largest = read = 0
    for pid in _tree(root):
        with suppress(*_GONE):
            kind = "driver" if pid == root else "worker"
            if (PROC / str(pid) / "comm").read_text(encoding="utf-8").strip() == "java":
                kind = "java"
            ticks += _ticks(pid)
            read += _read(pid)
            peak = _peak(pid)
            peaks[kind] += peak
            largest = max(largest, peak if kind == "worker" else 0)
    return Usage(
        driver_bytes=peaks["driver"],
        jvm_bytes=peaks["java"],
        workers_bytes=peaks["worker"],
        worker_bytes=largest,
        read_bytes=read,
        cpu_seconds=ticks / _TICKS,
    )


def _tree(root: int) -> Iterator[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(*_GONE):
                children[int(_stat(int(entry.name))[1])].append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children[pid]


def _stat(pid: int) -> list[str]:
    """The fields of its status line after the name, which may hold anything."""
    return (PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()


def _ticks(pid: int) -> int:
    """Its own time and that of its ended children, in user and in system mode."""
    return sum(int(field) for field in _stat(pid)[11:15])


def _read(pid: int) -> int:
    """What it and its ended children asked the file system for."""
    first = (PROC / str(pid) / "io").read_text(encoding="ascii").splitlines()[0]
    return int(first.removeprefix("rchar: "))


def _peak(pid: int) -> int:
    status = (PROC / str(pid) / "status").read_text(encoding="utf-8")
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0  # on its way out
