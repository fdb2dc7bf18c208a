"""What a write left behind, and what the next one, the next opening and an operator make of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import pytest

from omnigraph.core import tuning
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.failpoints import Fp
from omnigraph.core.journal.audit import RecoveryKind
from omnigraph.core.journal.intent import Intent, WriterKind
from omnigraph.core.layout import AUDIT, INTENTS, intent_path
from omnigraph.core.recovery.settlement import Settled
from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.core.write import Prepared
from omnigraph.errors import (
    Code,
    Conflict,
    Corrupt,
    Effect,
    Forbidden,
    PreconditionFailed,
    RecoveryRequired,
    Unavailable,
)
from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.failpoints import Fault, LostReply, Refuse, armed
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.faults import worlds
from tests.faults.harness import audited, kinds
from tests.faults.meddling import commit_with, staged
from tests.faults.worlds import COMPANY, DEV, KNOWS, PERSON

LEASE_US = tuning.active.writer_lease_us
GRACE_US = tuning.active.lease_grace_us

START = 1_700_000_000_000_000
BOTH = {PERSON: ("both",), COMPANY: ("both",)}


def leave(
    repo: Repository,
    faults: Mapping[StrEnum, Fault],
    rows: Mapping[str, tuple[str, ...]],
    *,
    nth: int = 1,
    key: str | None = None,
    branch: BranchName = MAIN,
) -> Intent:
    """Let a write fail so that its intent stays, and return the intent."""
    known = {item.operation_id for item in repo.intents.pending()}
    with armed(faults, nth=nth), pytest.raises(RecoveryRequired) as caught:
        worlds.add(repo, rows, key=key, branch=branch)
    assert caught.value.code is Code.OUTCOME_UNKNOWN
    (left,) = [item for item in repo.intents.pending() if item.operation_id not in known]
    assert caught.value.details["operation_id"] == left.operation_id
    assert caught.value.details["commit_id"] == left.commit.id
    return left


def landed(repo: Repository, rows: Mapping[str, tuple[str, ...]], key: str | None = None) -> Intent:
    """A write that landed everywhere and was not published."""
    return leave(repo, {Fp.PUBLISH: Refuse()}, rows, key=key)


def half_landed(repo: Repository) -> Intent:
    """A write of two tables that landed in one."""
    return leave(repo, {Fp.LAND: Refuse()}, BOTH, nth=2)


def of_another_process(repo: Repository, intent: Intent) -> Intent:
    """The same intent as if a process had left it that has ended since."""
    owner = replace(intent.owner, process=1, started="long ago")
    other = replace(intent, owner=owner)
    repo.intents.replace(other)
    return other


# -- forward ---------------------------------------------------------------------------------------


def test_a_landed_write_goes_forward_with_its_own_commit_actor_and_key(repo: Repository) -> None:
    left = landed(repo, BOTH, key="k")
    (outcome,) = repo.refresh()
    assert (outcome.settled, outcome.commit_id) == (Settled.ROLLED_FORWARD, left.commit.id)
    head = next(repo.commits())
    assert (head.id, head.actor, head.idempotency_key) == (left.commit.id, "tester", "k")
    assert kinds(repo) == [RecoveryKind.ROLLED_FORWARD]
    assert repo.refresh() == ()


def test_the_next_write_to_its_tables_settles_it_first(repo: Repository) -> None:
    landed(repo, BOTH)
    with pytest.raises(Conflict) as caught:
        worlds.add(repo, {PERSON: ("next",)})
    assert caught.value.code is Code.EXPECTED_VERSION_MISMATCH
    assert caught.value.effect is Effect.NONE
    worlds.add(repo, {PERSON: ("next",)})
    assert {"both", "next"} <= worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)


def test_a_write_to_other_tables_heals_it_in_passing(repo: Repository) -> None:
    landed(repo, {PERSON: ("left",)})
    worlds.add(repo, {COMPANY: ("next",)})
    assert "left" in worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)


def test_a_failure_to_heal_in_passing_is_no_failure_of_the_write(repo: Repository) -> None:
    left = landed(repo, {PERSON: ("left",)})
    with armed({Fp.RECOVER_AUDIT: Refuse()}):
        worlds.add(repo, {COMPANY: ("next",)})
    assert [item.operation_id for item in repo.intents.pending()] == [left.operation_id]
    assert repo.recover()[0].settled is Settled.ROLLED_FORWARD
    worlds.assert_in_order(repo)


def test_an_intent_that_could_not_be_removed_is_consumed_as_rolled_forward(
    repo: Repository,
) -> None:
    with armed({Fp.FORGET: Refuse()}):
        published = worlds.add(repo, {PERSON: ("new",)})
    before = [item.id for item in repo.commits()]
    assert before[0] == published.commit.id
    assert len(repo.intents.pending()) == 1
    worlds.add(repo, {PERSON: ("next",)})
    assert [item.id for item in repo.commits()][1:] == before
    assert kinds(repo) == [RecoveryKind.ROLLED_FORWARD]
    worlds.assert_in_order(repo)


def test_a_stale_intent_is_consumed_even_when_its_versions_are_long_gone(repo: Repository) -> None:
    with armed({Fp.FORGET: Refuse()}):
        worlds.add(repo, {PERSON: ("new",)})
    (left,) = repo.intents.pending()
    stale = replace(left, tables=tuple(replace(t, path="nodes/gone") for t in left.tables))
    repo.intents.replace(stale)
    assert repo.recover()[0].settled is Settled.ROLLED_FORWARD
    worlds.assert_in_order(repo)


# -- back ------------------------------------------------------------------------------------------


def test_what_landed_half_is_taken_back_by_the_process_that_left_it(repo: Repository) -> None:
    before = worlds.state(repo)
    left = half_landed(repo)
    with pytest.raises(Conflict):
        worlds.add(repo, BOTH)
    assert worlds.state(repo) == before
    assert kinds(repo) == [RecoveryKind.ROLLED_BACK]
    head = next(repo.commits())
    assert (head.id, head.actor) == (left.rollback_commit_id, "omnigraph:recovery")
    worlds.add(repo, BOTH)
    worlds.assert_in_order(repo)


def test_a_roll_back_for_a_process_that_is_gone_waits_for_nobody(repo: Repository) -> None:
    before = worlds.state(repo)
    left = of_another_process(repo, half_landed(repo))
    # Other branches and reading go on anyway; a write to other tables settles it in passing.
    assert worlds.rows_of(repo, COMPANY) == {"c0"}
    worlds.add(repo, {KNOWS: ("next",)})
    assert kinds(repo) == [RecoveryKind.ROLLED_BACK]
    assert [item.id for item in repo.commits()][:1] == [left.rollback_commit_id]
    assert worlds.rows_of(repo, COMPANY) == {"c0"}
    assert before != worlds.state(repo)
    worlds.add(repo, {COMPANY: ("next",)})
    worlds.assert_in_order(repo)


def test_recover_settles_everything_now(repo: Repository) -> None:
    back = of_another_process(repo, half_landed(repo))
    forward = landed(repo, {KNOWS: ("landed",)})
    outcomes = {item.operation_id: item.settled for item in repo.recover()}
    assert outcomes == {
        back.operation_id: Settled.ROLLED_BACK,
        forward.operation_id: Settled.ROLLED_FORWARD,
    }
    worlds.assert_in_order(repo)


def test_recover_needs_a_handle_for_writing(world: Path) -> None:
    reader = worlds.open_world(world, OpenMode.READ_ONLY)
    with pytest.raises(Forbidden):
        reader.recover()
    assert reader.refresh() == ()


def test_a_landed_write_whose_condition_fails_meanwhile_goes_back(repo: Repository) -> None:
    """Judged against a table that has changed since, it must not become visible late."""
    base = repo.snapshot()
    with armed({Fp.PUBLISH: Refuse()}), pytest.raises(RecoveryRequired):
        repo.commit(staged(repo, judged={COMPANY: base.pin(COMPANY).version}))
    worlds.add(repo, {COMPANY: ("moved",)})  # settles it in passing
    assert kinds(repo) == [RecoveryKind.ROLLED_BACK]
    assert "cond" not in worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)


def test_a_landed_write_that_demanded_a_head_goes_back_when_the_head_moved(
    repo: Repository,
) -> None:
    with armed({Fp.PUBLISH: Refuse()}), pytest.raises(RecoveryRequired):
        repo.commit(staged(repo, head=repo.snapshot().head))
    worlds.add(repo, {COMPANY: ("moved",)})
    assert kinds(repo) == [RecoveryKind.ROLLED_BACK]
    assert "cond" not in worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)


def test_a_write_whose_own_condition_fails_is_refused_before_anything_moves(
    repo: Repository,
) -> None:
    prepared = staged(repo, head=repo.snapshot().head)
    worlds.add(repo, {COMPANY: ("moved",)})
    with pytest.raises(PreconditionFailed):
        repo.commit(prepared)
    worlds.assert_in_order(repo)
    assert audited(repo) == set()


def test_an_intent_that_was_overtaken_before_it_moved_anything_is_dropped(repo: Repository) -> None:
    """Its writer died between noting its plan and finding out that the base had moved."""
    left = leave(repo, {Fp.ARMED: Refuse()}, BOTH)
    repo.intents.remove(left.operation_id)
    for number in range(5):
        worlds.add(repo, {PERSON: (f"faster-{number}",)})
    before = worlds.state(repo)
    repo.intents.put(left)
    (outcome,) = repo.refresh()
    assert outcome.settled is Settled.ROLLED_BACK
    assert worlds.state(repo) == before
    worlds.add(repo, BOTH)
    worlds.assert_in_order(repo)


@pytest.mark.parametrize("gone", [False, True])
def test_a_write_to_a_fork_that_the_branch_does_not_show_is_not_taken_back_over_others(
    repo: Repository, gone: bool
) -> None:
    repo.branches.create(DEV)
    left = leave(repo, {Fp.PUBLISH: Refuse()}, {PERSON: ("left",)}, branch=DEV)
    repo.intents.remove(left.operation_id)
    worlds.add(repo, {PERSON: ("shown",)}, branch=DEV)  # on another fork: this one is taken
    item = left.tables[0]
    assert repo.snapshot(DEV).pin(PERSON).table_branch != item.table_branch
    if gone:
        assert item.table_branch is not None
        repo.tables.drop_fork(item.path, item.table_branch)
    before = worlds.state(repo)
    repo.intents.put(left)
    (outcome,) = repo.recover()
    assert outcome.settled is Settled.ROLLED_BACK
    assert worlds.state(repo) == before
    worlds.add(repo, {PERSON: ("next",)}, branch=DEV)
    worlds.assert_in_order(repo)


# -- keys ------------------------------------------------------------------------------------------


def test_a_retry_after_an_unknown_outcome_returns_the_first_commit(repo: Repository) -> None:
    left = landed(repo, {PERSON: ("once",)}, key="k")
    again = worlds.add(repo, {PERSON: ("once",)}, key="k")
    assert again.replayed
    assert again.commit.id == left.commit.id
    worlds.assert_in_order(repo)


def test_a_retry_with_other_tables_still_finds_the_first(repo: Repository) -> None:
    left = landed(repo, {PERSON: ("once",)}, key="k")
    again = worlds.add(repo, {COMPANY: ("other",)}, key="k")
    assert (again.replayed, again.commit.id) == (True, left.commit.id)
    assert "other" not in worlds.rows_of(repo, COMPANY)
    worlds.assert_in_order(repo)


def test_a_retry_that_changes_no_table_still_finds_the_first(repo: Repository) -> None:
    left = landed(repo, {PERSON: ("once",)}, key="k")
    base = repo.snapshot()
    commit = replace(repo.new_commit(base, WriterKind.MUTATION), idempotency_key="k")
    again = repo.commit(Prepared(base=base, commit=commit, tables=()))
    assert (again.replayed, again.commit.id) == (True, left.commit.id)
    worlds.assert_in_order(repo)


def test_a_retry_after_a_roll_back_writes_anew(world: Path, repo: Repository) -> None:
    leave(repo, {Fp.LAND: Refuse()}, BOTH, nth=2, key="k")
    repo = worlds.open_world(world)
    again = worlds.add(repo, BOTH, key="k")
    assert not again.replayed
    assert "both" in worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)


def test_of_two_writes_with_one_key_that_both_landed_one_is_taken_back(repo: Repository) -> None:
    """The second one finds the key taken when it publishes; its tables must not stay moved."""
    base = repo.snapshot()
    first = replace(repo.new_commit(base, WriterKind.MUTATION), idempotency_key="k")
    change = CommitRequest(commit=first, target=base.target, requires=())

    def another() -> None:
        repo.publisher.publish(change)

    published = commit_with(repo, staged(repo, key="k"), after={"land": another})
    assert (published.replayed, published.commit.id) == (True, first.id)
    assert "cond" not in worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)


# -- what cannot be settled ------------------------------------------------------------------------


def test_a_stranger_among_the_commits_stops_recovery_and_blocks_only_its_tables(
    world: Path, repo: Repository
) -> None:
    left = landed(repo, {PERSON: ("left",)})
    pin = left.tables[0]
    repo.tables.restore(
        pin.path, None, to_version=pin.expected, expected_head=pin.planned, uuid="stranger"
    )
    head = repo.tables.head(pin.path)
    reopened = worlds.open_world(world)
    assert repo.tables.head(pin.path) == head
    (outcome,) = reopened.recover()
    assert outcome.settled is Settled.STUCK
    assert PERSON in outcome.note
    with pytest.raises(RecoveryRequired) as caught:
        worlds.add(reopened, {PERSON: ("next",)})
    assert caught.value.details["operation_id"] == left.operation_id
    worlds.add(reopened, {COMPANY: ("next",)})
    assert worlds.intents_left(world) == {left.operation_id}
    assert audited(reopened) == set()


@pytest.mark.parametrize("data", [b"{", b'{"format": 99}', b""])
def test_an_unreadable_intent_refuses_writing_and_opening_for_it_but_not_reading(
    world: Path, repo: Repository, data: bytes
) -> None:
    other = landed(repo, {PERSON: ("left",)})
    place = world / INTENTS / "0UNREADABLE.json"
    place.write_bytes(data)
    with pytest.raises(Corrupt) as caught:
        worlds.add(repo, {COMPANY: ("next",)})
    assert caught.value.code is Code.INTENT_UNREADABLE
    assert caught.value.details["path"] == f"{INTENTS}/0UNREADABLE.json"
    assert worlds.intents_left(world) == {"0UNREADABLE", other.operation_id}
    for settle in (repo.refresh, repo.recover, lambda: worlds.open_world(world)):
        with pytest.raises(Corrupt):
            settle()
    # What could be read has been settled all the same.
    assert worlds.intents_left(world) == {"0UNREADABLE"}
    assert place.read_bytes() == data
    reader = worlds.open_world(world, OpenMode.READ_ONLY)
    assert "left" in worlds.rows_of(reader, PERSON)
    place.unlink()
    reopened = worlds.open_world(world)
    worlds.add(reopened, {COMPANY: ("next",)})
    worlds.assert_in_order(reopened)


def test_a_failing_list_is_loud_wherever_intents_matter(world: Path, repo: Repository) -> None:
    left = landed(repo, {PERSON: ("left",)})
    for run in (
        lambda: worlds.add(repo, {COMPANY: ("next",)}),
        repo.refresh,
        repo.recover,
        lambda: worlds.open_world(world),
    ):
        with armed({StorageCall.OBJECT_LIST: Refuse()}), pytest.raises(Unavailable) as caught:
            run()
        assert caught.value.effect is Effect.NONE
    assert worlds.intents_left(world) == {left.operation_id}
    worlds.open_world(world, OpenMode.READ_ONLY)


def test_a_failing_put_aborts_before_anything_moved(repo: Repository) -> None:
    before = worlds.state(repo)
    with armed({StorageCall.OBJECT_PUT_NEW: Refuse()}), pytest.raises(Unavailable) as caught:
        worlds.add(repo, BOTH)
    assert caught.value.effect is Effect.NONE
    assert worlds.state(repo) == before
    worlds.assert_in_order(repo)
    worlds.add(repo, BOTH)


@pytest.mark.parametrize("fault", [Refuse(), LostReply()])
def test_a_failing_audit_keeps_the_intent_and_the_retry_makes_one_row(
    repo: Repository, fault: Fault
) -> None:
    left = landed(repo, {PERSON: ("left",)})
    for _ in range(2):
        with armed({Fp.RECOVER_AUDIT: fault}), pytest.raises(Unavailable):
            repo.recover()
        assert [item.operation_id for item in repo.intents.pending()] == [left.operation_id]
    assert "left" in worlds.rows_of(repo, PERSON)
    assert repo.recover()[0].settled is Settled.ROLLED_FORWARD
    assert kinds(repo) == [RecoveryKind.ROLLED_FORWARD]
    assert [item.id for item in repo.commits()].count(left.commit.id) == 1
    worlds.assert_in_order(repo)


def test_the_audit_says_who_what_and_whence(repo: Repository) -> None:
    left = landed(repo, {PERSON: ("left",)})
    repo.recover()
    (row,) = repo.recovery.audit.rows()
    assert row.operation_id == left.operation_id
    assert (row.writer_kind, row.graph_branch, row.recovery_for_actor) == (
        "mutation",
        "main",
        "tester",
    )
    assert row.graph_commit_id == left.commit.id
    item = left.tables[0]
    assert json.loads(row.table_outcomes) == {
        PERSON: {"from_version": item.expected, "to_version": item.planned}
    }
    assert repo.tables.exists(AUDIT)


# -- branches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_an_intent_of_a_branch_that_is_gone_is_closed(
    world: Path, repo: Repository, again: bool
) -> None:
    repo.branches.create(DEV)
    left = leave(repo, {Fp.PUBLISH: Refuse()}, BOTH, branch=DEV)
    of_another_process(repo, left)
    repo.branches.delete(DEV)
    if again:
        repo.branches.create(DEV)
    reopened = worlds.open_world(world)
    assert audited(reopened) == {left.operation_id}
    if again:
        assert "both" not in worlds.rows_of(reopened, PERSON, DEV)
        worlds.add(reopened, BOTH, branch=DEV)
        assert "both" in worlds.rows_of(reopened, PERSON, DEV)
    worlds.add(reopened, BOTH)
    worlds.assert_in_order(reopened)


# -- leases ----------------------------------------------------------------------------------------


def timed(world: Path, clock: ManualClock) -> Repository:
    root = Root.parse(str(world))
    return Repository.open(root, replace(components(root, durable=False), clock=clock))


def test_a_lease_is_prolonged_before_it_runs_out(world: Path) -> None:
    clock = ManualClock(START)
    repo = timed(world, clock)
    seen: list[int] = []

    def wait() -> None:
        clock.advance(LEASE_US * 2 // 3)
        seen.extend(item.owner.lease_until for item in repo.intents.pending())

    prepared = worlds.insertion(repo, MAIN, BOTH, kind=WriterKind.MUTATION)
    commit_with(repo, prepared, after={"land": wait})
    assert seen == [START + LEASE_US, START + LEASE_US * 5 // 3]
    assert clock.now_us() > START + LEASE_US
    worlds.assert_in_order(repo)


def test_nothing_is_published_after_the_lease_has_run_out(world: Path) -> None:
    clock = ManualClock(START)
    repo = timed(world, clock)
    with pytest.raises(RecoveryRequired) as caught:
        commit_with(repo, staged(repo), after={"land": lambda: clock.advance(LEASE_US)})
    assert caught.value.code is Code.OUTCOME_UNKNOWN
    assert "cond" not in worlds.rows_of(repo, PERSON)
    assert repo.refresh()[0].settled is Settled.ROLLED_FORWARD


def test_a_writer_elsewhere_is_left_alone_until_its_lease_and_grace_are_over(
    world: Path, repo: Repository
) -> None:
    left = landed(repo, {PERSON: ("left",)})
    owner = replace(left.owner, machine="elsewhere", lease_until=1)
    repo.intents.replace(replace(left, owner=owner))
    file = world / intent_path(left.operation_id)
    lease_s = (LEASE_US + GRACE_US) / 1e6
    written = file.stat().st_mtime

    os.utime(file, (0, written - lease_s + 30))
    assert repo.recover()[0].settled is Settled.LIVE
    with pytest.raises(Conflict) as caught:
        worlds.add(repo, {PERSON: ("next",)})
    assert caught.value.code is Code.WRITER_ACTIVE
    os.utime(file, (0, written - lease_s - 1))
    assert repo.recover()[0].settled is Settled.ROLLED_FORWARD
    worlds.assert_in_order(repo)
