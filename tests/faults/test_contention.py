"""Others who come between the steps of a write."""

from __future__ import annotations

import pytest

from omnigraph.core import tuning
from omnigraph.core.journal.audit import RecoveryKind
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import MANIFEST
from omnigraph.core.manifest.deleted_branches import DeletedBranches
from omnigraph.core.recovery.settlement import Settled
from omnigraph.core.repository import Repository
from omnigraph.errors import (
    Code,
    Conflict,
    Effect,
    NotFound,
    RecoveryRequired,
)
from omnigraph.types import BranchName
from tests.faults import worlds
from tests.faults.harness import kinds
from tests.faults.meddling import Hooks, commit_with, staged
from tests.faults.worlds import COMPANY, PERSON

ATTEMPTS = tuning.active.publish_attempts_max


def contend(repo: Repository, times: int) -> Hooks:
    """Let somebody else publish first, so many times."""
    left = iter(range(times))

    def come_first() -> None:
        for number in left:
            worlds.add(repo, {COMPANY: (f"faster-{number}",)})
            return

    return {"merge_rows": come_first}


@pytest.mark.parametrize("times", [1, ATTEMPTS - 1, ATTEMPTS, ATTEMPTS + 2])
def test_a_landed_write_that_loses_only_the_race_for_the_head_goes_forward(
    repo: Repository, times: int
) -> None:
    published = commit_with(repo, staged(repo), before=contend(repo, times))
    assert not published.replayed
    assert repo.snapshot().head == published.commit.id
    assert "cond" in worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)


@pytest.mark.parametrize("forks", [False, True], ids=["manifest", "manifest and tables"])
@pytest.mark.parametrize(
    ("moment", "again"), [("land", False), ("land", True), ("merge_rows", False)]
)
def test_a_branch_that_goes_under_a_write_is_a_conflict(
    repo: Repository, moment: str, forks: bool, again: bool
) -> None:
    """As by someone who saw no writer and was slow to delete: nothing of the write can stay."""
    name = BranchName("doomed")
    repo.create_branch(name)
    prepared = worlds.insertion(repo, name, {PERSON: ("lost",)}, kind=WriterKind.MUTATION)
    done: list[bool] = []

    def delete() -> None:
        if done:
            return
        done.append(True)
        other = worlds.open_world(repo.root.local_path)
        path = other.snapshot().pin(PERSON).path
        info = other.manifest.branch(name)
        DeletedBranches(other.objects).mark(name, info.generation, info.incarnation, "other")
        other.tables.drop_fork(MANIFEST, name)
        for fork in list(other.tables.forks(path)) if forks else ():
            other.tables.drop_fork(path, fork)
        if again:
            other.create_branch(name)

    with pytest.raises((Conflict, NotFound)):
        commit_with(repo, prepared, before={moment: delete})
    assert not repo.intents.pending()
    if again:
        assert "lost" not in worlds.rows_of(repo, PERSON, name)
        repo.delete_branch(name)
    worlds.add(repo, {PERSON: ("next",)})
    repo.branches.reclaim()
    worlds.assert_in_order(repo)


def test_when_the_head_never_rests_the_outcome_is_unknown_until_it_does(repo: Repository) -> None:
    with pytest.raises(RecoveryRequired) as caught:
        commit_with(repo, staged(repo), before=contend(repo, 100))
    assert caught.value.code is Code.OUTCOME_UNKNOWN
    assert "cond" not in worlds.rows_of(repo, PERSON)
    assert repo.refresh()[0].settled is Settled.ROLLED_FORWARD
    assert "cond" in worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)


def test_a_write_judged_against_a_table_that_moves_after_landing_is_undone(
    repo: Repository,
) -> None:
    prepared = staged(repo, judged={COMPANY: repo.snapshot().pin(COMPANY).version})
    with pytest.raises(Conflict) as caught:
        commit_with(repo, prepared, before=contend(repo, 1))
    assert caught.value.code is Code.EXPECTED_VERSION_MISMATCH
    assert caught.value.effect is Effect.NONE
    assert "cond" not in worlds.rows_of(repo, PERSON)
    assert kinds(repo) == [RecoveryKind.ROLLED_BACK]
    worlds.add(repo, {PERSON: ("next",)})
    worlds.assert_in_order(repo)
