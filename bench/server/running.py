"""A server in processes of its own, whose processor time and memory are looked at from outside."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LOOK_SECONDS = 0.01
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs."""

    process: subprocess.Popen[str]
    host: str
    port: int

    @property
    def pids(self) -> list[int]:
        """Its processes."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *map(int, path.read_text().split())]

    @property
    def cpu(self) -> float:
        """Seconds of processor time of all its processes so far."""
        return sum(map(_cpu, self.pids))

    @property
    def mapped(self) -> int:
        """The bytes of libraries that one of its processes has mapped from files."""
        return max(_status(pid, "RssFile") for pid in self.pids)

    @contextmanager
    def watched(self) -> Iterator[list[int]]:
        """Watch how much memory of their own all its processes hold together; the most is kept."""
        most, stop = [0], threading.Event()

        def watch() -> None:
            while not stop.wait(_LOOK_SECONDS):
                most[0] = max(most[0], sum(_status(pid, "RssAnon") for pid in self.pids))

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield most
        finally:
            stop.set()
            watching.join()

    def connect(self) -> http.client.HTTPConnection:
        """A connection that is kept."""
        return http.client.HTTPConnection(self.host, self.port, timeout=600)

    def kill(self) -> None:
        """End it without a word."""
        for pid in reversed(self.pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(graph: Path, *arguments: str, log: Path) -> Iterator[Running]:
    """Serve a graph until the block ends."""
    command = [sys.executable, "-m", "omnigraph.cli.main", "serve", str(graph), *arguments]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [*command, "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    with process.stdout:
        host, _, port = process.stdout.readline().strip().partition("=")[2].rpartition(":")
    found = Running(process, host, int(port))
    try:
        connection = found.connect()
        ask(connection, "GET", "/readyz")
        connection.close()
        yield found
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()


def ask(connection: http.client.HTTPConnection, method: str, path: str, **body: Any) -> Any:
    """Ask for something on a connection that is kept; returns the decoded answer."""
    headers = {}
    if key := body.pop("key", None):
        headers["idempotency-key"] = key
    connection.request(method, path, json.dumps(body).encode() if body else None, headers)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    if answer.status != 200:
        raise ConnectionError(f"{answer.status}: {found}")
    return found


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _status(pid: int, name: str) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024
