"""Loads on Spark whose driver fails or is killed: all or nothing, and the key makes one commit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest

import omnigraph as og
from omnigraph.core.failpoints import Fp
from omnigraph.dataplane.spark.runner import SparkRunner
from omnigraph.dataplane.spark.session import HeldSession
from omnigraph.runtime.failpoints import CRASH_STATUS, catalogued
from tests.faults import loads, worlds
from tests.faults.harness import FAULTS, Ending, Lab, attempt, judge_by_reopening, passes

SCHEMA = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
PEOPLE = 3_000
LIKE = "remote_load"  # the same load, with tasks in this process
KILLED = dedent("""
    import sys
    import omnigraph as og

    def tell(moment):
        print(moment.stage, moment.tasks_done, flush=True)
        sys.stdin.readline()

    with og.open("g.omni") as graph:
        graph.load("lines", engine="spark", spark="local[2,3]", idempotency_key="k", progress=tell)
""")


CRASHED = dedent("""
    import sys
    from pathlib import Path
    from omnigraph.core.failpoints import Fp
    from omnigraph.dataplane.spark.config import configured
    from omnigraph.dataplane.spark.runner import SparkRunner
    from omnigraph.dataplane.spark.session import acquire
    from omnigraph.runtime import failpoints
    from tests.faults import loads, worlds

    repo = worlds.open_world(Path(sys.argv[1]), durable=True)
    with acquire(configured("local[2,3]")) as held:
        failpoints.arm(failpoints.Plan(faults=((Fp(sys.argv[2]), failpoints.Crash()),)))
        loads.append(repo, SparkRunner(held))
""")
POINTS = [Fp.STAGED, Fp.ARM, Fp.ARMED, Fp.LAND, Fp.LANDED_ONE, Fp.PUBLISH, Fp.PUBLISHED, Fp.FORGET]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


# -- failing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["refuse", "lost_reply"])
def test_every_failpoint_of_the_driver(lab: Lab, local: HeldSession, fault: str) -> None:
    runner = SparkRunner(local)
    path = lab.world(LIKE)
    repo = worlds.open_world(path)
    passed = passes(lambda: loads.append(repo, runner), catalogued())
    lab.discard(path)
    points = {point: times for point, times in passed.items() if point in set(Fp)}
    assert {Fp.STAGED, Fp.ARM, Fp.LAND, Fp.PUBLISH, Fp.FORGET} <= points.keys()
    for point, times in points.items():
        for nth in sorted({1, times}):
            path = lab.world(LIKE)
            repo = worlds.open_world(path, durable=True)
            run = partial(loads.append, repo, runner)
            result = attempt(run, {point: FAULTS[fault]}, nth)
            assert result.fired, (point, nth)
            judge_by_reopening(lab, path, LIKE, result.ending)
            lab.discard(path)


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_of_the_driver_at_a_failpoint(lab: Lab, point: Fp) -> None:
    path = lab.world(LIKE)
    child = [sys.executable, "-c", CRASHED, str(path), point.value]
    done = subprocess.run(child, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == CRASH_STATUS, done.stderr
    judge_by_reopening(lab, path, LIKE, Ending.CRASHED)


# -- dying -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stage", "tasks_done"),
    [("split", 0), ("read", 0), ("read", 1), ("judge", 0), ("commit", 0), ("", 0)],
    ids=["before", "reading", "half read", "judging", "committing", "not at all"],
)
def test_a_killed_driver_leaves_all_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, tasks_done: int
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_lines(Path("lines"))
    og.init("g.omni", SCHEMA).close()
    was_killed = _run_until(stage, tasks_done)
    assert was_killed is bool(stage)
    with og.open("g.omni") as graph:
        there = graph.snapshot().counts["node:Person"]
        assert there == (0 if was_killed else PEOPLE)
        again = graph.load("lines", engine="inprocess", idempotency_key="k")
        assert again.replayed is not was_killed
        counts = graph.snapshot().counts
        assert (counts["node:Person"], counts["edge:Knows"]) == (PEOPLE, PEOPLE)
        kinds = [commit.kind for commit in graph.commits.list()]
        assert kinds.count("load") == 1


def _write_lines(folder: Path) -> None:
    folder.mkdir()
    for start in range(0, PEOPLE, PEOPLE // 4):
        numbers = range(start, start + PEOPLE // 4)
        people = [{"type": "Person", "data": {"name": f"p{n}"}} for n in numbers]
        knows = [
            {"edge": "Knows", "from": f"p{n}", "to": f"p{(n * 7 + 1) % PEOPLE}"} for n in numbers
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in [*knows, *people])
        (folder / f"{start}.jsonl").write_text(text)


def _run_until(stage: str, tasks_done: int) -> bool:
    """Load in a process of its own, and kill that when it gets there; was it killed?"""
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    with child:
        for line in child.stdout:
            name, done = line.split()
            if name == stage and int(done) >= tasks_done:
                child.send_signal(signal.SIGKILL)
                child.wait()
                return True
            child.stdin.write("\n")
            child.stdin.flush()
        errors = child.stderr.read()
    assert child.returncode == 0, errors
    return False
