"""The other end of a worker's pipes."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Final

from bench.query.engines import ENGINES
from bench.query.places import ROOT, home

LIMIT_S: Final = 120.0
LOAD_LIMIT_S: Final = 3_600.0


class EngineFailed(Exception):
    """An engine raised, or took too long."""


def interpreter(engine: str) -> str:
    """The Python that runs an engine."""
    return str(home() / "venv" / "bin" / "python") if ENGINES[engine].peer else sys.executable


class Client:
    """One engine in a process of its own. Used with `with`."""

    def __init__(self, engine: str, folder: Path, cache: Path | None = None) -> None:
        """Start the process; the engine is imported by `open`.

        What the engine keeps outside of its data goes to `cache`, else beside the data.
        """
        self.engine = engine
        self.questions: tuple[str, ...] = ()
        self._started_ns = perf_counter_ns()
        self._log = (folder / "log.txt").open("ab")
        self._process = subprocess.Popen(
            [interpreter(engine), "-m", "bench.query.worker", engine, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "OMNIGRAPH_HOME": str(cache or folder / "home")},
        )

    @property
    def age_ns(self) -> int:
        """How long ago the process was started."""
        return perf_counter_ns() - self._started_ns

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def load(self, data: Path) -> str:
        """Fill the engine; answers its version."""
        return str(self._call(LOAD_LIMIT_S, "load", str(data)))

    def open(self) -> int:
        """Import and open the engine; how long that took."""
        taken, self.questions = self._call(LIMIT_S, "open")
        return int(taken)

    def answer(self, question: str, params: Mapping[str, Any]) -> tuple[int, list[tuple[Any, ...]]]:
        """One answer, and how long it took."""
        taken, rows = self._call(LIMIT_S, "answer", question, dict(params))
        return int(taken), rows

    def burst(self, question: str, calls: Sequence[Mapping[str, Any]], budget_ns: int) -> list[int]:
        """The times of calls one after the other."""
        return list(self._call(LIMIT_S, "burst", question, list(calls), budget_ns))

    def memory(self) -> tuple[int, int]:
        """The resident bytes, now and at most so far."""
        now, peak = self._call(LIMIT_S, "memory")
        return now, peak

    def version(self) -> str:
        """The version of the engine's package."""
        return str(self._call(LIMIT_S, "version"))

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            # What a dead process did not read cannot be flushed.
            with suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        self._log.close()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def _call(self, limit_s: float, *request: Any) -> Any:
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None
        assert replies is not None
        try:
            pickle.dump(request, requests)
            requests.flush()
            if not select.select([replies], [], [], limit_s)[0]:
                self.kill()
                raise EngineFailed(f"{self.engine}: {request[0]} took more than {limit_s:g} s")
            outcome, value = pickle.load(replies)
        except (BrokenPipeError, EOFError) as error:
            self.kill()
            raise EngineFailed(f"{self.engine}: the process died at {request[0]}") from error
        if outcome == "failed":
            raise EngineFailed(f"{self.engine}: {request[0]} failed\n{value}")
        return value
