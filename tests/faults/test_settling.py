"""What a write left behind, and what the next one, the next opening and an operator make of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

import pytest

from omnigraph.core.engine import Engine, OpenMode, components
from omnigraph.core.failpoints import Fp
from omnigraph.core.layout import AUDIT, INTENTS, intent_path
from omnigraph.core.publish import Change, Publisher
from omnigraph.core.recovery.audit import RecoveryKind
from omnigraph.core.recovery.intent import Intent, WriterKind
from omnigraph.core.recovery.liveness import GRACE_US
from omnigraph.core.recovery.owner import LEASE_US
from omnigraph.core.recovery.settlement import Settled
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
from omnigraph.store.calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.testing import worlds
from omnigraph.testing.worlds import COMPANY, DEV, KNOWS, PERSON
from omnigraph.types import MAIN, BranchName, CommitId
from tests.faults.harness import audited, kinds
from tests.faults.meddling import commit_with, staged

START = 1_700_000_000_000_000
BOTH = {PERSON: ("both",), COMPANY: ("both",)}


def leave(
    engine: Engine,
    faults: Mapping[StrEnum, Fault],
    rows: Mapping[str, tuple[str, ...]],
    *,
    nth: int = 1,
    key: str | None = None,
    branch: BranchName = MAIN,
) -> Intent:
    """Let a write fail so that its intent stays, and return the intent."""
    known = {item.operation_id for item in engine.intents.pending()}
    with armed(faults, nth=nth), pytest.raises(RecoveryRequired) as caught:
        worlds.add(engine, rows, key=key, branch=branch)
    assert caught.value.code is Code.OUTCOME_UNKNOWN
    (left,) = [item for item in engine.intents.pending() if item.operation_id not in known]
    assert caught.value.details["operation_id"] == left.operation_id
    assert caught.value.details["commit_id"] == left.commit_id
    return left


def landed(engine: Engine, rows: Mapping[str, tuple[str, ...]], key: str | None = None) -> Intent:
    """A write that landed everywhere and was not published."""
    return leave(engine, {Fp.PUBLISH: Refuse()}, rows, key=key)


def half_landed(engine: Engine) -> Intent:
    """A write of two tables that landed in one."""
    return leave(engine, {Fp.LAND: Refuse()}, BOTH, nth=2)


def of_another_process(engine: Engine, intent: Intent) -> Intent:
    """The same intent as if a process had left it that has ended since."""
    owner = replace(intent.owner, process=1, started="long ago")
    other = replace(intent, owner=owner)
    engine.intents.replace(other)
    return other


# -- forward ---------------------------------------------------------------------------------------


def test_a_landed_write_goes_forward_with_its_own_commit_actor_and_key(engine: Engine) -> None:
    left = landed(engine, BOTH, key="k")
    (outcome,) = engine.refresh()
    assert (outcome.settled, outcome.commit_id) == (Settled.ROLLED_FORWARD, left.commit_id)
    head = next(engine.commits())
    assert (head.id, head.actor, head.idempotency_key) == (left.commit_id, "tester", "k")
    assert kinds(engine) == [RecoveryKind.ROLLED_FORWARD]
    assert engine.refresh() == ()


def test_the_next_write_to_its_tables_settles_it_first(engine: Engine) -> None:
    landed(engine, BOTH)
    with pytest.raises(Conflict) as caught:
        worlds.add(engine, {PERSON: ("next",)})
    assert caught.value.code is Code.EXPECTED_VERSION_MISMATCH
    assert caught.value.effect is Effect.NONE
    worlds.add(engine, {PERSON: ("next",)})
    assert {"both", "next"} <= worlds.rows_of(engine, PERSON)
    worlds.assert_in_order(engine)


def test_a_write_to_other_tables_heals_it_in_passing(engine: Engine) -> None:
    landed(engine, {PERSON: ("left",)})
    worlds.add(engine, {COMPANY: ("next",)})
    assert "left" in worlds.rows_of(engine, PERSON)
    worlds.assert_in_order(engine)


def test_a_failure_to_heal_in_passing_is_no_failure_of_the_write(engine: Engine) -> None:
    left = landed(engine, {PERSON: ("left",)})
    with armed({Fp.RECOVER_AUDIT: Refuse()}):
        worlds.add(engine, {COMPANY: ("next",)})
    assert [item.operation_id for item in engine.intents.pending()] == [left.operation_id]
    assert engine.recover()[0].settled is Settled.ROLLED_FORWARD
    worlds.assert_in_order(engine)


def test_an_intent_that_could_not_be_removed_is_consumed_as_rolled_forward(engine: Engine) -> None:
    with armed({Fp.FORGET: Refuse()}):
        published = worlds.add(engine, {PERSON: ("new",)})
    before = [item.id for item in engine.commits()]
    assert before[0] == published.commit.id
    assert len(engine.intents.pending()) == 1
    worlds.add(engine, {PERSON: ("next",)})
    assert [item.id for item in engine.commits()][1:] == before
    assert kinds(engine) == [RecoveryKind.ROLLED_FORWARD]
    worlds.assert_in_order(engine)


def test_a_stale_intent_is_consumed_even_when_its_versions_are_long_gone(engine: Engine) -> None:
    with armed({Fp.FORGET: Refuse()}):
        worlds.add(engine, {PERSON: ("new",)})
    (left,) = engine.intents.pending()
    stale = replace(left, tables=tuple(replace(t, path="nodes/gone") for t in left.tables))
    engine.intents.replace(stale)
    assert engine.recover()[0].settled is Settled.ROLLED_FORWARD
    worlds.assert_in_order(engine)


# -- back ------------------------------------------------------------------------------------------


def test_what_landed_half_is_taken_back_by_the_process_that_left_it(engine: Engine) -> None:
    before = worlds.state(engine)
    left = half_landed(engine)
    with pytest.raises(Conflict):
        worlds.add(engine, BOTH)
    assert worlds.state(engine) == before
    assert kinds(engine) == [RecoveryKind.ROLLED_BACK]
    head = next(engine.commits())
    assert (head.id, head.actor) == (left.rollback_commit_id, "omnigraph:recovery")
    worlds.add(engine, BOTH)
    worlds.assert_in_order(engine)


def test_a_roll_back_for_a_process_that_is_gone_waits_for_nobody(engine: Engine) -> None:
    before = worlds.state(engine)
    left = of_another_process(engine, half_landed(engine))
    # Other branches and reading go on anyway; a write to other tables settles it in passing.
    assert worlds.rows_of(engine, COMPANY) == {"c0"}
    worlds.add(engine, {KNOWS: ("next",)})
    assert kinds(engine) == [RecoveryKind.ROLLED_BACK]
    assert [item.id for item in engine.commits()][:1] == [left.rollback_commit_id]
    assert worlds.rows_of(engine, COMPANY) == {"c0"}
    assert before != worlds.state(engine)
    worlds.add(engine, {COMPANY: ("next",)})
    worlds.assert_in_order(engine)


def test_recover_settles_everything_now(engine: Engine) -> None:
    back = of_another_process(engine, half_landed(engine))
    forward = landed(engine, {KNOWS: ("landed",)})
    outcomes = {item.operation_id: item.settled for item in engine.recover()}
    assert outcomes == {
        back.operation_id: Settled.ROLLED_BACK,
        forward.operation_id: Settled.ROLLED_FORWARD,
    }
    worlds.assert_in_order(engine)


def test_recover_needs_a_handle_for_writing(world: Path) -> None:
    reader = worlds.open_world(world, OpenMode.READ_ONLY)
    with pytest.raises(Forbidden):
        reader.recover()
    assert reader.refresh() == ()


def test_a_landed_write_whose_condition_fails_meanwhile_goes_back(engine: Engine) -> None:
    """Judged against a table that has changed since, it must not become visible late."""
    base = engine.snapshot()
    with armed({Fp.PUBLISH: Refuse()}), pytest.raises(RecoveryRequired):
        engine.commit(staged(engine, judged={COMPANY: base.pin(COMPANY).version}))
    worlds.add(engine, {COMPANY: ("moved",)})  # settles it in passing
    assert kinds(engine) == [RecoveryKind.ROLLED_BACK]
    assert "cond" not in worlds.rows_of(engine, PERSON)
    worlds.assert_in_order(engine)


def test_a_landed_write_that_demanded_a_head_goes_back_when_the_head_moved(engine: Engine) -> None:
    with armed({Fp.PUBLISH: Refuse()}), pytest.raises(RecoveryRequired):
        engine.commit(staged(engine, head=engine.snapshot().head))
    worlds.add(engine, {COMPANY: ("moved",)})
    assert kinds(engine) == [RecoveryKind.ROLLED_BACK]
    assert "cond" not in worlds.rows_of(engine, PERSON)
    worlds.assert_in_order(engine)


def test_a_write_whose_own_condition_fails_is_refused_before_anything_moves(
    engine: Engine,
) -> None:
    prepared = staged(engine, head=engine.snapshot().head)
    worlds.add(engine, {COMPANY: ("moved",)})
    with pytest.raises(PreconditionFailed):
        engine.commit(prepared)
    worlds.assert_in_order(engine)
    assert audited(engine) == set()


def test_an_intent_that_was_overtaken_before_it_moved_anything_is_dropped(engine: Engine) -> None:
    """Its writer died between noting its plan and finding out that the base had moved."""
    left = leave(engine, {Fp.ARMED: Refuse()}, BOTH)
    engine.intents.remove(left.operation_id)
    for number in range(5):
        worlds.add(engine, {PERSON: (f"faster-{number}",)})
    before = worlds.state(engine)
    engine.intents.put(left)
    (outcome,) = engine.refresh()
    assert outcome.settled is Settled.ROLLED_BACK
    assert worlds.state(engine) == before
    worlds.add(engine, BOTH)
    worlds.assert_in_order(engine)


@pytest.mark.parametrize("gone", [False, True])
def test_a_write_to_a_fork_that_the_branch_does_not_show_is_not_taken_back_over_others(
    engine: Engine, gone: bool
) -> None:
    engine.branches.create(DEV)
    left = leave(engine, {Fp.PUBLISH: Refuse()}, {PERSON: ("left",)}, branch=DEV)
    engine.intents.remove(left.operation_id)
    worlds.add(engine, {PERSON: ("shown",)}, branch=DEV)  # on another fork: this one is taken
    item = left.tables[0]
    assert engine.snapshot(DEV).pin(PERSON).table_branch != item.table_branch
    if gone:
        assert item.table_branch is not None
        engine.tables.drop_fork(item.path, item.table_branch)
    before = worlds.state(engine)
    engine.intents.put(left)
    (outcome,) = engine.recover()
    assert outcome.settled is Settled.ROLLED_BACK
    assert worlds.state(engine) == before
    worlds.add(engine, {PERSON: ("next",)}, branch=DEV)
    worlds.assert_in_order(engine)


# -- keys ------------------------------------------------------------------------------------------


def test_a_retry_after_an_unknown_outcome_returns_the_first_commit(engine: Engine) -> None:
    left = landed(engine, {PERSON: ("once",)}, key="k")
    again = worlds.add(engine, {PERSON: ("once",)}, key="k")
    assert again.replayed
    assert again.commit.id == left.commit_id
    worlds.assert_in_order(engine)


def test_a_retry_with_other_tables_still_finds_the_first(engine: Engine) -> None:
    left = landed(engine, {PERSON: ("once",)}, key="k")
    again = worlds.add(engine, {COMPANY: ("other",)}, key="k")
    assert (again.replayed, again.commit.id) == (True, left.commit_id)
    assert "other" not in worlds.rows_of(engine, COMPANY)
    worlds.assert_in_order(engine)


def test_a_retry_that_changes_no_table_still_finds_the_first(engine: Engine) -> None:
    left = landed(engine, {PERSON: ("once",)}, key="k")
    base = engine.snapshot()
    again = engine.commit(
        Prepared(base=base, kind=WriterKind.MUTATION, tables=(), idempotency_key="k")
    )
    assert (again.replayed, again.commit.id) == (True, left.commit_id)
    worlds.assert_in_order(engine)


def test_a_retry_after_a_roll_back_writes_anew(world: Path, engine: Engine) -> None:
    leave(engine, {Fp.LAND: Refuse()}, BOTH, nth=2, key="k")
    engine = worlds.open_world(world)
    again = worlds.add(engine, BOTH, key="k")
    assert not again.replayed
    assert "both" in worlds.rows_of(engine, PERSON)
    worlds.assert_in_order(engine)


def test_of_two_writes_with_one_key_that_both_landed_one_is_taken_back(engine: Engine) -> None:
    """The second one finds the key taken when it publishes; its tables must not stay moved."""
    first = CommitId(engine.ids.new())
    change = Change(
        branch=MAIN,
        incarnation=engine.snapshot().incarnation,
        commit_id=first,
        kind="mutation",
        actor=None,
        created_at=engine.clock.now_us(),
        idempotency_key="k",
    )

    def another() -> None:
        Publisher(engine.root.uri, engine.tables, engine.manifest, engine.births).publish(change)

    published = commit_with(engine, staged(engine, key="k"), after={"land": another})
    assert (published.replayed, published.commit.id) == (True, first)
    assert "cond" not in worlds.rows_of(engine, PERSON)
    worlds.assert_in_order(engine)


# -- what cannot be settled ------------------------------------------------------------------------


def test_a_stranger_among_the_commits_stops_recovery_and_blocks_only_its_tables(
    world: Path, engine: Engine
) -> None:
    left = landed(engine, {PERSON: ("left",)})
    pin = left.tables[0]
    engine.tables.restore(
        pin.path, None, to_version=pin.expected, expected_head=pin.planned, uuid="stranger"
    )
    head = engine.tables.head(pin.path)
    reopened = worlds.open_world(world)
    assert engine.tables.head(pin.path) == head
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
    world: Path, engine: Engine, data: bytes
) -> None:
    other = landed(engine, {PERSON: ("left",)})
    place = world / INTENTS / "0UNREADABLE.json"
    place.write_bytes(data)
    with pytest.raises(Corrupt) as caught:
        worlds.add(engine, {COMPANY: ("next",)})
    assert caught.value.code is Code.INTENT_UNREADABLE
    assert caught.value.details["path"] == f"{INTENTS}/0UNREADABLE.json"
    assert worlds.intents_left(world) == {"0UNREADABLE", other.operation_id}
    for settle in (engine.refresh, engine.recover, lambda: worlds.open_world(world)):
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


def test_a_failing_list_is_loud_wherever_intents_matter(world: Path, engine: Engine) -> None:
    left = landed(engine, {PERSON: ("left",)})
    for run in (
        lambda: worlds.add(engine, {COMPANY: ("next",)}),
        engine.refresh,
        engine.recover,
        lambda: worlds.open_world(world),
    ):
        with armed({StorageCall.OBJECT_LIST: Refuse()}), pytest.raises(Unavailable) as caught:
            run()
        assert caught.value.effect is Effect.NONE
    assert worlds.intents_left(world) == {left.operation_id}
    worlds.open_world(world, OpenMode.READ_ONLY)


def test_a_failing_put_aborts_before_anything_moved(engine: Engine) -> None:
    before = worlds.state(engine)
    with armed({StorageCall.OBJECT_PUT_NEW: Refuse()}), pytest.raises(Unavailable) as caught:
        worlds.add(engine, BOTH)
    assert caught.value.effect is Effect.NONE
    assert worlds.state(engine) == before
    worlds.assert_in_order(engine)
    worlds.add(engine, BOTH)


@pytest.mark.parametrize("fault", [Refuse(), LostReply()])
def test_a_failing_audit_keeps_the_intent_and_the_retry_makes_one_row(
    engine: Engine, fault: Fault
) -> None:
    left = landed(engine, {PERSON: ("left",)})
    for _ in range(2):
        with armed({Fp.RECOVER_AUDIT: fault}), pytest.raises(Unavailable):
            engine.recover()
        assert [item.operation_id for item in engine.intents.pending()] == [left.operation_id]
    assert "left" in worlds.rows_of(engine, PERSON)
    assert engine.recover()[0].settled is Settled.ROLLED_FORWARD
    assert kinds(engine) == [RecoveryKind.ROLLED_FORWARD]
    assert [item.id for item in engine.commits()].count(left.commit_id) == 1
    worlds.assert_in_order(engine)


def test_the_audit_says_who_what_and_whence(engine: Engine) -> None:
    left = landed(engine, {PERSON: ("left",)})
    engine.recover()
    (row,) = engine.recovery.audit.rows()
    assert row.operation_id == left.operation_id
    assert (row.writer_kind, row.graph_branch, row.recovery_for_actor) == (
        "mutation",
        "main",
        "tester",
    )
    assert row.graph_commit_id == left.commit_id
    item = left.tables[0]
    assert json.loads(row.table_outcomes) == {
        PERSON: {"from_version": item.expected, "to_version": item.planned}
    }
    assert engine.tables.exists(AUDIT)


# -- branches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_an_intent_of_a_branch_that_is_gone_is_closed(
    world: Path, engine: Engine, again: bool
) -> None:
    engine.branches.create(DEV)
    left = leave(engine, {Fp.PUBLISH: Refuse()}, BOTH, branch=DEV)
    of_another_process(engine, left)
    engine.branches.delete(DEV)
    if again:
        engine.branches.create(DEV)
    reopened = worlds.open_world(world)
    assert audited(reopened) == {left.operation_id}
    if again:
        assert "both" not in worlds.rows_of(reopened, PERSON, DEV)
        worlds.add(reopened, BOTH, branch=DEV)
        assert "both" in worlds.rows_of(reopened, PERSON, DEV)
    worlds.add(reopened, BOTH)
    worlds.assert_in_order(reopened)


# -- leases ----------------------------------------------------------------------------------------


def timed(world: Path, clock: ManualClock) -> Engine:
    root = Root.parse(str(world))
    return Engine.open(root, replace(components(root, durable=False), clock=clock))


def test_a_lease_is_prolonged_before_it_runs_out(world: Path) -> None:
    clock = ManualClock(START)
    engine = timed(world, clock)
    seen: list[int] = []

    def wait() -> None:
        clock.advance(LEASE_US * 2 // 3)
        seen.extend(item.owner.lease_until for item in engine.intents.pending())

    prepared = worlds.insertion(engine, MAIN, BOTH, kind=WriterKind.MUTATION)
    commit_with(engine, prepared, after={"land": wait})
    assert seen == [START + LEASE_US, START + LEASE_US * 5 // 3]
    assert clock.now_us() > START + LEASE_US
    worlds.assert_in_order(engine)


def test_nothing_is_published_after_the_lease_has_run_out(world: Path) -> None:
    clock = ManualClock(START)
    engine = timed(world, clock)
    with pytest.raises(RecoveryRequired) as caught:
        commit_with(engine, staged(engine), after={"land": lambda: clock.advance(LEASE_US)})
    assert caught.value.code is Code.OUTCOME_UNKNOWN
    assert "cond" not in worlds.rows_of(engine, PERSON)
    assert engine.refresh()[0].settled is Settled.ROLLED_FORWARD


def test_a_writer_elsewhere_is_left_alone_until_its_lease_and_grace_are_over(
    world: Path, engine: Engine
) -> None:
    left = landed(engine, {PERSON: ("left",)})
    owner = replace(left.owner, machine="elsewhere", lease_until=1)
    engine.intents.replace(replace(left, owner=owner))
    file = world / intent_path(left.operation_id)
    lease_s = (LEASE_US + GRACE_US) / 1e6
    written = file.stat().st_mtime

    os.utime(file, (0, written - lease_s + 30))
    assert engine.recover()[0].settled is Settled.LIVE
    with pytest.raises(Conflict) as caught:
        worlds.add(engine, {PERSON: ("next",)})
    assert caught.value.code is Code.WRITER_ACTIVE
    os.utime(file, (0, written - lease_s - 1))
    assert engine.recover()[0].settled is Settled.ROLLED_FORWARD
    worlds.assert_in_order(engine)
