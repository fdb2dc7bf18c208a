"""Branches that come into being with a commit: at no moment is there one without the other.

`test_writes` breaks such a write at every point. Here somebody looks at it all the time, wants the
same name, takes it over after its process was killed, and is broken while doing so.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.recovery.settlement import Settled
from omnigraph.core.repository import OpenMode, Repository
from omnigraph.errors import Code, Conflict, GraphError, NotFound
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Crash, Fault, Plan
from omnigraph.store.io.storage_calls import StorageCall
from tests.faults import worlds
from tests.faults.harness import (
    FAULTS,
    Lab,
    attempt,
    audited,
    children,
    crash_child,
    finish,
    open_interrupted,
    passes,
)
from tests.faults.worlds import COMPANY, DEV, KNOWS, PERSON, State

ROWS = {PERSON: ("held",), KNOWS: ("held",)}
CROWD = 4


@pytest.fixture
def world(lab: Lab) -> Path:
    return lab.copy(lab.template("base", worlds.make))


# -- somebody looks --------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["creation", "bare_creation"])
def test_before_every_call_a_reader_sees_no_branch_or_all_of_it(lab: Lab, action: str) -> None:
    before, after = lab.states(action)
    path = lab.world(action)
    seen: list[State] = []

    def look() -> None:
        seen.append(worlds.state(worlds.open_world(path, OpenMode.READ_ONLY)))

    repo = open_interrupted(path, look)
    worlds.ACTIONS[action].run(repo)
    look()
    turn = seen.index(after)
    assert turn > 20
    assert all(state == before for state in seen[:turn])
    assert all(state == after for state in seen[turn:])
    lab.discard(path)


# -- somebody is held in the middle ----------------------------------------------------------------


def bear_and_wait(path: Path, where: Fp, pipe: Connection) -> None:
    """Make a branch with a commit, but stop at a point until told to go on. Runs in a child."""
    waits = True

    def hold(point: StrEnum) -> None:
        nonlocal waits
        if point is where and waits:
            waits = False
            pipe.send("held")
            pipe.recv()

    repo = worlds.open_world(path)
    failpoints.watch(hold)
    pipe.send(outcome(repo, ROWS, "held"))


def outcome(repo: Repository, rows: Mapping[str, tuple[str, ...]], key: str | None) -> str:
    """The commit, or why there is none."""
    try:
        return str(worlds.commit_new_branch(repo, rows, key=key).commit.id)
    except GraphError as error:
        return error.code.value


@contextmanager
def held(path: Path, where: Fp) -> Iterator[tuple[BaseProcess, Connection]]:
    """A process that stands still in the middle of making a branch."""
    ours, theirs = children.Pipe()
    child = children.Process(target=bear_and_wait, args=(path, where, theirs))
    child.start()
    theirs.close()
    assert ours.recv() == "held"
    try:
        yield child, ours
    finally:
        child.kill()
        child.join()
        ours.close()


BETWEEN = [Fp.STAGED, Fp.ARMED, Fp.LANDED_ONE, Fp.LANDED]


@pytest.mark.parametrize("where", BETWEEN)
def test_a_live_maker_is_left_alone_and_comes_through(world: Path, where: Fp) -> None:
    with held(world, where) as (child, pipe):
        repo = worlds.open_world(world)
        (intent,) = repo.intents.pending()
        for found in (*repo.refresh(), *repo.recover()):
            assert found.settled is Settled.LIVE
        assert repo.branches.reclaim() == 0
        assert repo.branches.list() == ("main",)
        assert not repo.has_branch(DEV)
        with pytest.raises(NotFound):
            repo.snapshot(DEV)
        # It is in nobody's way: what it writes to is its own.
        worlds.add(repo, {PERSON: ("b",), KNOWS: ("b",), COMPANY: ("b",)})
        assert repo.intents.pending() == (intent,)
        pipe.send("go")
        commit = pipe.recv()
        child.join()
    assert next(repo.commits(DEV)).id == commit
    assert worlds.rows_of(repo, PERSON, DEV) == {"p0", "p1", "held"}
    worlds.assert_in_order(repo)
    assert audited(repo) == set()


@pytest.mark.parametrize("where", BETWEEN)
@pytest.mark.parametrize("with_commit", [False, True])
def test_the_name_goes_to_who_is_there_first(world: Path, where: Fp, with_commit: bool) -> None:
    with held(world, where) as (child, pipe):
        repo = worlds.open_world(world)
        if with_commit:
            worlds.commit_new_branch(repo, {COMPANY: ("first",)})
        else:
            repo.create_branch(DEV)
        first = worlds.state(repo)
        pipe.send("go")
        assert pipe.recv() == Code.BRANCH_EXISTS
        child.join()
    assert worlds.state(repo) == first
    worlds.assert_in_order(repo)
    worlds.assert_nothing_left(repo)
    assert audited(repo) == set()


@pytest.mark.parametrize(
    ("where", "lands"),
    [
        (Fp.BEGIN, False),
        (Fp.STAGED, False),
        (Fp.ARMED, False),
        (Fp.LANDED_ONE, False),
        (Fp.LANDED, True),
        (Fp.FIRST_COMMIT, True),
        (Fp.PUBLISH, True),
        (Fp.PUBLISHED, True),
    ],
)
def test_after_its_maker_was_killed_the_name_can_be_used(
    world: Path, where: Fp, lands: bool
) -> None:
    with held(world, where) as (child, _):
        child.kill()
        child.join()
        reader = worlds.open_world(world, OpenMode.READ_ONLY)
        assert reader.has_branch(DEV) == (where is Fp.PUBLISHED)
        repo = worlds.attach(world)  # has settled nothing
        assert repo.has_branch(DEV) == lands
    again = worlds.commit_new_branch(repo, ROWS, key="held")
    assert again.replayed == lands
    assert worlds.rows_of(repo, PERSON, DEV) == {"p0", "p1", "held"}
    assert worlds.rows_of(repo, PERSON) == {"p0", "p1"}
    repo.recover()
    worlds.assert_in_order(repo)
    worlds.assert_nothing_left(repo)


@pytest.mark.parametrize("where", [Fp.LANDED, Fp.PUBLISH, Fp.PUBLISHED])
def test_a_deleted_branch_is_not_made_again_by_recovery(world: Path, where: Fp) -> None:
    with held(world, where) as (child, _):
        child.kill()
        child.join()
    repo = worlds.attach(world)
    if where is not Fp.PUBLISHED:
        repo.create_branch(DEV)  # what was left behind does not know it
    repo.delete_branch(DEV)
    fresh = worlds.open_world(world)
    assert fresh.branches.list() == ("main",)
    worlds.assert_in_order(fresh)
    worlds.assert_nothing_left(fresh)


# -- many want the same name -----------------------------------------------------------------------


def judge_race(repo: Repository, outcomes: list[str]) -> None:
    """One has made the branch, with its rows and no others; the others were told so."""
    assert outcomes.count(Code.BRANCH_EXISTS) == CROWD - 1, outcomes
    (winner,) = [item for item in outcomes if item != Code.BRANCH_EXISTS]
    assert next(repo.commits(DEV)).id == winner
    new = worlds.rows_of(repo, PERSON, DEV) - worlds.rows_of(repo, PERSON)
    assert new == {f"w{outcomes.index(winner)}"}
    worlds.assert_in_order(repo)
    worlds.assert_nothing_left(repo)
    assert audited(repo) == set()


def race(repo: Repository, number: int, start: Barrier | threading.Barrier) -> str:
    """Begin when all are ready, so that nobody sees the branch of another one too early."""
    try:
        with repo.creating_branch(DEV) as base:
            rows = {PERSON: (f"w{number}",), KNOWS: (f"w{number}",)}
            kind = WriterKind.LOAD
            prepared = worlds.insertion(repo, DEV, rows, kind=kind, base=base)
            start.wait()
            return str(repo.commit(prepared).commit.id)
    except Conflict as conflict:
        return conflict.code.value


def race_in_child(path: Path, number: int, start: Barrier, pipe: Connection) -> None:
    pipe.send(race(worlds.open_world(path), number, start))


def test_of_threads_that_make_one_branch_one_wins(world: Path) -> None:
    start = threading.Barrier(CROWD)
    engines = [worlds.open_world(world), worlds.open_world(world)]
    outcomes = [""] * CROWD

    def run(number: int) -> None:
        outcomes[number] = race(engines[number % 2], number, start)

    crowd = [threading.Thread(target=run, args=(number,)) for number in range(CROWD)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    judge_race(engines[0], outcomes)


def test_of_processes_that_make_one_branch_one_wins(world: Path) -> None:
    start = children.Barrier(CROWD)
    pipes = [children.Pipe() for _ in range(CROWD)]
    crowd = [
        children.Process(target=race_in_child, args=(world, number, start, pipes[number][1]))
        for number in range(CROWD)
    ]
    for child in crowd:
        child.start()
    outcomes = [str(ours.recv()) for ours, _ in pipes]
    for child in crowd:
        child.join()
    for ours, theirs in pipes:
        ours.close()
        theirs.close()
    judge_race(worlds.open_world(world), outcomes)


def test_threads_that_do_the_same_thing_make_one_commit(world: Path) -> None:
    repo = worlds.open_world(world)
    start = threading.Barrier(CROWD)
    found: list[tuple[str, bool]] = []

    def run() -> None:
        with repo.creating_branch(DEV) as base:
            kind = WriterKind.LOAD
            prepared = worlds.insertion(repo, DEV, ROWS, kind=kind, key="same", base=base)
            start.wait()
            published = repo.commit(prepared)
            found.append((published.commit.id, published.replayed))

    crowd = [threading.Thread(target=run) for _ in range(CROWD)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    head = repo.snapshot(DEV).head
    assert sorted(found) == [(head, False), *([(head, True)] * (CROWD - 1))]
    assert worlds.rows_of(repo, PERSON, DEV) == {"p0", "p1", "held"}
    worlds.assert_in_order(repo)
    worlds.assert_nothing_left(repo)


# -- recovery is broken, too -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Situation:
    """A maker whose process died at a certain moment, and how that must end.

    Forks name their parent by its path, so a world with forks can only be put back where it was.
    """

    point: Fp
    lands: bool

    def path(self, lab: Lab) -> Path:
        """The folder that it left behind, as it was left."""
        path, kept = (lab.folder / f"{kind}-{self.point}" for kind in ("creation", "kept"))
        if not kept.exists():
            lab.copy(lab.template("base", worlds.make)).rename(path)
            assert crash_child(path, "creation", Plan(faults=((self.point, Crash()),))).fired
            assert len(worlds.intents_left(path)) == 1
            shutil.copytree(path, kept)
        shutil.rmtree(path)
        shutil.copytree(kept, path)
        return path


SITUATIONS = {
    "begun": Situation(Fp.STAGED, False),
    "half_landed": Situation(Fp.LANDED_ONE, False),
    "landed": Situation(Fp.LANDED, True),
    "on_the_staging_ref": Situation(Fp.PUBLISH, True),
    "published": Situation(Fp.PUBLISHED, True),
}
situations = pytest.mark.parametrize("name", SITUATIONS)
faults = pytest.mark.parametrize("fault", FAULTS)


def judge(lab: Lab, situation: Situation, path: Path, left: set[str]) -> None:
    before, after = lab.states("creation")
    repo = worlds.open_world(path)
    assert worlds.state(repo) == (after if situation.lands else before)
    worlds.assert_in_order(repo)
    assert audited(repo) == left
    finish(repo, "creation", after)


def break_opening(lab: Lab, situation: Situation, plan: Mapping[StrEnum, Fault], nth: int) -> None:
    path = situation.path(lab)
    left = worlds.intents_left(path)
    try:
        if any(isinstance(fault, Crash) for fault in plan.values()):
            whole = Plan(faults=tuple(plan.items()), nth=nth)
            result = crash_child(path, "nothing", whole, while_opening=True)
        else:
            result = attempt(lambda: worlds.open_world(path, durable=True), plan, nth)
        assert result.fired
        judge(lab, situation, path, left)
    except Exception as error:
        error.add_note(f"pass {nth} of {set(plan)}")
        raise


def opening_passes(lab: Lab, situation: Situation, points: type[StrEnum]) -> dict[StrEnum, int]:
    path = situation.path(lab)
    return passes(lambda: worlds.open_world(path, durable=True), points)


@faults
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.endswith("landed") else pytest.mark.deep)
        for name in SITUATIONS
    ],
)
def test_every_failpoint_of_recovery(lab: Lab, name: str, fault: str) -> None:
    situation = SITUATIONS[name]
    for point, times in opening_passes(lab, situation, Fp).items():
        for nth in range(1, times + 1):
            break_opening(lab, situation, {point: FAULTS[fault]}, nth)


@pytest.mark.deep
@faults
@situations
def test_every_storage_call_of_recovery(lab: Lab, name: str, fault: str) -> None:
    situation = SITUATIONS[name]
    calls = sum(opening_passes(lab, situation, StorageCall).values())
    for nth in range(1, calls + 1):
        break_opening(lab, situation, dict.fromkeys(StorageCall, FAULTS[fault]), nth)


def open_together(path: Path, start: Barrier) -> None:
    """Open a world at the same moment as others. Runs in a child."""
    start.wait()
    worlds.open_world(path)


@situations
def test_processes_that_open_at_once_settle_it_once(lab: Lab, name: str) -> None:
    situation = SITUATIONS[name]
    path = situation.path(lab)
    left = worlds.intents_left(path)
    start = children.Barrier(CROWD)
    crowd = [children.Process(target=open_together, args=(path, start)) for _ in range(CROWD)]
    for child in crowd:
        child.start()
    for child in crowd:
        child.join()
    assert [child.exitcode for child in crowd] == [0] * CROWD
    judge(lab, situation, path, left)
