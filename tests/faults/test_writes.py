"""Every writer, every place where it can fail, every way in which it can."""

from __future__ import annotations

import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.runtime.failpoints import Crash
from tests.faults.harness import FAULTS, Lab, at_any_call, check, storage_calls, try_one
from tests.faults.worlds import ACTIONS, LOADS

SOME = 16  # of the storage calls, one in so many is enough for a daily run
WRITES = [name for name in ACTIONS if name not in LOADS]
# A daily run refuses some storage calls of these; a process that crashes takes longer.
LONG = {
    "load",
    "branch_mutation",
    "branch_create",
    "tag",
    "optimize",
    "ensure_indices",
    "bare_creation",
    "tag_move",
    "tag_delete",
    "protect",
    "reset",
    "large_merge",
    "revert",
    "branch_delete",
    "branch_rename",
    "schema_drop",
    "schema_merge",
    "transaction",
}
# The deep run alone breaks these: a daily run knows their parts from others.
RARE = {"large_schema_merge", "large_revert"}


def broken(daily: str | None) -> pytest.MarkDecorator:
    """Every writer and every fault; of the long writers, at most one fault in a daily run."""
    cases = [
        pytest.param(action, fault, marks=[pytest.mark.deep] if is_deep else [])
        for action in WRITES
        for fault in FAULTS
        for is_deep in [action in RARE or (action in LONG and fault != daily)]
    ]
    return pytest.mark.parametrize(("action", "fault"), cases)


@broken(None)
def test_every_failpoint(lab: Lab, action: str, fault: str) -> None:
    passed = {point: times for point, times in lab.passes(action).items() if point in set(Fp)}
    assert passed
    for point, times in passed.items():
        check(lab, action, {point: FAULTS[fault]}, sorted({1, times}))


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("action", WRITES)
def test_every_pass_of_a_failpoint(lab: Lab, action: str, fault: str) -> None:
    for point, times in lab.passes(action).items():
        if point in set(Fp) and times > 2:
            check(lab, action, {point: FAULTS[fault]}, range(2, times))


@broken("refuse")
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
