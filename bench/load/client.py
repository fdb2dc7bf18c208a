"""The other end of a worker's pipes."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Final

from bench.load.processes import forget_peaks, usage
from bench.query.places import ROOT, home

LIMIT_S: Final = 1_800.0


class ContenderFailed(Exception):
    """A contender raised, or took too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One pass, as it was measured."""

    seconds: float
    cpu_seconds: float
    driver_bytes: int
    jvm_bytes: int
    workers_bytes: int
    worker_bytes: int = 0  # the largest of the workers
    read_bytes: int = 0
    wall_seconds: float = 0.0  # since the process was started
    counts: Mapping[str, int] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def peak_bytes(self) -> int:
        """The memory of all processes together, as if they peaked at once."""
        return self.driver_bytes + self.jvm_bytes + self.workers_bytes


class Client:
    """A process for a contender. Used with `with`."""

    def __init__(self, log: Path, *, peer: bool = False, cache: Path | None = None) -> None:
        """Start the process, with the peers' own interpreter if it is for one of them."""
        log.parent.mkdir(parents=True, exist_ok=True)
        python = str(home() / "venv" / "bin" / "python") if peer else sys.executable
        environment = dict(os.environ)
        if cache is not None:
            environment["OMNIGRAPH_HOME"] = str(cache)
        self._started_ns = perf_counter_ns()
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [python, "-m", "bench.load.worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
        )

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

    def measure(self, name: str, arguments: Mapping[str, Any]) -> Sample:
        """Prepare a pass, run it, and see what it used."""
        self._call("prepare", name, dict(arguments))
        pid = self._process.pid
        forget_peaks(pid)
        before = usage(pid)
        seconds = self._call("run") / 1e9
        wall = (perf_counter_ns() - self._started_ns) / 1e9
        after = usage(pid)
        counts, about = self._call("finish")
        return Sample(
            seconds=seconds,
            cpu_seconds=round(after.cpu_seconds - before.cpu_seconds, 2),
            driver_bytes=after.driver_bytes,
            jvm_bytes=after.jvm_bytes,
            workers_bytes=after.workers_bytes,
            worker_bytes=after.worker_bytes,
            read_bytes=after.read_bytes - before.read_bytes,
            wall_seconds=wall,
            counts=counts,
            about=about,
        )

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            # What a dead process did not read cannot be flushed.
            with suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        self._log.close()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def _call(self, *request: Any) -> Any:
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None
        assert replies is not None
        try:
            pickle.dump(request, requests)
            requests.flush()
            if not select.select([replies], [], [], LIMIT_S)[0]:
                self.kill()
                raise ContenderFailed(f"{request[0]} took more than {LIMIT_S:g} s")
            outcome, value = pickle.load(replies)
        except (BrokenPipeError, EOFError) as error:
            self.kill()
            raise ContenderFailed(f"the process died at {request[0]}") from error
        if outcome == "failed":
            raise ContenderFailed(f"{request[0]} failed\n{value}")
        return value
