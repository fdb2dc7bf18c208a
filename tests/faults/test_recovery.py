"""Recovery itself fails, is done by several at once, or by somebody else half-way through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.errors import Effect, GraphError
from omnigraph.runtime.failpoints import CRASH_STATUS, Crash, Fault, Plan
from omnigraph.store.io.storage_calls import StorageCall
from tests.faults import worlds
from tests.faults.harness import (
    FAULTS,
    Countdown,
    Lab,
    attempt,
    audited,
    children,
    crash_child,
    finish,
    open_interrupted,
    passes,
)
from tests.faults.worlds import COMPANY, KNOWS, PERSON, State


@dataclass(frozen=True, slots=True)
class Situation:
    """A write whose process died at a certain moment, and how it must end."""

    action: str
    point: Fp
    nth: int
    lands: bool  # whether it goes forward

    def path(self, lab: Lab) -> Path:
        """The folder that it left behind."""

        def make(path: Path) -> None:
            lab.template("base", worlds.make)
            lab.copy(lab.template("base", worlds.make)).rename(path)
            plan = Plan(faults=((self.point, Crash()),), nth=self.nth)
            assert crash_child(path, self.action, plan).fired
            assert len(worlds.intents_left(path)) == 1

        return lab.template(f"{self.action}-{self.point}-{self.nth}", make)

    def final(self, lab: Lab) -> State:
        """What readers see when it is settled."""
        before, after = lab.states(self.action)
        return after if self.lands else before


SITUATIONS = {
    "armed": Situation("mutation", Fp.ARMED, 1, False),
    "half_landed": Situation("load", Fp.LANDED_ONE, 2, False),
    "landed": Situation("load", Fp.LANDED, 1, True),
    "published": Situation("load", Fp.PUBLISHED, 1, True),
    "new_schema": Situation("schema_apply", Fp.LANDED, 1, True),
}
situations = pytest.mark.parametrize("name", SITUATIONS)
faults = pytest.mark.parametrize("fault", FAULTS)
# Interrupted before every call, or, in a daily run, before one in three.
strides = pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.deep)])
# A daily run breaks every situation in one way, and those that go back or forward in every way.
ways_of_breaking = pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(name, fault, marks=() if is_daily else pytest.mark.deep)
        for name in SITUATIONS
        for fault in FAULTS
        for is_daily in [name in {"half_landed", "landed"} or fault == "crash"]
    ],
)


def judge(lab: Lab, situation: Situation, path: Path, left: set[str]) -> None:
    repo = worlds.open_world(path)
    assert worlds.state(repo) == situation.final(lab)
    worlds.assert_in_order(repo)
    assert audited(repo) == left
    by_recovery = [item for item in repo.commits() if item.actor == "omnigraph:recovery"]
    assert len(by_recovery) == (1 if situation.point is Fp.LANDED_ONE else 0)
    finish(repo, situation.action, lab.states(situation.action)[1])


def break_opening(lab: Lab, situation: Situation, plan: Mapping[StrEnum, Fault], nth: int) -> None:
    path = lab.copy(situation.path(lab))
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
    lab.discard(path)


def opening_passes(lab: Lab, situation: Situation, points: type[StrEnum]) -> dict[StrEnum, int]:
    path = lab.copy(situation.path(lab))
    found = passes(lambda: worlds.open_world(path, durable=True), points)
    lab.discard(path)
    return found


@ways_of_breaking
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


# -- by the next write -----------------------------------------------------------------------------


def break_next_write(
    lab: Lab, situation: Situation, plan: Mapping[StrEnum, Fault], nth: int
) -> None:
    """The write that comes next settles what was left; break that one, too."""
    path = lab.copy(situation.path(lab))
    left = worlds.intents_left(path)
    try:
        if any(isinstance(fault, Crash) for fault in plan.values()):
            whole = Plan(faults=tuple(plan.items()), nth=nth)
            child = children.Process(target=worlds.perform_next, args=(path, whole))
            child.start()
            child.join()
            assert child.exitcode == CRASH_STATUS
        else:
            repo = worlds.attach(path, durable=True)
            assert attempt(partial(worlds.write_next, repo), plan, nth).fired
        left |= worlds.intents_left(path)
        repo = worlds.open_world(path)
        worlds.assert_in_order(repo)
        assert left <= audited(repo)
        keys = (PERSON, COMPANY, KNOWS)
        assert len({"next" in worlds.rows_of(repo, key) for key in keys}) == 1
        persist(partial(worlds.write_next, repo))
        again = worlds.write_next(repo)
        assert again.replayed
        worlds.ACTIONS[situation.action].run(repo)
        worlds.assert_in_order(repo)
    except Exception as error:
        error.add_note(f"pass {nth} of {set(plan)}")
        raise
    lab.discard(path)


def persist(write: Callable[[], object]) -> None:
    """A write may lose to what it settles itself, once."""
    if not succeeds(write):
        write()


def next_write_passes(lab: Lab, situation: Situation, points: type[StrEnum]) -> dict[StrEnum, int]:
    path = lab.copy(situation.path(lab))
    repo = worlds.attach(path, durable=True)
    found = passes(lambda: suppressed(partial(worlds.write_next, repo)), points)
    lab.discard(path)
    return found


def suppressed(write: Callable[[], object]) -> None:
    """Write; being refused is an answer, too."""
    with suppress(GraphError):
        write()


@pytest.mark.deep
@faults
@situations
def test_every_failpoint_of_the_next_write(lab: Lab, name: str, fault: str) -> None:
    situation = SITUATIONS[name]
    for point, times in next_write_passes(lab, situation, Fp).items():
        for nth in range(1, times + 1):
            break_next_write(lab, situation, {point: FAULTS[fault]}, nth)


@pytest.mark.deep
@faults
@situations
def test_every_storage_call_of_the_next_write(lab: Lab, name: str, fault: str) -> None:
    situation = SITUATIONS[name]
    calls = sum(next_write_passes(lab, situation, StorageCall).values())
    for nth in range(1, calls + 1):
        break_next_write(lab, situation, dict.fromkeys(StorageCall, FAULTS[fault]), nth)


# -- several at once -------------------------------------------------------------------------------


def open_together(path: Path, start: Barrier) -> None:
    """Open a world at the same moment as others. Runs in a child."""
    start.wait()
    worlds.open_world(path)


@situations
def test_processes_that_open_at_once_settle_an_intent_once(lab: Lab, name: str) -> None:
    situation = SITUATIONS[name]
    path = lab.copy(situation.path(lab))
    left = worlds.intents_left(path)
    start = children.Barrier(4)
    crowd = [children.Process(target=open_together, args=(path, start)) for _ in range(4)]
    for child in crowd:
        child.start()
    for child in crowd:
        child.join()
    assert [child.exitcode for child in crowd] == [0, 0, 0, 0]
    judge(lab, situation, path, left)
    lab.discard(path)


@strides
@situations
def test_somebody_else_settles_it_before_any_call_and_writes_on(
    lab: Lab, name: str, stride: int
) -> None:
    """Slow recovery must not touch what came after the fast one: least of all restore it away."""
    situation = SITUATIONS[name]
    nth, came = 1 - stride, True
    while came:
        nth += stride
        path = lab.copy(situation.path(lab))
        left = worlds.intents_left(path)

        def interrupt(path: Path = path) -> None:
            other = worlds.open_world(path)
            worlds.add(other, {PERSON: ("later",), COMPANY: ("later",)})

        countdown = Countdown(nth, interrupt)
        repo = open_interrupted(path, countdown)
        came = countdown.came
        worlds.assert_in_order(repo)
        assert audited(repo) == left
        if came:
            assert "later" in worlds.rows_of(repo, PERSON) & worlds.rows_of(repo, COMPANY)
        lab.discard(path)
    assert nth > 5


@pytest.mark.parametrize("action", ["mutation", "load", "branch_merge", "schema_apply"])
@strides
def test_somebody_else_opens_and_writes_before_any_call_of_a_live_write(
    lab: Lab, action: str, stride: int
) -> None:
    """Of two writers each knows its own outcome, and the graph shows exactly that."""
    nth, came = 1 - stride, True
    before, after = lab.states(action)
    while came:
        nth += stride
        path = lab.world(action)
        others: list[bool] = []

        def interrupt(path: Path = path, others: list[bool] = others) -> None:
            other = worlds.open_world(path)
            others.append(succeeds(lambda: worlds.add(other, {PERSON: ("rival",)})))

        countdown = Countdown(10_000, interrupt)
        repo = open_interrupted(path, countdown)
        countdown.left = nth
        ours = succeeds(partial(worlds.ACTIONS[action].run, repo))
        came = countdown.came
        assert ours or others == [True], "one of two comes through"
        fresh = worlds.open_world(path)
        worlds.assert_in_order(fresh)
        people = worlds.rows_of(fresh, PERSON)
        assert ("rival" in people) == (others == [True])
        if not others or others == [False]:
            assert worlds.state(fresh) == (after if ours else before)
        assert any(item.idempotency_key for item in fresh.commits()) == ours
        lab.discard(path)
    assert nth > 10


def succeeds(run: Callable[[], object]) -> bool:
    """Whether a write was acknowledged; if not, it must say that it changed nothing."""
    try:
        run()
    except GraphError as error:
        if error.effect is not Effect.NONE:
            raise
        return False
    return True
