"""The processor time of fresh processes of the command line, against what people notice."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.completing import ASKED
from omnigraph.errors import JsonValue

ROUNDS = 7
SCHEMA = "node Person { name: String @key }"
QUERY = "query q() { match { $p: Person } return { $p.name as name } }"


@dataclass(frozen=True, slots=True)
class Measured:
    """The best and the median processor time of a command, and what it may take."""

    name: str
    best_ms: float
    median_ms: float
    target_ms: float | None


def run() -> JsonValue:
    """Measure, tell, and answer the figures."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        found = list(measured(Path(folder)))
    rows = [
        (
            each.name,
            f"{each.best_ms:.0f} ms",
            f"{each.median_ms:.0f} ms",
            "-" if each.target_ms is None else f"{each.target_ms:.0f} ms",
        )
        for each in found
    ]
    render.out().line(("cli: processor time of a fresh process", "bold"))
    render.out().table(("command", "best", "median", "target"), rows)
    return [
        {"name": each.name, "best_ms": each.best_ms, "target_ms": each.target_ms} for each in found
    ]


def measured(folder: Path) -> list[Measured]:
    """Measure each command in a folder of its own."""
    with og.init(folder / "people.omni", SCHEMA) as graph:
        graph.mutate('query q() { insert Person { name: "Ada" } }')
    os.environ["OMNIGRAPH_HOME"] = str(folder)
    # An installed package has compiled files; without them each process would compile all anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    program = str(Path(sys.executable).with_name("omnigraph"))
    os.chdir(folder)
    _cpu([program, "completion", "bash"])
    line = "omnigraph query people.omni --br"
    cases: list[tuple[str, list[str], float | None]] = [
        ("python -c pass", [sys.executable, "-c", "pass"], None),
        ("omnigraph --help", [program, "--help"], 150),
        ("omnigraph query --help", [program, "query", "--help"], 150),
        ("a key press in bash", [program, ASKED, "bash", line], 150),
        ("omnigraph version", [program, "version"], 150),
        ("first local query", [program, "query", "people.omni", "-e", QUERY], 1000),
    ]
    with _served(program) as url:
        cases.append(("a query on a server", [program, "query", url, "-e", QUERY], 250))
        return [Measured(name, *_times(command), target) for name, command, target in cases]


@contextmanager
def _served(program: str) -> Iterator[str]:
    """The address of the graph on a server of this machine."""
    with subprocess.Popen(
        [program, "serve", "people.omni", "--bind", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip().partition("=")[2]
        yield f"http://{address}/graphs/people"
        server.terminate()


def _times(command: Sequence[str]) -> tuple[float, float]:
    _cpu(command)
    found = sorted(_cpu(command) for _ in range(ROUNDS))
    return found[0] * 1000, found[len(found) // 2] * 1000


def _cpu(command: Sequence[str]) -> float:
    """The processor time of a process and its children, in seconds."""
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(command[0], list(command), os.environ, file_actions=nowhere)
    _, _, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime
