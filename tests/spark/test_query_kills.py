"""Queries and algorithms while processes die: workers, what forks them, executors, the driver.

The answer is right or an error says that a process went away, and the session goes on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import omnigraph as og
from omnigraph.dataplane.spark.config import configured
from omnigraph.dataplane.spark.session import HeldSession, acquire
from omnigraph.exec.spark import frames
from omnigraph.exec.spark.filters import KeepEntities
from tests.spark.clusters import EXECUTORS, local_cluster
from tests.spark.kernels import Killing, pause
from tests.spark.processes import below

SCHEMA = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
PEOPLE = 300
TRIES = 8
PATIENCE_S = 240.0  # far more than a query takes, also on a busy machine
ALWAYS = 50  # far more kills than all tasks of a query may fail
QUERY = """
query q($least: I32) {
  match { $p: Person $p.age > $least  $p knows {1,2} $f  $f.age > 3 }
  return { $f.age as age, count($f) as n } order { $f.age asc }
}
"""
ASKED = dedent("""
    import sys
    import omnigraph as og

    with og.open(sys.argv[1], "r") as graph:
        while True:
            rows = graph.query(sys.argv[2], {"least": 50}, engine="spark", spark="local[2,3]")
            print(len(rows.to_pylist()), flush=True)
""")


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        people = [{"name": f"p{n}", "age": n % 90} for n in range(PEOPLE)]
        knows = [{"from": f"p{n}", "to": f"p{(n * 7 + 1) % PEOPLE}"} for n in range(PEOPLE)]
        graph.load({"Person": people, "Knows": knows})
        yield graph


@pytest.fixture(scope="module")
def executors() -> Iterator[Any]:
    with local_cluster() as master, acquire(configured(master, EXECUTORS)) as held:
        yield held.session


def killing(monkeypatch: pytest.MonkeyPatch, folder: Path, victim: str, times: int) -> None:
    """Let the tasks that filter entities kill somebody, so many times in all."""

    def made(*arguments: Any) -> Killing:
        return Killing(KeepEntities(*arguments), folder, victim, times)

    monkeypatch.setattr(frames, "KeepEntities", made)


def check_answers(graph: og.Graph, session: Any) -> None:
    ask = partial(graph.query, QUERY, {"least": 50})
    assert ask(engine="spark", spark=session).to_pylist() == ask(engine="inprocess").to_pylist()


@pytest.mark.parametrize("victim", ["worker", "daemon"])
def test_a_killed_worker_is_replaced(
    graph: og.Graph,
    local: HeldSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    victim: str,
) -> None:
    killing(monkeypatch, tmp_path, victim, 1)
    for _ in range(3):
        check_answers(graph, local.session)
    assert (tmp_path / "kill-0").exists()


def test_a_query_whose_workers_are_killed_always_fails_and_the_next_one_answers(
    graph: og.Graph, local: HeldSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killing(monkeypatch, tmp_path, "worker", ALWAYS)
    with pytest.raises(og.errors.Unavailable, match="worker"):
        check_answers(graph, local.session)
    for number in range(ALWAYS):
        (tmp_path / f"kill-{number}").touch()
    check_answers(graph, local.session)


def test_idle_workers_that_were_killed_are_not_missed(graph: og.Graph, local: HeldSession) -> None:
    check_answers(graph, local.session)
    for pid in below(os.getpid(), "pyspark.daemon"):
        os.kill(pid, signal.SIGKILL)
    check_answers(graph, local.session)


@pytest.mark.parametrize("seed", range(3))
def test_workers_that_are_killed_at_any_moment_hold_up_no_query(
    graph: og.Graph, local: HeldSession, seed: int
) -> None:
    """Idle ones before a query, with or without what forks them, and busy ones while it runs."""
    dice = np.random.default_rng(seed)
    expected = graph.query(QUERY, {"least": 50}, engine="inprocess").to_pylist()

    def kill_some(ended: threading.Event) -> None:
        for _ in range(dice.integers(1, 4)):
            daemon, *workers = below(os.getpid(), "pyspark.daemon") or [0]
            some = (workers, workers[:1], workers[1:], [daemon, *workers])[dice.integers(4)]
            for pid in filter(None, some):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if ended.wait(dice.random() * 3):
                return

    for _ in range(TRIES):
        ended = threading.Event()
        killer = threading.Thread(target=kill_some, args=(ended,))
        killer.start()
        try:
            rows = graph.query(
                QUERY, {"least": 50}, engine="spark", spark=local.session, timeout=PATIENCE_S
            )
            assert rows.to_pylist() == expected
        except og.errors.Unavailable as error:
            assert "worker" in str(error) or "daemon" in str(error)  # noqa: PT017
        finally:
            ended.set()
            killer.join()
    check_answers(graph, local.session)


class WhenItHangs(og.CancelToken):
    """Is cancelled once a task has begun to hang."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    @property
    def cancelled(self) -> bool:
        return (self.folder / "kill-0").exists()


def test_a_query_whose_worker_hangs_is_cancelled_and_the_next_one_answers(
    graph: og.Graph, local: HeldSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killing(monkeypatch, tmp_path, "nobody", 1)
    stop = WhenItHangs(tmp_path)
    with pytest.raises(og.errors.Cancelled):
        graph.query(QUERY, {"least": 50}, engine="spark", spark=local.session, cancel=stop)
    check_answers(graph, local.session)


def test_a_killed_executor_is_replaced(
    graph: og.Graph, executors: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_answers(graph, executors)
    before = graph.algorithms.connected_components(engine="inprocess").to_pylist()
    killing(monkeypatch, tmp_path, "executor", 1)
    check_answers(graph, executors)
    assert (tmp_path / "kill-0").exists()
    # What the executor kept of the edges is computed anew.
    found = graph.algorithms.connected_components(engine="spark", spark=executors)
    assert found.to_pylist() == before


def test_a_killed_driver_leaves_no_process(graph: og.Graph) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", ASKED, graph.uri, QUERY], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child:
        assert int(child.stdout.readline()) > 0
        left = below(child.pid, "")
        assert len(left) > 1, "a JVM and its workers"
        child.send_signal(signal.SIGKILL)
    while any(_is_running(pid) for pid in left):
        pause()
    assert len(graph.query(QUERY, {"least": 50}, engine="inprocess")) > 0


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
