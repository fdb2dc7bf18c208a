"""What others do while somebody is late, and what must hold in the end."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.core.repository import Repository
from omnigraph.errors import Code, Conflict, GraphError
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.faults import worlds
from tests.faults.late import CHILD, Ending, Late, Outcome, age
from tests.faults.worlds import COMPANY, DEV, KNOWS, PERSON

TRIES_MAX = 4


@dataclass(slots=True)
class Facts:
    """What the process that did not stop has been told."""

    rows: dict[BranchName, set[str]] = field(default_factory=dict)  # people on living branches
    deleted: set[BranchName] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)  # incarnations and commits of deleted branches


def persistently(repo: Repository, act: Callable[[], object]) -> None:
    """Do something that others may be in the way of, a bounded number of times."""
    for number in itertools.count(1):
        try:
            act()
        except GraphError as error:
            if number == TRIES_MAX:
                raise AssertionError(f"still refused: {error}") from error
            if repo.root.is_local:
                age(repo.root.local_path)
            repo.recover()
        else:
            return


def write(repo: Repository, facts: Facts, branch: BranchName, name: str) -> None:
    rows = dict.fromkeys((PERSON, COMPANY, KNOWS), (name,))
    persistently(repo, lambda: worlds.add(repo, rows, branch=branch, key=name))
    facts.rows.setdefault(branch, set()).add(name)


def delete(repo: Repository, facts: Facts, branch: BranchName) -> None:
    """Delete a branch, if it is there and nothing descends from it."""
    if branch not in repo.branches.list():
        return
    info = repo.manifest.branch(branch)
    commits = {str(commit.id) for commit in repo.commits(branch)}
    try:
        repo.delete_branch(branch)
    except Conflict as conflict:
        if conflict.code is not Code.BRANCH_IN_USE:
            raise
        return
    facts.rows.pop(branch, None)
    facts.deleted.add(branch)
    facts.ended |= {info.incarnation, *commits}


def create(repo: Repository, facts: Facts, branch: BranchName, source: BranchName = MAIN) -> None:
    if source not in repo.branches.list() or branch in repo.branches.list():
        return
    persistently(repo, lambda: repo.create_branch(branch, source=source))
    facts.rows[branch] = set(facts.rows.get(source, set()))
    facts.deleted.discard(branch)


def begin(place: Path | Root, late: Late) -> Facts:
    """Bring a graph into the state that a late action starts from."""
    repo, facts = worlds.open_world(place), Facts()
    facts.rows[MAIN] = {"p0", "p1"}
    if late.needs_branch:
        repo.create_branch(DEV)
        facts.rows[DEV] = {"p0", "p1"}
        write(repo, facts, DEV, "early")
    if late.prepare is not None:
        late.prepare(repo)
    return facts


# -- what happens meanwhile ------------------------------------------------------------------------


def settle(repo: Repository, facts: Facts) -> None:
    """Settle what the slow process left, and write to the same tables."""
    repo.recover()
    write(repo, facts, MAIN, "ours")
    if DEV in repo.branches.list():
        write(repo, facts, DEV, "ours-on-dev")


def drop(repo: Repository, facts: Facts) -> None:
    """Delete the branch, and remove what is left of it."""
    delete(repo, facts, DEV)
    repo.branches.reclaim()


def replace(repo: Repository, facts: Facts) -> None:
    """Delete the branch, make it again and write to it."""
    delete(repo, facts, DEV)
    create(repo, facts, DEV)
    write(repo, facts, DEV, "ours")


def come_and_go(repo: Repository, facts: Facts) -> None:
    """Make the branch, if need be, and delete it again."""
    create(repo, facts, DEV)
    delete(repo, facts, DEV)


def descend(repo: Repository, facts: Facts) -> None:
    """Make a branch from the branch, and leave it as it is."""
    if DEV in repo.branches.list():
        write(repo, facts, DEV, "inherited")
    create(repo, facts, CHILD, DEV)


MEANWHILE: dict[str, Callable[[Repository, Facts], None]] = {
    "settle": settle,
    "drop": drop,
    "replace": replace,
    "come_and_go": come_and_go,
    "descend": descend,
}


# -- in the end ------------------------------------------------------------------------------------


def judge(place: Path | Root, facts: Facts, late: Late, outcome: Outcome) -> None:
    """What must hold in the end, whoever was faster."""
    if isinstance(place, Path):
        age(place)
    repo = worlds.open_world(place)
    repo.recover()
    acknowledged = outcome.ending is Ending.ACKNOWLEDGED
    there = set(repo.branches.list())
    for branch, rows in facts.rows.items():
        if branch == late.branch and late.deletes and outcome.ending is not Ending.REFUSED:
            if branch in there and acknowledged:
                assert "ours" in rows, "a branch is there that was deleted"
            continue
        assert branch in there, f"{branch} has vanished"
        assert rows <= worlds.rows_of(repo, PERSON, branch)
    for branch in facts.deleted - {late.branch}:
        assert branch not in there
    if acknowledged and outcome.made not in {None, *facts.ended}:
        assert late.branch is not None
        assert late.branch in there, "an acknowledged branch is not there"
        made = {str(commit.id) for commit in repo.commits(late.branch)}
        made.add(repo.manifest.branch(late.branch).incarnation)
        assert outcome.made in made, "what was acknowledged has vanished"
    if outcome.ending is Ending.REFUSED and late.branch in facts.deleted:
        assert late.branch not in there
    assert_usable(repo)
    repo.branches.reclaim()
    assert_usable(worlds.open_world(place), "again")


def assert_usable(repo: Repository, name: str = "next") -> None:
    """Every table of every branch can be read and written to."""
    facts = Facts()
    for branch in repo.branches.list():
        write(repo, facts, branch, f"{name}-{branch}")
    worlds.state(repo)
    worlds.assert_in_order(repo)
