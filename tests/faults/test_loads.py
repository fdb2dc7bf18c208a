"""Loads, broken anywhere: all of a load is there, or nothing, and repeating it makes one commit."""

from __future__ import annotations

import os
import signal
import threading
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.core.layout import STAGING
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.errors import Conflict, Unavailable
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Crash, Fault, Refuse
from omnigraph.store.io.storage_calls import StorageCall
from tests.faults import loads, worlds
from tests.faults.harness import (
    FAULTS,
    Ending,
    Lab,
    at_any_call,
    check,
    children,
    judge_by_reopening,
    storage_calls,
    try_one,
)
from tests.faults.worlds import ACTIONS, LOADS

SOME = 40  # of the storage calls, one in so many is enough for a daily run
# What the others pass, these pass, too; and refusals of creations are tried in `test_writes`.
DAILY = {("merge_load", fault) for fault in FAULTS}

every_load = pytest.mark.parametrize("action", LOADS)
every_fault = pytest.mark.parametrize("fault", FAULTS)


@pytest.mark.parametrize(
    ("action", "fault"),
    [
        pytest.param(action, fault, marks=() if (action, fault) in DAILY else pytest.mark.deep)
        for action in LOADS
        for fault in FAULTS
    ],
)
def test_every_failpoint(lab: Lab, action: str, fault: str) -> None:
    passed = {point: times for point, times in lab.passes(action).items() if point in set(Fp)}
    assert {Fp.STAGED, Fp.ARM, Fp.LAND, Fp.PUBLISH, Fp.FORGET} <= passed.keys()
    for point, times in passed.items():
        check(lab, action, {point: FAULTS[fault]}, range(1, times + 1))


@every_fault
@every_load
def test_some_storage_calls(lab: Lab, action: str, fault: str) -> None:
    number = list(LOADS).index(action) * len(FAULTS) + list(FAULTS).index(fault)
    check(
        lab, action, at_any_call(FAULTS[fault]), storage_calls(lab, action)[number % SOME :: SOME]
    )


@pytest.mark.deep
@every_fault
@every_load
def test_every_storage_call(lab: Lab, action: str, fault: str) -> None:
    chosen: Fault = FAULTS[fault]
    every = storage_calls(lab, action)
    check(lab, action, at_any_call(chosen), every)
    if not isinstance(chosen, Crash):
        check(lab, action, at_any_call(chosen), every[1:])  # in the other way of judging
    assert not try_one(lab, action, at_any_call(chosen), every[-1] + 1).fired


# -- killing ---------------------------------------------------------------------------------------


def load_and_tell(path: Path, action: str, pipe: Connection) -> None:
    """Load, telling every step. Runs in a child, which is killed at one of them."""
    repo = worlds.open_world(path)
    lock = threading.Lock()

    def tell(_: StrEnum) -> None:
        with lock:
            pipe.send(None)
            pipe.recv()

    failpoints.watch(tell)
    ACTIONS[action].run(repo)


def kill_at(path: Path, action: str, step: int) -> bool:
    """Let a load take some steps and kill it; whether it came so far."""
    ours, theirs = children.Pipe()
    child = children.Process(target=load_and_tell, args=(path, action, theirs))
    child.start()
    theirs.close()
    try:
        for _ in range(step - 1):
            ours.recv()
            ours.send(None)
        ours.recv()
    except EOFError:
        child.join()
        assert child.exitcode == 0
        return False
    finally:
        if child.pid is not None and child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
        child.join()
        ours.close()
    assert child.exitcode == -signal.SIGKILL
    return True


@pytest.mark.parametrize("action", ["remote_load", "branch_load"])
def test_a_killed_load_is_there_or_not(lab: Lab, action: str) -> None:
    step, came = 3, True
    while came:
        path = lab.world(action)
        came = kill_at(path, action, step)
        ending = Ending.CRASHED if came else Ending.ACKNOWLEDGED
        judge_by_reopening(lab, path, action, ending)
        lab.discard(path)
        step += 31
    assert step > 60


def test_what_a_killed_load_staged_is_removed_by_whoever_opens_the_graph(lab: Lab) -> None:
    path = lab.world("remote_load")
    staged = path / STAGING
    step = 0
    while not (staged.is_dir() and any(staged.rglob("*.arrow"))):
        step += 5
        assert kill_at(path, "remote_load", step)
    repo = worlds.open_world(path)
    before, _ = lab.states("remote_load")
    assert worlds.state(repo) == before
    assert not list(staged.iterdir())
    lab.discard(path)


def test_a_task_that_fails_on_a_thread_ends_the_whole_load(lab: Lab) -> None:
    before, after = lab.states("append_load")
    path = lab.world("append_load")
    repo = worlds.open_world(path)
    faults = {StorageCall.TABLE_WRITE: Refuse()}
    with failpoints.armed(faults, nth=2), pytest.raises(Unavailable):
        loads.append(repo, InProcessRunner(4))
    assert worlds.state(repo) == before
    loads.append(repo, InProcessRunner(4))
    assert worlds.state(repo) == after
    worlds.assert_in_order(repo)
    lab.discard(path)


def test_the_key_of_a_load_into_the_source_is_no_answer_for_the_branch(lab: Lab) -> None:
    path = lab.world("branch_load")
    repo = worlds.open_world(path)
    loads.append(repo)
    with pytest.raises(Conflict):
        loads.branch(repo)
    assert repo.branches.list() == ("main",)
    worlds.assert_in_order(repo)
    worlds.assert_nothing_left(repo)
    lab.discard(path)
