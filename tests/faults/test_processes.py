"""Real processes: one that is held in the middle of a write, and ones that are killed."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.core.recovery.settlement import Settled
from omnigraph.core.repository import Repository
from omnigraph.errors import Code, Conflict, RecoveryRequired
from omnigraph.runtime import failpoints
from tests import tally
from tests.faults import worlds
from tests.faults.harness import Lab, audited, children
from tests.faults.worlds import COMPANY, DEV, KNOWS, PERSON

HELD = {PERSON: ("held",), KNOWS: ("held",)}


@pytest.fixture
def world(lab: Lab) -> Path:
    return lab.copy(lab.template("base", worlds.make))


# -- a live writer ---------------------------------------------------------------------------------


def write_and_wait(path: Path, where: Fp, pipe: Connection) -> None:
    """Write, but stop at a point until told to go on. Runs in a child."""

    def hold(point: StrEnum) -> None:
        if point is where:
            pipe.send("held")
            pipe.recv()

    repo = worlds.open_world(path)
    failpoints.watch(hold)
    published = worlds.add(repo, HELD, key="held")
    pipe.send(str(published.commit.id))


@contextmanager
def held(path: Path, where: Fp) -> Iterator[tuple[BaseProcess, Connection]]:
    """A process that stands still in the middle of a write."""
    ours, theirs = children.Pipe()
    child = children.Process(target=write_and_wait, args=(path, where, theirs))
    child.start()
    theirs.close()
    assert ours.recv() == "held"
    try:
        yield child, ours
    finally:
        child.kill()
        child.join()
        ours.close()


def assert_left_alone(path: Path, repo: Repository) -> None:
    """Nothing that another process does touches a live write, and only its tables wait for it."""
    (intent,) = repo.intents.pending()
    for outcome in (*repo.refresh(), *repo.recover()):
        assert outcome.settled is Settled.LIVE
    for rows in ({PERSON: ("b",)}, {KNOWS: ("b",), COMPANY: ("b",)}):
        with pytest.raises(Conflict) as caught:
            worlds.add(worlds.open_world(path), rows)
        assert caught.value.code is Code.WRITER_ACTIVE
        assert caught.value.details["operation_id"] == intent.operation_id
    with pytest.raises(Conflict):
        worlds.add(repo, {COMPANY: ("b",)}, key="held")
    worlds.add(repo, {COMPANY: ("b",)})
    repo.branches.create(DEV)
    worlds.add(repo, HELD, branch=DEV)
    assert repo.intents.pending() == (intent,)
    assert audited(repo) == set()


@pytest.mark.parametrize("where", [Fp.ARMED, Fp.LANDED_ONE, Fp.LANDED])
def test_a_live_write_is_left_alone_and_comes_through(world: Path, where: Fp) -> None:
    with held(world, where) as (child, pipe):
        repo = worlds.open_world(world)
        assert_left_alone(world, repo)
        if where is Fp.LANDED_ONE:
            pipe.send("go")  # it stops once more, after the second table
            assert pipe.recv() == "held"
        pipe.send("go")
        commit = pipe.recv()
        child.join()
        assert child.exitcode == 0
    assert next(repo.commits()).id == commit
    worlds.add(repo, {PERSON: ("b",)})
    worlds.assert_in_order(repo)
    assert audited(repo) == set()


@pytest.mark.parametrize(
    ("where", "lands"),
    [(Fp.ARMED, False), (Fp.LANDED_ONE, False), (Fp.LANDED, True)],
)
def test_after_its_process_died_the_write_is_settled(world: Path, where: Fp, lands: bool) -> None:
    with held(world, where) as (child, _):
        repo = worlds.open_world(world)
        assert_left_alone(world, repo)
        child.kill()
        child.join()
        if where is Fp.LANDED_ONE:
            # The handle was open all the time: its next write settles what is in its way.
            worlds.add(repo, {PERSON: ("a",)})
        repo = worlds.open_world(world)
    assert ("held" in worlds.rows_of(repo, PERSON)) == lands
    assert ("held" in worlds.rows_of(repo, KNOWS)) == lands
    worlds.add(repo, {PERSON: ("b",)})
    again = worlds.add(repo, HELD, key="held")
    assert again.replayed == lands
    worlds.assert_in_order(repo)
    assert len(audited(repo)) == 1


def test_a_writer_that_has_published_is_in_nobodys_way(world: Path) -> None:
    with held(world, Fp.PUBLISHED) as (child, pipe):
        repo = worlds.open_world(world)
        assert repo.recover()[0].settled is Settled.LIVE
        worlds.add(repo, {PERSON: ("b",)})
        pipe.send("go")
        pipe.recv()
        child.join()
    assert {"held", "b"} <= worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)
    assert audited(repo) == set()


# -- killing ---------------------------------------------------------------------------------------


def write_on(path: Path, who: str, pipe: Connection) -> None:
    """Write until killed, reporting every step and every acknowledgement. Runs in a child."""
    repo = worlds.open_world(path)
    failpoints.watch(lambda _: pipe.send(None))
    number = 0
    while True:
        name = f"{who}-{number}"
        if persistently(path, repo, name):
            pipe.send(name)
        number += 1


def persistently(path: Path, repo: Repository, name: str) -> bool:
    """Write one row to two tables; whether that was acknowledged."""
    for _ in range(10_000):
        try:
            worlds.add(repo, {PERSON: (name,), KNOWS: (name,)}, key=name)
        except RecoveryRequired:
            repo.recover()
        except Conflict:
            continue
        else:
            return True
    return False


def numbers(seed: int) -> Iterator[int]:
    """Numbers that look random and are the same on every run."""
    count = 0
    while True:
        count += 1
        yield int.from_bytes(hashlib.sha256(f"{seed}/{count}".encode()).digest()[:4])


def kill_after(pipe: Connection, child: BaseProcess, steps: int) -> set[str]:
    """Let a writer take some steps, kill it, and return what it had acknowledged."""
    acknowledged: set[str] = set()
    taken = 0
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            return acknowledged
        if message is not None:
            acknowledged.add(message)
        taken += 1
        if taken == steps:
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            tally.count("writers ended by SIGKILL")


def kill_writers(world: Path, *, rounds: int, seed: int) -> None:
    """Kill one writer after the other, while this process writes, too."""
    repo = worlds.open_world(world)
    acknowledged: set[str] = set()
    moments = numbers(seed)
    for number in range(rounds):
        ours, theirs = children.Pipe(duplex=False)
        child = children.Process(target=write_on, args=(world, f"victim{number}", theirs))
        child.start()
        theirs.close()
        acknowledged |= kill_after(ours, child, 1 + next(moments) % 120)
        child.join()
        ours.close()
        assert child.exitcode == -signal.SIGKILL
        name = f"survivor-{number}"
        if number % 2:
            repo = worlds.open_world(world)
        assert persistently(world, repo, name)
        acknowledged.add(name)
    repo = worlds.open_world(world)
    people, friendships = (
        {name for name in worlds.rows_of(repo, key) if "-" in name} for key in (PERSON, KNOWS)
    )
    assert people == friendships
    assert acknowledged <= people
    keys = [item.idempotency_key for item in repo.commits() if item.idempotency_key]
    assert sorted(keys) == sorted(people)
    worlds.state(repo)
    worlds.assert_in_order(repo)


def test_killed_writers_lose_nothing_they_acknowledged(world: Path) -> None:
    kill_writers(world, rounds=8, seed=1)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_killed_writers_lose_nothing_they_acknowledged(world: Path, seed: int) -> None:
    kill_writers(world, rounds=40, seed=seed)


def compete(path: Path, who: str, count: int, pipe: Connection) -> None:
    """Write some rows against competitors, some of which die. Runs in a child."""
    failures = 0
    repo = worlds.open_world(path)
    for number in range(count):
        if not persistently(path, repo, f"{who}-{number}"):
            failures += 1
    pipe.send(failures)


def test_writers_come_through_while_another_one_is_killed_again_and_again(world: Path) -> None:
    ours, theirs = children.Pipe()
    steady = children.Process(target=compete, args=(world, "steady", 12, theirs))
    steady.start()
    theirs.close()
    kill_writers(world, rounds=4, seed=99)
    assert ours.recv() == 0
    steady.join()
    repo = worlds.open_world(world)
    assert {f"steady-{number}" for number in range(12)} <= worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)
