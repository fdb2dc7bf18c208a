"""Writers that come too late: their write was given up, and then their landing arrives.

A process paused between its last check and its landing, a request that is applied after its client
gave up waiting, and a machine whose clock is wrong all look like this. The late writer must lose
cleanly, and the tables must stay writable.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from omnigraph.core import tuning
from omnigraph.core.branches.branches import StoredBranches
from omnigraph.core.journal.audit import RecoveryKind
from omnigraph.core.journal.intent import IntentLog, WriterKind
from omnigraph.core.layout import BRANCH_CLAIM, DELETED_BRANCHES, MANIFEST, intent_path
from omnigraph.core.manifest.deleted_branches import DeletedBranches
from omnigraph.core.recovery.settlement import Settled
from omnigraph.core.repository import Components, Repository, components
from omnigraph.core.write import Prepared
from omnigraph.errors import Code, Conflict, Effect, GraphError, RecoveryRequired
from omnigraph.runtime import failpoints
from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.failpoints import Fault, LostReply, Refuse
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.faults import worlds
from tests.faults.harness import kinds
from tests.faults.meddling import Hooks, commit_with, hooked
from tests.faults.worlds import COMPANY, DEV, PERSON

LEASE_US = tuning.active.writer_lease_us
GRACE_US = tuning.active.lease_grace_us

BOTH = {PERSON: ("late",), COMPANY: ("late",)}
# Of the forks that a branch is created with when its commit writes to one table: its own.
LAST_FORK = 3
LONG_AGO_S = (LEASE_US + GRACE_US) / 1e6 + 5


def age(world: Path, place: str) -> None:
    """Make an object as old as a lease and its grace, by the time of the file system."""
    file = world / place
    then = file.stat().st_mtime - LONG_AGO_S
    os.utime(file, (then, then))


def as_if_elsewhere(world: Path, repo: Repository) -> None:
    """Let the one pending intent be that of a silent process on another machine."""
    (intent,) = repo.intents.pending()
    repo.intents.replace(replace(intent, owner=replace(intent.owner, machine="elsewhere")))
    age(world, intent_path(intent.operation_id))


def given_up(world: Path) -> Callable[[], None]:
    """A hook: somebody on another machine takes the writer for dead and settles its intent."""

    def settle() -> None:
        other = worlds.attach(world)
        if other.intents.pending():
            as_if_elsewhere(world, other)
            other.recover()

    return settle


def prepared(repo: Repository, branch: BranchName = MAIN, **options: Any) -> Prepared:
    made = worlds.insertion(repo, branch, BOTH, kind=options.pop("kind", WriterKind.MUTATION))
    return replace(made, **options)


def nth(number: int, action: Callable[[], None]) -> Callable[[], None]:
    """An action for the n-th call of a hook alone."""
    calls = iter(range(1, 100))

    def call() -> None:
        if next(calls) == number:
            action()

    return call


@pytest.mark.parametrize("branch", [MAIN, DEV], ids=str)
@pytest.mark.parametrize("number", [1, 2])
def test_a_landing_that_arrives_after_the_write_was_given_up_is_refused(
    world: Path, repo: Repository, branch: BranchName, number: int
) -> None:
    if branch != MAIN:
        repo.branches.create(branch)
    hooks: Hooks = {"land": nth(number, given_up(world))}
    with pytest.raises(Conflict) as caught:
        commit_with(repo, prepared(repo, branch), before=hooks)
    assert caught.value.code is Code.EXPECTED_VERSION_MISMATCH
    assert "late" not in worlds.rows_of(repo, PERSON, branch)
    assert kinds(repo) == [RecoveryKind.ROLLED_BACK]
    assert not repo.intents.pending()
    worlds.add(repo, {PERSON: ("next",), COMPANY: ("next",)}, branch=branch)
    worlds.assert_in_order(repo)


@pytest.mark.parametrize("kind", [WriterKind.MUTATION, WriterKind.BRANCH_MERGE], ids=str)
def test_a_writer_that_pauses_before_it_publishes_finds_its_outcome(
    world: Path, repo: Repository, kind: WriterKind
) -> None:
    """All tables have landed: recovery finishes the write, or takes all of it back."""
    hooks: Hooks = {"land": nth(2, given_up(world))}
    try:
        commit_with(repo, prepared(repo, kind=kind), after=hooks)
    except Conflict:
        assert kinds(repo) == [RecoveryKind.ROLLED_BACK]
        assert "late" not in worlds.rows_of(repo, PERSON)
    else:
        assert kinds(repo) == [RecoveryKind.ROLLED_FORWARD]
        assert "late" in worlds.rows_of(repo, PERSON)
    worlds.add(repo, {PERSON: ("next",), COMPANY: ("next",)})
    worlds.assert_in_order(repo)


def test_a_request_that_is_applied_after_its_client_gave_up_is_refused(
    world: Path, repo: Repository
) -> None:
    """Ctrl-C or a timeout during a slow put; the store applies it minutes later."""
    late: list[Any] = []
    write = prepared(repo)

    def time_out() -> None:
        late.extend(item.staged[0] for item in write.tables)
        raise StorageFailure(FailureKind.UNKNOWN, "land", "somewhere", "timed out")

    with pytest.raises(RecoveryRequired) as caught:
        commit_with(repo, write, before={"land": time_out})
    assert caught.value.code is Code.OUTCOME_UNKNOWN
    (outcome,) = worlds.attach(world).recover()
    assert outcome.settled is Settled.ROLLED_BACK
    for staged in late:
        with pytest.raises(StorageFailure) as refused:
            repo.tables.land(staged)
        assert refused.value.kind is FailureKind.CONFLICT
    worlds.add(repo, BOTH)
    worlds.assert_in_order(repo)


def test_a_fence_that_comes_after_the_landing_lets_the_write_go_forward(
    world: Path, repo: Repository
) -> None:
    """Recovery saw nothing moved; before it could close the door, everything had landed."""
    write = prepared(repo)
    with pytest.raises(RecoveryRequired):
        commit_with(repo, write, before={"land": _unanswered})
    other = worlds.attach(world)
    real = other.tables.restore

    def land_first(*args: Any, **options: Any) -> int:
        for item in write.tables:
            repo.tables.land(item.staged[0])
        other.tables.restore = real  # type: ignore[method-assign]
        return real(*args, **options)

    other.tables.restore = land_first  # type: ignore[method-assign]
    (outcome,) = other.recover()
    assert outcome.settled is Settled.ROLLED_FORWARD
    assert "late" in worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)


def _unanswered() -> None:
    raise StorageFailure(FailureKind.UNKNOWN, "land", "somewhere", "timed out")


# -- what is wedged already ------------------------------------------------------------------------


def wedge(repo: Repository) -> None:
    """What an earlier release left: an intent given up without a fence, then the late landing."""
    write = prepared(repo)
    with pytest.raises(RecoveryRequired):
        commit_with(repo, write, before={"land": _unanswered})
    (intent,) = repo.intents.pending()
    repo.intents.remove(intent.operation_id)
    repo.tables.land(write.tables[0].staged[0])


def test_recover_settles_a_table_that_a_late_landing_has_wedged(
    world: Path, repo: Repository
) -> None:
    wedge(repo)
    before = worlds.state(repo)
    outcomes = worlds.attach(world).recover()
    assert [item.settled for item in outcomes] == [Settled.ROLLED_BACK]
    assert worlds.state(repo) == before
    worlds.add(repo, BOTH)
    worlds.assert_in_order(repo)


def test_a_write_to_a_wedged_table_settles_it_and_the_next_one_works(repo: Repository) -> None:
    wedge(repo)
    with pytest.raises(Conflict):
        worlds.add(repo, BOTH)
    worlds.add(repo, BOTH)
    assert "late" in worlds.rows_of(repo, PERSON)
    worlds.assert_in_order(repo)


def test_a_version_of_another_tool_is_not_taken_back(repo: Repository) -> None:
    """Only what carries one of our own identities is known to be a write that nobody saw."""
    pin = repo.snapshot().pin(PERSON)
    repo.tables.restore(
        pin.path, None, to_version=pin.version, expected_head=pin.version, uuid="of-another-tool"
    )
    (outcome,) = repo.recover()
    assert outcome.settled is Settled.STUCK
    assert PERSON in outcome.note
    assert repo.tables.head(pin.path) == pin.version + 1


# -- leases ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("skew_us", [-130_000_000, 130_000_000])
def test_the_clocks_of_two_machines_are_never_compared(
    world: Path, repo: Repository, skew_us: int
) -> None:
    """A writer on a machine whose clock is off is alive as long as it renews its intent."""
    write = prepared(repo)
    with pytest.raises(RecoveryRequired):
        commit_with(repo, write, before={"land": _unanswered})
    (intent,) = repo.intents.pending()
    owner = replace(
        intent.owner, machine="elsewhere", lease_until=repo.clock.now_us() + LEASE_US + skew_us
    )
    repo.intents.replace(replace(intent, owner=owner))
    skewed = Repository(
        repo.root,
        replace(_parts(repo), clock=ManualClock(repo.clock.now_us() + skew_us)),
        repo.mode,
    )
    assert [item.settled for item in skewed.recover()] == [Settled.LIVE]
    age(world, intent_path(intent.operation_id))
    assert [item.settled for item in skewed.recover()] == [Settled.ROLLED_BACK]
    worlds.add(repo, BOTH)
    worlds.assert_in_order(repo)


def _parts(repo: Repository) -> Components:
    return Components(objects=repo.objects, tables=repo.tables, clock=repo.clock, ids=repo.ids)


# -- handles that stay open ------------------------------------------------------------------------


@pytest.mark.parametrize("through", ["write", "refresh"])
def test_a_handle_that_was_open_all_the_time_settles_what_a_dead_process_left(
    world: Path, repo: Repository, through: str
) -> None:
    """Landed half, by a process that is gone: the next write or refresh takes it back."""
    with pytest.raises(RecoveryRequired):
        commit_with(repo, prepared(repo), before={"land": nth(2, _unanswered)})
    (intent,) = repo.intents.pending()
    dead = replace(intent.owner, process=1, started="long ago", lease_until=1)
    repo.intents.replace(replace(intent, owner=dead))
    if through == "refresh":
        assert [item.settled for item in repo.refresh()] == [Settled.ROLLED_BACK]
        worlds.add(repo, BOTH)
    else:
        with pytest.raises(Conflict):  # its base is older than what was taken back
            worlds.add(repo, BOTH)
        worlds.add(repo, BOTH)
    worlds.assert_in_order(repo)


# -- branches --------------------------------------------------------------------------------------


def test_a_late_deletion_never_hits_a_branch_that_was_made_anew(
    world: Path, repo: Repository
) -> None:
    """Paused while it removes files, after others have made the branch again."""
    repo.branches.create(DEV)
    worlds.add(repo, {PERSON: ("old",)}, branch=DEV)
    other = worlds.attach(world)

    def meanwhile() -> None:
        with_claim_taken_over(world)
        if DEV in other.branches.list():
            other.branches.delete(DEV)
        other.branches.create(DEV)
        worlds.add(other, {PERSON: ("new",)}, branch=DEV)

    late = hooked(worlds.attach(world), before={"drop_fork": nth(1, meanwhile)})
    late.branches.delete(DEV)
    assert "new" in worlds.rows_of(worlds.open_world(world), PERSON, DEV)
    worlds.add(other, {PERSON: ("next",)}, branch=DEV)
    other.branches.reclaim()
    reopened = worlds.open_world(world)
    assert worlds.rows_of(reopened, PERSON, DEV) == {"p0", "p1", "new", "next"}
    worlds.assert_in_order(reopened)


def test_a_publish_that_arrives_after_its_branch_was_deleted_is_not_acknowledged(
    world: Path, repo: Repository
) -> None:
    """Not even if the branch was made again: the stale commit must not appear there."""
    repo.branches.create(DEV)

    def meanwhile() -> None:
        other = worlds.attach(world)
        # It does not see our intent, as if it had looked before we wrote it.
        deleting = replace_writers(other)
        deleting.delete(DEV)
        other.branches.create(DEV)

    write = worlds.insertion(repo, DEV, {PERSON: ("stale",)}, kind=WriterKind.MUTATION)
    with pytest.raises(Conflict) as caught:
        commit_with(repo, write, before={"merge_rows": nth(1, meanwhile)})
    assert caught.value.code is Code.BRANCH_REPLACED
    reopened = worlds.open_world(world)
    assert worlds.rows_of(reopened, PERSON, DEV) == {"p0", "p1"}
    worlds.add(reopened, {PERSON: ("next",)}, branch=DEV)
    worlds.assert_in_order(reopened)


def replace_writers(repo: Repository) -> StoredBranches:
    """The branches of a graph for somebody who sees no writers."""
    return StoredBranches(
        repo.tables,
        repo.manifest,
        DeletedBranches(repo.objects),
        repo.creation,
        repo.intents,
        repo.kept,
        lambda _name, _apart: (),
    )


def with_claim_taken_over(world: Path) -> None:
    """Let the one claim of those who make branches be that of a silent process elsewhere."""
    (claim,) = (world / BRANCH_CLAIM).iterdir()
    plain = json.loads(claim.read_bytes())
    plain["owner"]["machine"] = "elsewhere"
    claim.write_text(json.dumps(plain))
    age(world, f"{BRANCH_CLAIM}/{claim.name}")


def test_a_maker_that_is_stopped_while_it_looks_at_leftovers_does_not_touch_the_next_branch(
    world: Path, repo: Repository
) -> None:
    """One maker died half-way, a second one stops over what it left, a third makes the branch."""
    with (
        failpoints.armed({StorageCall.OBJECT_PUT_NEW: Refuse()}, nth=2),
        pytest.raises(StorageFailure),
    ):
        worlds.attach(world).branches.create(DEV)
    assert repo.tables.has_files_of_fork(MANIFEST, DEV)
    other = worlds.attach(world)

    def meanwhile() -> None:
        with_claim_taken_over(world)
        other.branches.create(DEV)
        worlds.add(other, {PERSON: ("new",)}, branch=DEV)

    late = hooked(worlds.attach(world), after={"fork_info": nth(1, meanwhile)})
    with pytest.raises(GraphError):
        late.branches.create(DEV)
    reopened = worlds.open_world(world)
    assert worlds.rows_of(reopened, PERSON, DEV) == {"p0", "p1", "new"}
    worlds.add(reopened, {PERSON: ("next",)}, branch=DEV)
    worlds.assert_in_order(reopened)


@pytest.mark.parametrize("where", ["fork", "record"])
def test_a_branch_that_was_given_up_is_at_no_moment_seen_when_its_maker_goes_on(
    world: Path, repo: Repository, where: str
) -> None:
    """Stopped before the last step of all, or in the middle of it: before its record is written."""
    other = worlds.attach(world)
    seen: list[bool] = []

    def meanwhile() -> None:
        with_claim_taken_over(world)
        other.branches.create(DEV)
        (intent,) = other.intents.pending()
        other.intents.replace(replace(intent, owner=replace(intent.owner, machine="elsewhere")))
        file = world / intent_path(intent.operation_id)
        then = file.stat().st_mtime - 26 * 3_600
        os.utime(file, (then, then))
        # The name is taken, so it is given up; and then the name is free again.
        assert [item.settled for item in other.recover()] == [Settled.ROLLED_BACK]
        other.branches.delete(DEV)

    def look() -> None:
        seen.append(worlds.attach(world).has_branch(DEV))

    late = worlds.attach(world)
    if where == "fork":
        late = hooked(late, before={"fork": nth(LAST_FORK, meanwhile)})
    else:
        records = late.tables._forks.records
        create, pause = records.create, nth(LAST_FORK, meanwhile)

        def paused(*args: Any) -> None:
            pause()
            create(*args)
            look()

        records.create = paused  # type: ignore[method-assign, assignment]
    with pytest.raises(Conflict):
        worlds.commit_new_branch(late, {PERSON: ("late",)})
    look()
    assert not any(seen)
    other.branches.create(DEV)
    worlds.add(other, {PERSON: ("next",)}, branch=DEV)
    reopened = worlds.open_world(world)
    assert worlds.rows_of(reopened, PERSON, DEV) == worlds.rows_of(reopened, PERSON) | {"next"}
    worlds.assert_in_order(reopened)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_deletion_whose_reply_is_lost_is_finished_or_said_to_be_unclear(
    world: Path, repo: Repository, lost: int
) -> None:
    repo.branches.create(DEV)
    kept: list[tuple[str, bytes]] = []
    real = repo.objects.put_new

    def put_new(path: str, data: bytes) -> None:
        if path.startswith(DELETED_BRANCHES) and len(kept) < lost:
            kept.append((path, data))
            raise StorageFailure(FailureKind.UNKNOWN, "put_new", path, "timed out")
        real(path, data)

    repo.objects.put_new = put_new  # type: ignore[method-assign]
    if lost == 1:
        repo.branches.delete(DEV)
    else:
        with pytest.raises(RecoveryRequired) as caught:
            repo.branches.delete(DEV)
        assert caught.value.code is Code.OUTCOME_UNKNOWN
        repo.branches.delete(DEV)
    # The store applies the late requests when the name is in use again.
    repo.branches.create(DEV)
    worlds.add(repo, {PERSON: ("new",)}, branch=DEV)
    for path, data in kept:
        with pytest.raises(StorageFailure):
            real(path, data)
    assert worlds.rows_of(worlds.open_world(world), PERSON, DEV) == {"p0", "p1", "new"}


def test_a_name_can_be_used_again_and_again(world: Path, repo: Repository) -> None:
    for number in range(3):
        repo.branches.create(DEV)
        worlds.add(repo, {PERSON: (f"in-{number}",)}, branch=DEV)
        child = BranchName(f"child-{number}")
        repo.branches.create(child, source=DEV)
        with pytest.raises(Conflict) as caught:
            repo.branches.delete(DEV)
        assert caught.value.code is Code.BRANCH_IN_USE
        reopened = worlds.open_world(world)
        assert worlds.rows_of(reopened, PERSON, child) == {"p0", "p1", f"in-{number}"}
        assert reopened.branches.list() == (child, DEV, MAIN)
        repo.branches.delete(child)
        repo.branches.delete(DEV)
    assert worlds.open_world(world).branches.list() == (MAIN,)
    assert repo.branches.reclaim() == 0
    worlds.assert_in_order(repo)


def test_the_lease_is_checked_when_the_version_is_about_to_get_its_name(world: Path) -> None:
    clock = ManualClock(1_700_000_000_000_000)
    root = Root.parse(str(world))
    repo = Repository.open(root, replace(components(root, durable=False), clock=clock))
    pins = repo.snapshot().tables.values()

    write = prepared(repo)

    once = [LEASE_US]  # the watcher stays, what it does is over after one time

    def pause(point: StrEnum) -> None:
        if once and point is StorageCall.TABLE_COMMIT:
            clock.advance(once.pop())

    failpoints.watch(pause)
    with pytest.raises(RecoveryRequired) as caught:
        repo.commit(write)
    assert caught.value.code is Code.OUTCOME_UNKNOWN
    assert all(repo.tables.head(pin.path) == pin.version for pin in pins)
    (outcome,) = repo.recover()
    assert outcome.settled is Settled.ROLLED_BACK
    worlds.add(repo, BOTH)
    worlds.assert_in_order(repo)


def test_a_landing_that_takes_longer_than_its_lease_is_not_given_up(
    world: Path,
) -> None:
    """An update of very many rows is one long call of Lance; its writer lives all the time."""
    clock = ManualClock(1_700_000_000_000_000)
    root = Root.parse(str(world))
    repo = Repository.open(root, replace(components(root, durable=False), clock=clock))
    waits = [LEASE_US // 2] * 3

    def lease_until() -> int:
        (intent,) = IntentLog(repo.objects).pending()
        return intent.owner.lease_until

    def work_on(point: StrEnum) -> None:
        while waits and point is StorageCall.TABLE_COMMIT:
            before = lease_until()
            clock.advance(waits.pop())
            while lease_until() == before:
                threading.Event().wait(0.01)

    failpoints.watch(work_on)
    write = prepared(repo)
    with tuning.tuned(long_landing_rows=0):
        assert repo.commit(write).commit.id == write.commit.id
    assert not waits
    worlds.assert_in_order(repo)


@pytest.mark.parametrize("fault", [Refuse(), LostReply()], ids=str)
def test_a_commit_without_tables_is_never_said_to_have_had_no_effect_when_it_is_there(
    repo: Repository, fault: Fault
) -> None:
    """Also when it cannot be told whether its branch was deleted while it was published."""
    repo.branches.create(DEV)
    for nth in itertools.count(1):
        base = repo.snapshot(DEV)
        commit = repo.new_commit(base, WriterKind.MUTATION)
        write = Prepared(base=base, commit=commit, tables=())
        with failpoints.armed(dict.fromkeys(StorageCall, fault), nth=nth) as plan:
            try:
                repo.commit(write)
            except GraphError as error:
                refused = error.effect is Effect.NONE
            else:
                refused = False
        if plan.fired is None:
            break
        assert not refused or repo.snapshot(DEV).head == base.head, plan.fired
        repo.refresh()  # settles what it left, so that the next attempt makes no more calls
    assert nth > 3
    worlds.assert_in_order(repo)
