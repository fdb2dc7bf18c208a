"""The process of one engine: `python -m bench.query.worker ENGINE HOME`, driven over its pipes.

A request is a pickled tuple, its name first; so is the reply, "done" or "failed" first. Times are
taken here, around each call alone, in nanoseconds.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter_ns
from typing import Any, BinaryIO

from bench.query.engines import ENGINES, THREADS, Ask, adapter


class Worker:
    """Answers the requests of the harness."""

    def __init__(self, engine: str, home: Path) -> None:
        """Nothing of the engine is imported yet."""
        self._engine = engine
        self._home = home
        self._asks: Mapping[str, Ask] = {}

    def load(self, data: str) -> str:
        """Fill the engine; answers its version."""
        adapter(self._engine).load(Path(data), self._home)
        return self.version()

    def open(self) -> tuple[int, tuple[str, ...]]:
        """Import and open the engine; how long that took, and what it can answer."""
        start = perf_counter_ns()
        self._asks = adapter(self._engine).open(self._home)
        return perf_counter_ns() - start, tuple(self._asks)

    def answer(self, question: str, params: Mapping[str, Any]) -> tuple[int, list[tuple[Any, ...]]]:
        """One answer, and how long it took."""
        start = perf_counter_ns()
        rows = self._asks[question](params)
        taken = perf_counter_ns() - start
        return taken, [tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows]

    def burst(self, question: str, calls: Sequence[Mapping[str, Any]], budget_ns: int) -> list[int]:
        """The times of calls one after the other, the first in any case, until time is up."""
        ask, taken, total = self._asks[question], [], 0
        gc.collect()
        for params in calls:
            start = perf_counter_ns()
            ask(params)
            taken.append(perf_counter_ns() - start)
            total += taken[-1]
            if total > budget_ns:
                break
        return taken

    def memory(self) -> tuple[int, int]:
        """The resident bytes, now and at most so far."""
        status = Path("/proc/self/status").read_text(encoding="ascii")
        found = dict(line.split(":", 1) for line in status.splitlines())
        # Not by getrusage: that one starts from the peak of the process that started this one.
        return _bytes(found["VmRSS"]), _bytes(found["VmHWM"])

    def version(self) -> str:
        """The version of the engine's package."""
        try:
            return version(ENGINES[self._engine].package)
        except PackageNotFoundError:
            return ""


def _bytes(text: str) -> int:
    """`12 kB` as a number."""
    return int(text.split(maxsplit=1)[0]) * 1024


def serve(worker: Worker, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer until the other side hangs up."""
    while True:
        try:
            name, *arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            reply = ("done", getattr(worker, name)(*arguments))
        except Exception:  # noqa: BLE001 - whatever it was, the harness tells
            reply = ("failed", traceback.format_exc())
        pickle.dump(reply, replies)
        replies.flush()


def main() -> None:
    """Keep the pipe to ourselves: engines print to standard output as they like."""
    engine, home = sys.argv[1:]
    # As many cores for everybody, also for engines that take what there is.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(Worker(engine, Path(home)), sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
