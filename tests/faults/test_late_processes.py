"""Real processes that are stopped at any storage call, taken for dead, and go on afterwards.

Whatever the others do meanwhile: what anybody acknowledged stays, every table can be written to,
and every branch is there or absent as acknowledged.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from omnigraph.errors import GraphError
from omnigraph.store.io.storage_calls import StorageCall
from tests.faults import worlds
from tests.faults.harness import Lab
from tests.faults.late import LATE_ACTIONS, Ending, Late, Machine, Outcome, age, machine
from tests.faults.meanwhile import MEANWHILE, Facts, begin, judge

# -- one interleaving ------------------------------------------------------------------------------


def prepare(lab: Lab, late: Late) -> tuple[Path, Facts]:
    path = lab.copy(lab.template("base", worlds.make))
    return path, begin(path, late)


def interleave(
    lab: Lab,
    other: Machine,
    action: str,
    meanwhile: str,
    nth: int,
    call: StorageCall | None = None,
) -> str | None:
    """Stop an action at its n-th storage call, let something happen, let it go on.

    Returns the call, or None when there are not that many.
    """
    late = LATE_ACTIONS[action]
    path, facts = prepare(lab, late)
    said = other.start(path, action, nth, call)
    if isinstance(said, Outcome):
        lab.discard(path)
        return None
    try:
        age(path)
        MEANWHILE[meanwhile](worlds.open_world(path), facts)
    finally:
        outcome = other.go_on()
    judge(path, facts, late, outcome)
    lab.discard(path)
    return said


@pytest.mark.parametrize(
    ("action", "meanwhile", "nth", "call"),
    [
        # About to delete a branch: another one is made from it, and stands on its files.
        ("delete", "descend", 2, StorageCall.OBJECT_PUT_NEW),
        # About to mark a branch as deleted: others delete it and make it again.
        ("delete", "replace", 2, StorageCall.OBJECT_PUT_NEW),
        # About to give a branch its first commit: others finish that, and delete the branch.
        ("creation", "come_and_go", 3, StorageCall.TABLE_FORK),
        ("creation", "drop", 4, StorageCall.TABLE_FORK),
        # The branch is there, and its maker looks whether it was given up.
        ("creation", "replace", 5, StorageCall.OBJECT_GET),
        ("create_child", "drop", 1, StorageCall.TABLE_FORK),
        # About to remove what a dead maker may have left: others make the branch and write to it.
        ("create", "replace", 4, StorageCall.OBJECT_LIST),
        ("create", "replace", 5, StorageCall.OBJECT_LIST),
        ("write", "settle", 2, StorageCall.TABLE_COMMIT),
        ("write_on_branch", "replace", 2, StorageCall.TABLE_PLACE),
        ("recover", "settle", 1, StorageCall.TABLE_COMMIT),
    ],
)
def test_a_slow_process_loses_nothing(
    lab: Lab, action: str, meanwhile: str, nth: int, call: StorageCall
) -> None:
    with machine() as other:
        assert interleave(lab, other, action, meanwhile, nth, call) == call


PAIRS = [(action, meanwhile) for action in LATE_ACTIONS for meanwhile in MEANWHILE]


@pytest.mark.deep
@pytest.mark.parametrize(("action", "meanwhile"), PAIRS)
def test_every_call_of_a_slow_process(lab: Lab, action: str, meanwhile: str) -> None:
    failed: list[str] = []
    with machine() as other:
        for nth in itertools.count(1):
            try:
                if interleave(lab, other, action, meanwhile, nth) is None:
                    break
            except (AssertionError, GraphError) as error:
                failed.append(f"{action} at call {nth}, meanwhile {meanwhile}: {error!r}"[:600])
    assert nth > 10
    assert not failed, "\n".join(failed)


# -- the one who recovers stops, too ---------------------------------------------------------------


def both_stop(
    lab: Lab, writer: Machine, recoverer: Machine, nth: int, mth: int, call: StorageCall | None
) -> bool:
    """A writer stops, whoever settles its write stops, the writer goes on, then the other.

    Returns whether there were that many calls.
    """
    late = LATE_ACTIONS["write"]
    path, facts = prepare(lab, late)
    assert not isinstance(writer.start(path, "write", nth, StorageCall.TABLE_COMMIT), Outcome)
    age(path)
    said = recoverer.start(path, "recover", mth, call)
    outcome = writer.go_on()
    if not isinstance(said, Outcome):
        settled = recoverer.go_on()
        assert settled.ending is Ending.ACKNOWLEDGED, settled.text
    judge(path, facts, late, outcome)
    lab.discard(path)
    return not isinstance(said, Outcome)


def test_a_writer_that_goes_on_while_it_is_given_up_leaves_its_tables_usable(lab: Lab) -> None:
    """One of its tables is fenced, the other one is not, and nothing is published."""
    with machine() as writer, machine("third") as recoverer:
        assert both_stop(lab, writer, recoverer, 1, 2, StorageCall.TABLE_COMMIT)


@pytest.mark.deep
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_writer_goes_on_at_every_call_of_the_one_who_settles_it(lab: Lab, nth: int) -> None:
    failed: list[str] = []
    with machine() as writer, machine("third") as recoverer:
        for mth in itertools.count(1):
            try:
                if not both_stop(lab, writer, recoverer, nth, mth, None):
                    break
            except (AssertionError, GraphError) as error:
                failed.append(f"at call {mth}: {error!r}"[:600])
    assert mth > 10
    assert not failed, "\n".join(failed)
