"""Failpoints: silent unless armed, exact about the pass, and able to end a process for real."""

import pickle
import threading
from enum import StrEnum

import pytest

from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import (
    Crash,
    Fault,
    InjectedFault,
    LostReply,
    Plan,
    Refuse,
)


@failpoints.catalogue
class Fp(StrEnum):
    """Points of these tests."""

    BEFORE = "tests.failpoints.before"
    AFTER = "tests.failpoints.after"


def steps() -> list[str]:
    """An operation with two guarded actions; returns what was done, even when it failed."""
    done: list[str] = []
    try:
        failpoints.call(Fp.BEFORE, lambda: done.append("one"))
        failpoints.call(Fp.AFTER, lambda: done.append("two"))
    except InjectedFault as fault:
        done.append(f"{fault.point.name} {'applied' if fault.applied else 'refused'}")
    return done


def test_unarmed_points_do_nothing() -> None:
    failpoints.hit(Fp.BEFORE)
    assert failpoints.call(Fp.BEFORE, lambda: 3) == 3
    assert steps() == ["one", "two"]


@pytest.mark.parametrize(
    ("point", "fault", "outcome"),
    [
        (Fp.BEFORE, Refuse(), ["BEFORE refused"]),
        (Fp.BEFORE, LostReply(), ["one", "BEFORE applied"]),
        (Fp.AFTER, Refuse(), ["one", "AFTER refused"]),
        (Fp.AFTER, LostReply(), ["one", "two", "AFTER applied"]),
    ],
)
def test_an_armed_point_fails_as_planned(point: Fp, fault: Fault, outcome: list[str]) -> None:
    with failpoints.armed({point: fault}) as state:
        assert steps() == outcome
        assert state.fired is point
        assert steps() == ["one", "two"], "a plan fires once"
    assert steps() == ["one", "two"]


def test_the_nth_step_of_all_is_swept_until_none_fires() -> None:
    outcomes = []
    for nth in range(1, 10):
        with failpoints.armed(dict.fromkeys(Fp, Refuse()), nth=nth) as state:
            outcomes.append(steps())
        if state.fired is None:
            break
    assert outcomes == [["BEFORE refused"], ["one", "AFTER refused"], ["one", "two"]]


def test_hit_raises_for_either_fault() -> None:
    for fault in (Refuse(), LostReply()):
        with failpoints.armed({Fp.BEFORE: fault}), pytest.raises(InjectedFault):
            failpoints.hit(Fp.BEFORE)


def test_a_watcher_sees_every_pass_before_it_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_watchers", ())  # watching lasts as long as the process
    seen: list[StrEnum] = []
    failpoints.watch(seen.append)
    failpoints.hit(Fp.AFTER)
    with failpoints.armed({Fp.AFTER: Refuse()}):
        assert steps() == ["one", "AFTER refused"]
    assert seen == [Fp.AFTER, Fp.BEFORE, Fp.AFTER]


def test_blocks_nest_and_the_inner_one_ends_first() -> None:
    with failpoints.armed({Fp.AFTER: Refuse()}) as outer:
        with failpoints.armed({Fp.BEFORE: Refuse()}) as inner:
            assert steps() == ["BEFORE refused"]
        assert (inner.fired, outer.fired) == (Fp.BEFORE, None)
        assert steps() == ["one", "AFTER refused"]


def test_exactly_one_of_many_threads_fails() -> None:
    failed: list[InjectedFault] = []

    def run() -> None:
        try:
            failpoints.hit(Fp.BEFORE)
        except InjectedFault as fault:
            failed.append(fault)

    with failpoints.armed({Fp.BEFORE: Refuse()}, nth=3) as state:
        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (len(failed), state.passes) == (1, 8)


def test_plans_and_faults_travel() -> None:
    plan = Plan(faults=((Fp.BEFORE, Refuse()), (Fp.AFTER, Crash(status=3))), nth=2)
    assert pickle.loads(pickle.dumps(plan)) == plan
    fault = pickle.loads(pickle.dumps(InjectedFault(Fp.AFTER, applied=True)))
    assert (fault.point, fault.applied) == (Fp.AFTER, True)


def test_the_catalogue_keeps_order_and_refuses_duplicates() -> None:
    ours = [point for point in failpoints.catalogued() if isinstance(point, Fp)]
    assert ours == [Fp.BEFORE, Fp.AFTER]

    class Again(StrEnum):
        TAKEN = "tests.failpoints.before"

    with pytest.raises(ValueError, match="declared twice"):
        failpoints.catalogue(Again)


def test_plans_name_known_points_and_count_from_one() -> None:
    class Stranger(StrEnum):
        POINT = "tests.failpoints.stranger"

    with pytest.raises(ValueError, match="not in any catalogue"):
        Plan(faults=((Stranger.POINT, Refuse()),))
    with pytest.raises(ValueError, match="from 1"):
        Plan(faults=((Fp.BEFORE, Refuse()),), nth=0)
