"""Real processes that are stopped at any storage call, taken for dead, and go on afterwards.

Whatever the others do meanwhile: what anybody acknowledged stays, every table can be written to,
and every branch is there or absent as acknowledged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from omnigraph.core.engine import Engine
from omnigraph.errors import Code, Conflict, GraphError
from omnigraph.store.calls import StorageCall
from omnigraph.testing import worlds
from omnigraph.testing.worlds import COMPANY, DEV, KNOWS, PERSON
from omnigraph.types import MAIN, BranchName
from tests.faults.harness import Lab
from tests.faults.late import (
    CHILD,
    LATE_ACTIONS,
    Ending,
    Late,
    Machine,
    Outcome,
    age,
    machine,
)

TRIES_MAX = 4


@dataclass(slots=True)
class Facts:
    """What the process that did not stop has been told."""

    rows: dict[BranchName, set[str]] = field(default_factory=dict)  # people on living branches
    deleted: set[BranchName] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)  # incarnations and commits of deleted branches


def persistently(engine: Engine, act: Callable[[], object]) -> None:
    """Do something that others may be in the way of, a bounded number of times."""
    for number in itertools.count(1):
        try:
            act()
        except GraphError as error:
            if number == TRIES_MAX:
                raise AssertionError(f"still refused: {error}") from error
            age(Path(engine.root.local_path))
            engine.recover()
        else:
            return


def write(engine: Engine, facts: Facts, branch: BranchName, name: str) -> None:
    rows = dict.fromkeys((PERSON, COMPANY, KNOWS), (name,))
    persistently(engine, lambda: worlds.add(engine, rows, branch=branch, key=name))
    facts.rows.setdefault(branch, set()).add(name)


def delete(engine: Engine, facts: Facts, branch: BranchName) -> None:
    """Delete a branch, if it is there and nothing descends from it."""
    if branch not in engine.branches.list():
        return
    info = engine.manifest.branch(branch)
    commits = {str(commit.id) for commit in engine.commits(branch)}
    try:
        engine.delete_branch(branch)
    except Conflict as conflict:
        if conflict.code is not Code.BRANCH_IN_USE:
            raise
        return
    facts.rows.pop(branch, None)
    facts.deleted.add(branch)
    facts.ended |= {info.incarnation, *commits}


def create(engine: Engine, facts: Facts, branch: BranchName, source: BranchName = MAIN) -> None:
    if source not in engine.branches.list() or branch in engine.branches.list():
        return
    persistently(engine, lambda: engine.create_branch(branch, source=source))
    facts.rows[branch] = set(facts.rows.get(source, set()))
    facts.deleted.discard(branch)


# -- what happens meanwhile ------------------------------------------------------------------------


def settle(engine: Engine, facts: Facts) -> None:
    """Settle what the slow process left, and write to the same tables."""
    engine.recover()
    write(engine, facts, MAIN, "ours")
    if DEV in engine.branches.list():
        write(engine, facts, DEV, "ours-on-dev")


def drop(engine: Engine, facts: Facts) -> None:
    """Delete the branch, and remove what is left of it."""
    delete(engine, facts, DEV)
    engine.branches.reclaim()


def replace(engine: Engine, facts: Facts) -> None:
    """Delete the branch, make it again and write to it."""
    delete(engine, facts, DEV)
    create(engine, facts, DEV)
    write(engine, facts, DEV, "ours")


def come_and_go(engine: Engine, facts: Facts) -> None:
    """Make the branch, if need be, and delete it again."""
    create(engine, facts, DEV)
    delete(engine, facts, DEV)


def descend(engine: Engine, facts: Facts) -> None:
    """Make a branch from the branch, and leave it as it is."""
    if DEV in engine.branches.list():
        write(engine, facts, DEV, "inherited")
    create(engine, facts, CHILD, DEV)


MEANWHILE: dict[str, Callable[[Engine, Facts], None]] = {
    "settle": settle,
    "drop": drop,
    "replace": replace,
    "come_and_go": come_and_go,
    "descend": descend,
}


# -- one interleaving ------------------------------------------------------------------------------


def prepare(lab: Lab, late: Late) -> tuple[Path, Facts]:
    path = lab.copy(lab.template("base", worlds.make))
    engine, facts = worlds.open_world(path), Facts()
    facts.rows[MAIN] = {"p0", "p1"}
    if late.needs_branch:
        engine.create_branch(DEV)
        facts.rows[DEV] = {"p0", "p1"}
        write(engine, facts, DEV, "early")
    if late.prepare is not None:
        late.prepare(engine)
    return path, facts


def judge(path: Path, facts: Facts, late: Late, outcome: Outcome) -> None:
    """What must hold in the end, whoever was faster."""
    age(path)
    engine = worlds.open_world(path)
    engine.recover()
    acknowledged = outcome.ending is Ending.ACKNOWLEDGED
    there = set(engine.branches.list())
    for branch, rows in facts.rows.items():
        if branch == late.branch and late.deletes and outcome.ending is not Ending.REFUSED:
            if branch in there and acknowledged:
                assert "ours" in rows, "a branch is there that was deleted"
            continue
        assert branch in there, f"{branch} has vanished"
        assert rows <= worlds.rows_of(engine, PERSON, branch)
    for branch in facts.deleted - {late.branch}:
        assert branch not in there
    if acknowledged and outcome.made not in {None, *facts.ended}:
        assert late.branch is not None
        assert late.branch in there, "an acknowledged branch is not there"
        made = {str(commit.id) for commit in engine.commits(late.branch)}
        made.add(engine.manifest.branch(late.branch).incarnation)
        assert outcome.made in made, "what was acknowledged has vanished"
    if outcome.ending is Ending.REFUSED and late.branch in facts.deleted:
        assert late.branch not in there
    assert_usable(engine)
    engine.branches.reclaim()
    assert_usable(worlds.open_world(path), "again")


def assert_usable(engine: Engine, name: str = "next") -> None:
    """Every table of every branch can be read and written to."""
    facts = Facts()
    for branch in engine.branches.list():
        write(engine, facts, branch, f"{name}-{branch}")
    worlds.state(engine)
    worlds.assert_in_order(engine)


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
        # About to give a branch its first commit: others finish that, and delete the branch.
        ("birth", "come_and_go", 3, StorageCall.TABLE_FORK),
        ("birth", "drop", 4, StorageCall.TABLE_FORK),
        # The branch is there, and its maker looks whether it was given up.
        ("birth", "replace", 5, StorageCall.OBJECT_GET),
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
