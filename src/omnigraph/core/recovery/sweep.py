"""Recovery: settles the intents of dead writers, as `decide` says.

`settle` takes one intent to its end. `sweep` settles everything whose owner is gone; it runs when a
graph is opened for writing, at `refresh`, and on request. A write settles what stands in its way
before it begins and whatever else it saw when it has ended.

Any number of processes may settle the same intent at once, and none needs a lock for it: they see
the same facts, so they come to the same verdict; the commits they publish have the same ids, so one
of each is published; a table is restored strictly from the head that was judged, so it is restored
once. A process that loses a race looks again and finds the work done.

A writer that was taken for dead may only have been slow. So a write is never given up without a
fence: in each of its tables the next version is taken, by a commit that changes nothing, and a
landing that arrives later is refused.

A write that creates its branch is settled by one at a time, because whether the name is free may
change to and fro. No other write has its tables, so taking it back means to drop them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from omnigraph.core import tuning
from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.commits.records import CommitRecord, VersionRecord
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.commits.requirements import TableAt, TargetState, check, requirement_of
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.journal.audit import Audit, AuditRow, RecoveryKind
from omnigraph.core.journal.intent import Intent, PlannedTable
from omnigraph.core.layout import intent_path
from omnigraph.core.locks.liveness import is_certainly_over
from omnigraph.core.publish.context import WriteContext
from omnigraph.core.publish.destinations import Destination
from omnigraph.core.recovery.decide import Discard, Forget, RollBack, RollForward, Stop, Tip, decide
from omnigraph.core.recovery.orphans import Orphans
from omnigraph.core.recovery.settlement import RECOVERY_ACTOR, Settled, Settlement
from omnigraph.core.storage_errors import storage_errors
from omnigraph.errors import (
    Busy,
    Code,
    Conflict,
    GraphError,
    NotFound,
    PreconditionFailed,
    RecoveryRequired,
)
from omnigraph.runtime import telemetry
from omnigraph.runtime.failpoints import hit
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin
from omnigraph.types import BranchName, CommitId


class Authority(StrEnum):
    """The settler of an intent, and what it may do."""

    OTHERS = "others"  # settles the write of another process, or what this one lost track of
    OWNER = "owner"  # a writer that was refused: nothing of its own write is under way any more


class Recovery:
    """Settles the intents of one graph."""

    def __init__(self, parts: WriteContext) -> None:
        """Work on the graph made of these parts."""
        self._tables = parts.tables
        self._manifest = parts.manifest
        self._destinations = parts.destinations
        self._publisher = parts.publisher
        self._intents = parts.intents
        self._liveness = parts.liveness
        self._clock = parts.clock
        self._local = parts.local
        self.audit = Audit(parts.tables)
        self._orphans = Orphans(
            tables=parts.tables,
            manifest=parts.manifest,
            publisher=parts.publisher,
            intents=parts.intents,
            audit=self.audit,
            clock=parts.clock,
            ids=parts.ids,
        )

    def sweep(self) -> tuple[Settlement, ...]:
        """Settle every intent whose owner is gone; only then report what failed."""
        with storage_errors():
            found = self._intents.scan()
            outcomes: list[Settlement] = []
            failures: list[StorageFailure | GraphError] = []
            for intent in found.intents:
                try:
                    outcomes.append(self.settle_left(intent))
                except (Busy, Conflict) as busy:
                    # Others publish without pause; a write that needs its tables will try again.
                    outcomes.append(_settlement(intent, Settled.DEFERRED, str(busy)))
                except (StorageFailure, GraphError) as failure:
                    if isinstance(failure, GraphError) and failure.code is Code.GRAPH_MOVED:
                        # It belongs to the place that its branch recorded, and main goes on here.
                        outcomes.append(_settlement(intent, Settled.DEFERRED, str(failure)))
                        continue
                    failures.append(failure)
            for first in failures:
                raise first
            found.require_readable()
        return tuple(outcomes)

    def settle_orphans(
        self,
        branch: BranchName,
        table_keys: Collection[str] | None = None,
        *,
        apart_from: str | None = None,
    ) -> tuple[Settlement, ...]:
        """Take back versions of a branch's tables that no write accounts for."""
        return self._orphans.settle(branch, table_keys, apart_from=apart_from)

    def settle_left(self, intent: Intent) -> Settlement:
        """Settle an intent unless its owner is at work, holding the gates a writer would hold."""
        if self.is_live(intent):
            return _settlement(intent, Settled.LIVE)
        keys = [item.table_key for item in intent.tables]
        with self._destinations.of(intent.request.target).writing(keys):
            return self.settle(intent)

    def is_live(self, intent: Intent) -> bool:
        """True if the writer of an intent may still be at work."""
        operation_id = intent.operation_id
        place = intent_path(operation_id)
        return self._liveness.is_alive(intent.owner, operation_id, place, intent.modified_us)

    def is_visible(self, intent: Intent) -> bool:
        """True if the outcome of a write is published, so that its intent blocks nothing."""
        try:
            self._manifest.snapshot(intent.branch)
            commits = self._manifest.commits(intent.branch)
        except NotFound:
            return False
        return intent.commit.id in commits or intent.rollback_commit_id in commits

    # -- one intent ------------------------------------------------------------------------------

    def settle(self, intent: Intent, authority: Authority = Authority.OTHERS) -> Settlement:
        """Take the intent of a writer that is not at work to its end."""
        with telemetry.span("recover", operation=intent.operation_id):
            place = self._destinations.of(intent.request.target)
            for _ in range(tuning.active.sweep_looks_max):
                try:
                    with place.settling():
                        # Its writer has finished and removed it: that is no recovery to record.
                        current = self._intents.get(intent.operation_id)
                        if current is None:
                            return _settlement(intent, Settled.GONE)
                        return self._settle(current, place, authority)
                except StorageFailure as failure:
                    if failure.kind is not FailureKind.CONFLICT:
                        raise
                except (Conflict, NotFound, PreconditionFailed) as refusal:
                    if refusal.code is Code.HEAD_CONTENTION:
                        raise
                telemetry.count("recover.lost_race")
        text = f"operation {intent.operation_id} is being settled by too many at once"
        raise Busy(Code.BUSY, text, operation_id=intent.operation_id)

    def _settle(self, intent: Intent, place: Destination, authority: Authority) -> Settlement:
        """Decide once, and carry it out. A conflict means that the facts changed meanwhile."""
        seen = place.newest_for_recovery()
        if intent.ends_branch:
            return self._settle_end(intent, seen)
        if seen is None:
            # The branch is gone, and with it everything that the write could have changed.
            return self._given_up(intent, place, authority, ())
        undone = intent.rollback_commit_id in seen.commits
        settled = undone or intent.commit.id in seen.commits
        tips = {} if settled else self._tips(intent, seen.version)
        match decide(intent, tips, settled=settled, holds=_holds(intent, seen)):
            case Forget():
                # Its writer may have died between publishing and syncing.
                self._publisher.make_durable(intent.branch)
                # A writer that was taken for dead may have published between two restores.
                self.settle_orphans(
                    intent.branch,
                    {item.table_key for item in intent.tables},
                    apart_from=intent.operation_id,
                )
                kind = RecoveryKind.ROLLED_BACK if undone else RecoveryKind.ROLLED_FORWARD
                return self._close(intent, kind)
            case Discard():
                return self._given_up(intent, place, authority, seen.version.tables.values())
            case RollForward(versions):
                self._publish_forward(intent, versions)
                return self._close(intent, RecoveryKind.ROLLED_FORWARD)
            case RollBack(fence, restore):
                if authority is Authority.OWNER or is_certainly_over(
                    intent.owner, local=self._local
                ):
                    fence = ()  # no writer is left that could come late
                if place.has_own_tables:
                    fence = restore = ()  # they are dropped
                if not fence and not restore:
                    return self._given_up(intent, place, authority, seen.version.tables.values())
                moved = [(key, tips[key]) for key in (*fence, *restore)]
                self._roll_back(intent, moved, seen.version)
                return self._close(intent, RecoveryKind.ROLLED_BACK)
            case Stop() as stop:
                return _settlement(intent, Settled.STUCK, stop.reason)

    def _settle_end(self, intent: Intent, seen: TargetState | None) -> Settlement:
        """Settle the announced end of a branch: it has happened, or nothing has."""
        over = seen is None
        return self._close(
            intent, RecoveryKind.ROLLED_FORWARD if over else RecoveryKind.ROLLED_BACK
        )

    def _given_up(
        self, intent: Intent, place: Destination, authority: Authority, pins: Iterable[TablePin]
    ) -> Settlement:
        """The settlement of a write of which nothing moved; our own leaves no record."""
        # The intent goes first: a slow maker of a branch looks for it once it has made the branch.
        if authority is Authority.OTHERS:
            settlement = self._close(intent, RecoveryKind.ROLLED_BACK)
        else:
            self._intents.remove(intent.operation_id)
            settlement = _settlement(intent, Settled.ROLLED_BACK)
        place.clear({*(pin.path for pin in pins), *(item.path for item in intent.tables)})
        return settlement

    def _tips(self, intent: Intent, snapshot: GraphVersion) -> dict[str, Tip]:
        tips: dict[str, Tip] = {}
        for item in intent.tables:
            head = self._head(item)
            # The plan and one commit that takes it back; whatever is beyond cannot be ours.
            known = range(item.expected + 1, min(head, item.planned + 1) + 1)
            uuids = [self._uuid(item, version) for version in known]
            uuids.extend(None for _ in range(item.planned + 2, head + 1))
            pin = snapshot.tables.get(item.table_key)
            published = None
            if pin is not None and (pin.path, pin.table_branch) == (item.path, item.table_branch):
                published = pin.version
            tips[item.table_key] = Tip(head=head, uuids=tuple(uuids), published=published)
        return tips

    def _head(self, item: PlannedTable) -> int:
        try:
            return self._tables.head(item.path, item.table_branch)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND or item.table_branch is None:
                raise
            # The fork was dropped, and with it whatever had landed there.
            return item.expected

    def _uuid(self, item: PlannedTable, version: int) -> str | None:
        """The transaction that made a version; None when it is unknown."""
        try:
            return self._tables.transaction_uuid(
                Pin(path=item.path, version=version, branch=item.table_branch)
            )
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None
            raise

    def _publish_forward(self, intent: Intent, versions: Mapping[str, int]) -> None:
        published = self._publisher.publish(intent.landed(versions))
        if published.commit.id != intent.commit.id:
            text = f"the key of operation {intent.operation_id} was used by another write"
            raise Conflict(Code.CONFLICT, text, commit_id=published.commit.id)
        hit(Fp.RECOVER_PUBLISHED)

    def _roll_back(
        self, intent: Intent, tips: Sequence[tuple[str, Tip]], snapshot: GraphVersion
    ) -> None:
        """Take the next version of these tables and publish them, so that pins and heads agree.

        For a table that has not moved this is its fence, for the others it takes back what landed.
        """
        planned = {item.table_key: item for item in intent.tables}
        records: list[VersionRecord] = []
        for key, tip in tips:
            item = planned[key]
            if not _stands_on_base(snapshot.tables.get(key), item):
                continue  # not what the graph shows: there is nothing to take back
            head = self._restore(item, tip)
            if head is None:
                continue
            records.append(
                VersionRecord(
                    table_key=item.table_key,
                    location=item.path,
                    version=head,
                    table_branch=item.table_branch,
                    row_count=snapshot.pin(item.table_key).row_count,
                )
            )
        commit = CommitRecord(
            id=intent.rollback_commit_id,
            parent_id=None,
            branch=intent.branch,
            actor=RECOVERY_ACTOR,
            created_at=self._clock.now_us(),
            kind="recovery",
            details={"operation_id": intent.operation_id, "recovered": "rolled_back"},
        )
        target = intent.request.target
        restored = (TableAt(item.table_key, planned[item.table_key].expected) for item in records)
        requires = (requirement_of(target), *restored)
        self._publisher.publish(
            CommitRequest(commit=commit, target=target, requires=requires, records=tuple(records))
        )
        hit(Fp.RECOVER_PUBLISHED)

    def _restore(self, item: PlannedTable, tip: Tip) -> int | None:
        """Take one table back, from exactly the head that was judged to be ours.

        None when it stood on a fork that was dropped: nothing can land there any more.
        """
        if tip.uuids and tip.uuids[-1] == item.restore_uuid:
            return tip.head

        def restore() -> int:
            return self._tables.restore(
                item.path,
                item.table_branch,
                to_version=item.expected,
                expected_head=tip.head,
                uuid=item.restore_uuid,
            )

        try:
            head = guarded(Fp.RECOVER_RESTORE, restore)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND or item.table_branch is None:
                raise
            return None
        hit(Fp.RECOVER_RESTORED)
        return head

    def _close(self, intent: Intent, kind: RecoveryKind) -> Settlement:
        """Record the recovery, then forget the intent."""
        rolled_back = kind is RecoveryKind.ROLLED_BACK
        by_commit = not self._destinations.of(intent.request.target).has_own_tables
        undone_by = intent.rollback_commit_id if by_commit else None
        done_by: CommitId | None = intent.commit.id
        if intent.ends_branch:
            undone_by = done_by = None  # it makes no commit
        outcomes = {
            item.table_key: {
                "from_version": item.expected,
                "to_version": item.expected if rolled_back else item.planned,
            }
            for item in intent.tables
        }
        self.audit.record(
            AuditRow(
                operation_id=intent.operation_id,
                recovery_kind=kind,
                writer_kind=str(intent.commit.kind),
                graph_branch=intent.branch,
                recovery_for_actor=intent.commit.actor,
                graph_commit_id=undone_by if rolled_back else done_by,
                table_outcomes=json.dumps(outcomes, sort_keys=True),
                created_at=self._clock.now_us(),
            )
        )
        hit(Fp.RECOVER_AUDITED)
        guarded(Fp.RECOVER_FORGET, lambda: self._intents.remove(intent.operation_id))
        return _settlement(intent, Settled.ROLLED_BACK if rolled_back else Settled.ROLLED_FORWARD)


def _stands_on_base(pin: TablePin | None, item: PlannedTable) -> bool:
    """True if the graph still shows the table as the write found it, on any fork."""
    return pin is not None and (pin.path, pin.version) == (item.path, item.expected)


def _holds(intent: Intent, seen: TargetState) -> bool:
    """True if the rest of the graph allows that the write is published now."""
    key = intent.commit.idempotency_key
    if key is not None and seen.commits.find_key(key) is not None:
        return False  # taken by another commit: ours is not visible
    try:
        check(intent.request.requires, seen)
    except GraphError:
        return False
    return True


def unsettled(settlement: Settlement) -> RecoveryRequired:
    """The error of a write that is blocked by an intent."""
    text = f"operation {settlement.operation_id} is unsettled: {settlement.note}. "
    if settlement.settled is Settled.STUCK:
        text += (
            "Something else has moved these tables, so nothing was touched. Compare them with "
            f"{intent_path(settlement.operation_id)}; once they are as they should be, remove that "
            "file and run `omnigraph recover`"
        )
    else:
        text += "Try again, or run `omnigraph recover`"
    return RecoveryRequired(
        Code.RECOVERY_REQUIRED, text, operation_id=settlement.operation_id, effect="none"
    )


def _settlement(intent: Intent, settled: Settled, note: str = "") -> Settlement:
    return Settlement(
        operation_id=intent.operation_id,
        commit_id=intent.commit.id,
        settled=settled,
        branch=intent.branch,
        writer=str(intent.commit.kind),
        tables=tuple(sorted(item.table_key for item in intent.tables)),
        note=note,
    )
