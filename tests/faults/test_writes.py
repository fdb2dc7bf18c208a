"""Every writer, every place where it can fail, every way in which it can."""

from __future__ import annotations

import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.runtime.failpoints import Crash
from omnigraph.testing.worlds import ACTIONS, LOADS
from tests.faults.harness import FAULTS, Lab, at_any_call, check, storage_calls, try_one

SOME = 5  # of the storage calls, every fifth is enough for a daily run
WRITES = [name for name in ACTIONS if name not in LOADS]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("action", WRITES)
def test_every_failpoint(lab: Lab, action: str, fault: str) -> None:
    passed = {point: times for point, times in lab.passes(action).items() if point in set(Fp)}
    assert passed
    for point, times in passed.items():
        check(lab, action, {point: FAULTS[fault]}, range(1, times + 1))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("action", WRITES)
def test_some_storage_calls(lab: Lab, action: str, fault: str) -> None:
    first = 1 + (list(ACTIONS).index(action) + list(FAULTS).index(fault)) % SOME
    every = storage_calls(lab, action)
    check(lab, action, at_any_call(FAULTS[fault]), every[first - 1 :: SOME])


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("action", WRITES)
def test_every_storage_call(lab: Lab, action: str, fault: str) -> None:
    faults = at_any_call(FAULTS[fault])
    every = storage_calls(lab, action)
    check(lab, action, faults, every)
    if not isinstance(FAULTS[fault], Crash):
        check(lab, action, faults, every[1:])  # in the other way of judging
    assert not try_one(lab, action, faults, every[-1] + 1).fired
