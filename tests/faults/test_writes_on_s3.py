"""Merges, reverts, tags, deletions and changes of the schema on S3, broken at storage calls."""

from __future__ import annotations

import pytest

from omnigraph.runtime.failpoints import Crash, Plan
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from tests.conformance.conftest import IDS, s3_options
from tests.conformance.seaweed import BUCKET
from tests.faults import worlds
from tests.faults.harness import (
    FAULTS,
    Ending,
    admissible,
    at_any_call,
    attempt,
    children,
    finish,
    passes,
)
from tests.faults.worlds import ACTIONS, State

__all__ = ["s3_options"]

VERSIONING = (
    *("branch_merge", "revert", "reset", "tag", "branch_rename", "branch_delete"),
    *("schema_apply", "schema_drop", "schema_merge"),
    *("large_merge", "large_schema_merge"),
)
SOME = 6  # of the storage calls, every sixth


def world(options: dict[str, str], action: str) -> Root:
    """A graph in which an action can be tried."""
    root = Root.parse(f"s3://{BUCKET}/{IDS.new()}", options)
    worlds.make(root)
    ACTIONS[action].set_up(worlds.open_world(root))
    return root


def states(options: dict[str, str], action: str) -> tuple[State, State, int]:
    """The states before and after an action, and how many storage calls it makes."""
    repo = worlds.open_world(world(options, action))
    before = worlds.state(repo)
    calls = passes(lambda: ACTIONS[action].run(repo), StorageCall)
    return before, worlds.state(repo), sum(calls.values())


def broken(root: Root, action: str, fault: str, nth: int) -> Ending:
    """Do it with a fault, in a process of its own if that is to end."""
    faults = at_any_call(FAULTS[fault])
    if not isinstance(FAULTS[fault], Crash):
        repo = worlds.open_world(root)
        return attempt(lambda: ACTIONS[action].run(repo), faults, nth).ending
    plan = Plan(faults=tuple(faults.items()), nth=nth)
    child = children.Process(target=worlds.perform, args=(root, action, plan))
    child.start()
    child.join()
    child.close()
    return Ending.CRASHED


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("action", VERSIONING)
def test_some_storage_calls_on_s3(s3_options: dict[str, str], action: str, fault: str) -> None:
    before, after, calls = states(s3_options, action)
    first = 1 + (VERSIONING.index(action) + list(FAULTS).index(fault)) % SOME
    for nth in range(first, calls + 1, SOME):
        root = world(s3_options, action)
        ending = broken(root, action, fault, nth)
        repo = worlds.open_world(root)
        seen = worlds.state(repo)
        assert seen in admissible(ending, before, after), f"{fault} at call {nth}: {ending}"
        worlds.assert_in_order(repo)
        finish(repo, action, after)
