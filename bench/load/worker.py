"""The process of one contender: `python -m bench.load.worker`, driven over its pipes.

A request is a pickled tuple, its name first; so is the reply, "done" or "failed" first. Times are
taken here, around what is measured alone, in nanoseconds.
"""

from __future__ import annotations

import gc
import os
import pickle
import traceback
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any, BinaryIO

from bench.load.contender import THREADS, Pass, contender


class Worker:
    """Answers the requests of the harness."""

    def __init__(self) -> None:
        """Nothing of the contender is imported yet."""
        self._pass: Pass | None = None

    def prepare(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Make ready a pass of a contender."""
        self._pass = contender(name)(**arguments)
        gc.collect()

    def run(self) -> int:
        """Run it; how long that took."""
        assert self._pass is not None
        start = perf_counter_ns()
        self._pass.run()
        return perf_counter_ns() - start

    def finish(self) -> tuple[Mapping[str, int], Mapping[str, Any]]:
        """How many rows the pass made, and what else there is to tell."""
        assert self._pass is not None
        done, self._pass = self._pass, None
        try:
            return dict(done.count()), dict(done.about)
        finally:
            done.close()


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
    """Keep the pipe to ourselves: contenders print to standard output as they like."""
    # As many cores for everybody, also for those who take what there is.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # What a contender starts must not read our requests.
    requests = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    serve(Worker(), requests, replies)


if __name__ == "__main__":
    main()
