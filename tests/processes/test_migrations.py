"""Several processes take over one graph of the original at once: all get through, once each."""

from __future__ import annotations

import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

import omnigraph as og
from tests.originals import INIT, make_original

ADD = "query add($n: String) { insert Person { name: $n } }"
ALL = "query all() { match { $p: Person } return { $p.name as name } order { name } }"
PATIENCE_S = 300


def take_over(path: Path, name: str, start: Barrier) -> None:
    start.wait(PATIENCE_S)
    with og.open(path) as graph:
        for branch in ("main", "feature"):
            graph.mutate(ADD, {"n": name}, branch=branch)


@pytest.mark.parametrize("number", [1, 3])
def test_two_processes_take_over_one_graph(tmp_path: Path, number: int) -> None:
    make_original(tmp_path / "graph", number)
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(2)
    workers = [
        context.Process(target=take_over, args=(tmp_path / "graph", f"w{at}", start))
        for at in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S)
        assert worker.exitcode == 0
    with og.open(tmp_path / "graph") as graph:
        for branch, third in (("main", "Di"), ("feature", "Cy")):
            found = [row["name"] for row in graph.query(ALL, branch=branch)]
            assert found == ["Ada", "Bo", third, "w0", "w1"]
            history = [str(commit.id) for commit in graph.commits.list(branch)]
            assert len(history) == len(set(history)) == 6
            assert history[-1] == INIT
