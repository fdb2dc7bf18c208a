"""Merges, reverts and resets of the small graphs of `worlds`, and what they start from.

A large merge takes the way of one that does not fit in memory: its rows are compared, merged and
written by several tasks. They run one after the other, so that the n-th call to storage is the same
one on every run.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Final

from omnigraph.core.commits.keys import CallKey
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.repository import Repository
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.exec import tuning
from omnigraph.exec.merge.conflicts import unsettled
from omnigraph.exec.merge.merger import Merger
from omnigraph.exec.merge.requests import Merged, MergeRequest, ResetRequest, RevertRequest
from omnigraph.types import MAIN
from tests.faults.rows import COMPANY, DEV, KEY, KNOWS, PERSON, add, transaction

__all__ = [
    "diverge",
    "diverge_widely",
    "large_merge",
    "large_revert",
    "merge",
    "reset",
    "revert",
    "write_twice",
]

_REVERTED: Final = "to-be-taken-back"
# So small that every type is merged by tasks, several of each stage.
_BY_TASKS: Final = {"held_merge_rows_max": 0, "merge_task_rows": 2, "merge_keys": 3}


def diverge(repo: Repository) -> None:
    """Change both branches, one of the tables on both of them."""
    add(repo, {PERSON: ("m0", "m1"), COMPANY: ("m0",)}, branch=DEV)
    add(repo, {PERSON: ("n0",)})


def diverge_widely(repo: Repository) -> None:
    """Insert, update and delete on both branches, some entities on both of them."""
    theirs = (
        'insert Person { name: "m0" } insert Person { name: "m1", age: 4 }',
        'insert Company { name: "m0" } insert Company { name: "both" }',
        'update Person set { age: 3 } where name = "p0"',
        'update Person set { age: 5 } where name = "p1"',
        'delete Company where name = "c0"',
    )
    ours = (
        'insert Person { name: "n0" } insert Company { name: "both" }',
        'update Person set { age: 3 } where name = "p0"',
    )
    transaction(repo, theirs, branch=DEV)
    add(repo, {KNOWS: ("m0", "m1")}, branch=DEV)
    transaction(repo, ours)
    add(repo, {KNOWS: ("n0",)})


def merge(repo: Repository) -> Merged:
    """Merge the branch into main."""
    return _merger(repo).merge(_REQUEST)


def large_merge(repo: Repository) -> Merged:
    """The same, by tasks."""
    with tuning.tuned(**_BY_TASKS):
        return _merger(repo).merge(_REQUEST)


_REQUEST: Final = MergeRequest(
    source=DEV,
    into=MAIN,
    resolve=unsettled,
    actor="tester",
    key=CallKey.of(KEY, "branch_merge", str(DEV)),
)


def _merger(repo: Repository) -> Merger:
    return Merger(repo, running=lambda _size: nullcontext(InProcessRunner(1)))


def write_twice(repo: Repository) -> None:
    """Make a commit that is going to be taken back, and one on top of it."""
    add(repo, {PERSON: ("r0", "r1"), COMPANY: ("r0",)}, key=_REVERTED)
    add(repo, {PERSON: ("later",)})


def revert(repo: Repository) -> Merged:
    """Take the first of the two commits back."""
    commit = next(each.id for each in repo.commits() if each.idempotency_key == _REVERTED)
    return _merger(repo).revert(RevertRequest(commit=commit, branch=MAIN, resolve=unsettled))


def large_revert(repo: Repository) -> Merged:
    """The same, by tasks."""
    with tuning.tuned(**_BY_TASKS):
        return revert(repo)


def reset(repo: Repository) -> None:
    """Give the branch back what it was made from, unless that has been done."""
    history = list(repo.commits(DEV))
    if not any(commit.kind == WriterKind.RESET for commit in history):
        start = next(commit.id for commit in history if commit.branch == MAIN)
        _merger(repo).reset(ResetRequest(branch=DEV, to=start, actor="tester"))
