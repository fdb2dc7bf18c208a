"""The processor time of fresh processes of the command line, against what people notice."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

import omnigraph as og
from bench.figure import Figure, head, publish, table
from omnigraph.cli.completing import ASKED
from omnigraph.errors import JsonValue

ROUNDS = 7
SCHEMA = "node Person { name: String @key }"
QUERY = "query q() { match { $p: Person } return { $p.name as name } }"


def run() -> JsonValue:
    """Measure, tell, and publish the figures."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        found = measured(Path(folder))
    lines = [
        *head("The command line, measured", "cli", 1),
        f"Fresh processes with compiled files, the median of {ROUNDS} rounds. The graph has one "
        "entity and lies on the local disk, or behind a server of this machine.",
        "",
        *table(found),
        "",
    ]
    return publish("cli", "\n".join(lines), found, 1)


def measured(folder: Path) -> list[Figure]:
    """Measure each command in a folder of its own."""
    with og.init(folder / "people.omni", SCHEMA) as graph:
        graph.mutate('query q() { insert Person { name: "Ada" } }')
    os.environ["OMNIGRAPH_HOME"] = str(folder)
    # An installed package has compiled files; without them each process would compile all anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    program = str(Path(sys.executable).with_name("omnigraph"))
    os.chdir(folder)
    _spent([program, "completion", "bash"])
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
        return [_figure(*case) for case in cases]


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


def _figure(name: str, command: Sequence[str], target_ms: float | None) -> Figure:
    _spent(command)
    rounds = [_spent(command) for _ in range(ROUNDS)]
    cpu, wall = (median(each) for each in zip(*rounds, strict=True))
    found = Figure(name=name, cpu=cpu, wall=wall)
    return found if target_ms is None else found.below(target_ms / 1000)


def _spent(command: Sequence[str]) -> tuple[float, float]:
    """The processor time of a process and its children, and the time that it took, in seconds."""
    nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    begin = perf_counter()
    pid = os.posix_spawn(command[0], list(command), os.environ, file_actions=nowhere)
    _, _, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime, perf_counter() - begin
