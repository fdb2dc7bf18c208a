"""Every writer, every place where it can fail, every way in which it can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.runtime.failpoints import Crash, Fault, Plan
from omnigraph.store.calls import StorageCall
from omnigraph.testing import worlds
from omnigraph.testing.worlds import ACTIONS
from tests.faults.harness import (
    FAULTS,
    Faulty,
    Lab,
    attempt,
    crash_child,
    judge_by_carrying_on,
    judge_by_reopening,
)

SOME = 5  # of the storage calls, every fifth is enough for a daily run


def try_one(
    lab: Lab, action: str, faults: Mapping[StrEnum, Fault], nth: int, *, reopen: bool = True
) -> Faulty:
    """Break one write at one place and judge what is left."""
    path = lab.world(action)
    if any(isinstance(fault, Crash) for fault in faults.values()):
        result = crash_child(path, action, Plan(faults=tuple(faults.items()), nth=nth))
        judge_by_reopening(lab, path, action, result.ending)
    else:
        engine = worlds.open_world(path, durable=True)
        result = attempt(lambda: ACTIONS[action].run(engine), faults, nth)
        if reopen:
            judge_by_reopening(lab, path, action, result.ending)
        else:
            judge_by_carrying_on(lab, engine, action, result.ending)
    lab.discard(path)
    return result


def check(lab: Lab, action: str, faults: Mapping[StrEnum, Fault], nths: Iterable[int]) -> None:
    """Break a write at these passes, one after the other, judging in both ways by turns."""
    for position, nth in enumerate(nths):
        try:
            result = try_one(lab, action, faults, nth, reopen=position % 2 == 0)
            assert result.fired, "there is no such pass"
        except Exception as error:
            kinds = {type(fault).__name__ for fault in faults.values()}
            where = next(iter(faults)) if len(faults) == 1 else "all calls"
            error.add_note(f"{action}: {kinds} at pass {nth} of {where}")
            raise


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("action", ACTIONS)
def test_every_failpoint(lab: Lab, action: str, fault: str) -> None:
    passed = {point: times for point, times in lab.passes(action).items() if point in set(Fp)}
    assert passed
    for point, times in passed.items():
        check(lab, action, {point: FAULTS[fault]}, range(1, times + 1))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("action", ACTIONS)
def test_some_storage_calls(lab: Lab, action: str, fault: str) -> None:
    first = 1 + (list(ACTIONS).index(action) + list(FAULTS).index(fault)) % SOME
    every = storage_calls(lab, action)
    check(lab, action, at_any_call(FAULTS[fault]), every[first - 1 :: SOME])


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("action", ACTIONS)
def test_every_storage_call(lab: Lab, action: str, fault: str) -> None:
    faults = at_any_call(FAULTS[fault])
    every = storage_calls(lab, action)
    check(lab, action, faults, every)
    if not isinstance(FAULTS[fault], Crash):
        check(lab, action, faults, every[1:])  # in the other way of judging
    assert not try_one(lab, action, faults, every[-1] + 1).fired


def at_any_call(fault: Fault) -> dict[StrEnum, Fault]:
    return dict.fromkeys(StorageCall, fault)


def storage_calls(lab: Lab, action: str) -> range:
    """The numbers of the storage calls of an action."""
    calls = [times for point, times in lab.passes(action).items() if point in set(StorageCall)]
    return range(1, sum(calls) + 1)
