"""Settling intents: look, ask `decide`, obey.

`settle` takes one intent to its end. `sweep` settles everything whose owner is gone; it runs when a
graph is opened for writing, at `refresh`, and on request. A write settles what stands in its way
before it begins and whatever else it saw when it has ended.

Any number of processes may settle the same intent at once, and none needs a lock for it: they see
the same facts, so they come to the same verdict; the commits they publish have the same ids, so one
of each is published; a table is restored strictly from the head that was judged, so it is restored
once. Whoever loses a race looks again and finds the work done.

A writer that was taken for dead may only have been slow. So a write is never given up without
closing the door: in each of its tables the next version is taken, by a commit that changes nothing,
and a landing that arrives later is refused.

A write that makes its own branch is the exception: whether its name is free may change to and fro,
so it is settled by one at a time. Taking it back touches nothing that anybody could see.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from omnigraph.core import gates
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.graph_version import GraphVersion, Origin, TablePin
from omnigraph.core.layout import intent_path
from omnigraph.core.parts import Parts
from omnigraph.core.publish import Change, check
from omnigraph.core.records import VersionRecord
from omnigraph.core.recovery.audit import Audit, AuditRow, RecoveryKind
from omnigraph.core.recovery.decide import Discard, Forget, RollBack, RollForward, Stop, Tip, decide
from omnigraph.core.recovery.intent import Intent, PlannedTable
from omnigraph.core.recovery.liveness import is_certainly_over
from omnigraph.core.recovery.orphans import Orphans
from omnigraph.core.recovery.settlement import RECOVERY_ACTOR, Settled, Settlement
from omnigraph.core.storage_errors import storage_errors
from omnigraph.errors import (
    Busy,
    Code,
    Conflict,
    Gone,
    GraphError,
    NotFound,
    PreconditionFailed,
    RecoveryRequired,
)
from omnigraph.runtime import telemetry
from omnigraph.runtime.failpoints import hit
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin
from omnigraph.types import BranchName

LOOKS_MAX = 8


class Authority(StrEnum):
    """Who settles an intent."""

    OTHERS = "others"  # settles the write of another process, or what this one lost track of
    OWNER = "owner"  # a writer that was refused: nothing of its own write is under way any more


class Recovery:
    """Settles the intents of one graph."""

    def __init__(self, parts: Parts) -> None:
        """Work on the graph made of these parts."""
        self._root = parts.root
        self._tables = parts.tables
        self._manifest = parts.manifest
        self._births = parts.births
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
                    # Others publish without pause; whoever needs its tables will try again.
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
        if intent.origin is not None:
            return self.settle(intent)
        keys = [item.table_key for item in intent.tables]
        with gates.writing(self._root, intent.branch, keys):
            return self.settle(intent)

    def is_live(self, intent: Intent) -> bool:
        """Can the writer of an intent still be at work?"""
        operation_id = intent.operation_id
        place = intent_path(operation_id)
        return self._liveness.is_alive(intent.owner, operation_id, place, intent.modified_us)

    def is_visible(self, intent: Intent) -> bool:
        """Is the outcome of a write published, so that its intent holds nothing back any more?"""
        try:
            self._manifest.snapshot(intent.branch)
            commits = self._manifest.commits(intent.branch)
        except NotFound:
            return False
        return intent.commit_id in commits or intent.rollback_commit_id in commits

    # -- one intent ------------------------------------------------------------------------------

    def settle(self, intent: Intent, authority: Authority = Authority.OTHERS) -> Settlement:
        """Take the intent of a writer that is not at work to its end."""
        with telemetry.span("recover", operation=intent.operation_id):
            for _ in range(LOOKS_MAX):
                # Whoever finished it has removed it, and must not be recorded as recovered.
                current = self._intents.get(intent.operation_id)
                if current is None:
                    return _settlement(intent, Settled.GONE)
                try:
                    return self._settle(current, authority)
                except StorageFailure as failure:
                    if failure.kind is not FailureKind.CONFLICT:
                        raise
                except (Conflict, NotFound, PreconditionFailed) as refusal:
                    if refusal.code is Code.HEAD_CONTENTION:
                        raise
                telemetry.count("recover.lost_race")
        text = f"operation {intent.operation_id} is being settled by too many at once"
        raise Busy(Code.BUSY, text, operation_id=intent.operation_id)

    def _settle(self, intent: Intent, authority: Authority) -> Settlement:
        """Look once, and obey. A conflict means that the facts have changed under us."""
        if intent.origin is not None:
            return self._settle_birth(intent, intent.origin, authority)
        try:
            snapshot = self._manifest.snapshot(intent.branch)
        except NotFound:
            return self._without_branch(intent)
        if snapshot.incarnation != intent.incarnation:
            return self._without_branch(intent)
        commits = self._manifest.commits(intent.branch)
        undone = intent.rollback_commit_id in commits
        settled = undone or intent.commit_id in commits
        tips = {} if settled else self._tips(intent, snapshot)
        match decide(intent, tips, settled=settled, holds=self._holds(intent, snapshot)):
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
                return self._given_up(intent, authority)
            case RollForward(versions):
                self._publish_forward(intent, versions)
                return self._close(intent, RecoveryKind.ROLLED_FORWARD)
            case RollBack(fence, restore):
                if authority is Authority.OWNER or is_certainly_over(
                    intent.owner, local=self._local
                ):
                    fence = ()  # there is nobody left who could come late
                if not fence and not restore:
                    return self._given_up(intent, authority)
                self._roll_back(intent, [(key, tips[key]) for key in (*fence, *restore)], snapshot)
                return self._close(intent, RecoveryKind.ROLLED_BACK)
            case Stop() as stop:
                return _settlement(intent, Settled.STUCK, stop.reason)

    def _given_up(self, intent: Intent, authority: Authority) -> Settlement:
        """Nothing moved and nothing will; for the writer itself that is not worth a record."""
        if authority is Authority.OTHERS:
            return self._close(intent, RecoveryKind.ROLLED_BACK)
        self._intents.remove(intent.operation_id)
        return _settlement(intent, Settled.ROLLED_BACK)

    def _without_branch(self, intent: Intent) -> Settlement:
        """Its branch is gone, and with it everything that the write could have changed."""
        return self._close(intent, RecoveryKind.ROLLED_BACK)

    def _settle_birth(self, intent: Intent, origin: Origin, authority: Authority) -> Settlement:
        """Settle a write that makes its own branch: both are there in the end, or neither."""
        if not self._births.is_born(intent.branch, intent.incarnation):
            with self._births.alone():
                # Who was alone before us may have settled it, or just have made the branch.
                if self._intents.get(intent.operation_id) is None:
                    return _settlement(intent, Settled.GONE)
                if not self._births.is_born(intent.branch, intent.incarnation):
                    return self._settle_unborn(intent, origin, authority)
        self._publisher.make_durable(intent.branch)
        return self._close(intent, RecoveryKind.ROLLED_FORWARD)

    def _settle_unborn(self, intent: Intent, origin: Origin, authority: Authority) -> Settlement:
        base = self._base_of_birth(intent, origin)
        verdict = Discard() if base is None else decide(intent, self._tips(intent, base))
        if isinstance(verdict, Stop):
            return _settlement(intent, Settled.STUCK, verdict.reason)
        if isinstance(verdict, RollForward):
            self._publish_forward(intent, verdict.versions)
            return self._close(intent, RecoveryKind.ROLLED_FORWARD)
        # The intent goes first: a slow maker looks for it once it has made the branch.
        outcome = self._given_up(intent, authority)
        if not self._births.is_born(intent.branch, intent.incarnation):
            known = () if base is None else (pin.path for pin in base.tables.values())
            self._births.clear(origin, {*known, *(item.path for item in intent.tables)})
        return outcome

    def _base_of_birth(self, intent: Intent, origin: Origin) -> GraphVersion | None:
        """What a branch starts from; None when it cannot be made any more."""
        try:
            self._births.check_free(intent.branch)
            base = self._births.base(intent.branch, origin)
            check(forward_change(intent), base)
        except (Conflict, NotFound, Gone, PreconditionFailed):
            return None
        return base

    def _holds(self, intent: Intent, snapshot: GraphVersion) -> bool:
        """Could the write be published now, as far as the rest of the graph is concerned?"""
        key = intent.idempotency_key
        if key is not None and self._manifest.find_key(intent.branch, key) is not None:
            return False  # taken by another commit: ours is not visible
        try:
            check(forward_change(intent), snapshot)
        except GraphError:
            return False
        return True

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
        """Whose commit a version is; None when it cannot be told, for instance any more."""
        try:
            return self._tables.transaction_uuid(
                Pin(path=item.path, version=version, branch=item.table_branch)
            )
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None
            raise

    def _publish_forward(self, intent: Intent, versions: Mapping[str, int]) -> None:
        change = forward_change(intent, versions)
        published = self._publisher.publish(change)
        if published.commit.id != intent.commit_id:
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
        expected: dict[str, int] = {}
        for key, tip in tips:
            item = planned[key]
            if not _stands_on_base(snapshot.tables.get(key), item):
                continue  # not what the graph shows: there is nothing to take back
            head = self._restore(item, tip)
            if head is None:
                continue
            expected[item.table_key] = item.expected
            records.append(
                VersionRecord(
                    table_key=item.table_key,
                    location=item.path,
                    version=head,
                    table_branch=item.table_branch,
                    row_count=snapshot.pin(item.table_key).row_count,
                )
            )
        self._publisher.publish(
            Change(
                branch=intent.branch,
                incarnation=intent.incarnation,
                commit_id=intent.rollback_commit_id,
                kind="recovery",
                actor=RECOVERY_ACTOR,
                created_at=self._clock.now_us(),
                expected=expected,
                records=tuple(records),
                details={"operation_id": intent.operation_id, "recovered": "rolled_back"},
            )
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
        undone_by = None if intent.origin is not None else intent.rollback_commit_id
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
                writer_kind=intent.kind.value,
                graph_branch=intent.branch,
                recovery_for_actor=intent.actor,
                graph_commit_id=undone_by if rolled_back else intent.commit_id,
                table_outcomes=json.dumps(outcomes, sort_keys=True),
                created_at=self._clock.now_us(),
            )
        )
        hit(Fp.RECOVER_AUDITED)
        guarded(Fp.RECOVER_FORGET, lambda: self._intents.remove(intent.operation_id))
        return _settlement(intent, Settled.ROLLED_BACK if rolled_back else Settled.ROLLED_FORWARD)


def _stands_on_base(pin: TablePin | None, item: PlannedTable) -> bool:
    """Does the graph still show the table as the write found it, if need be on another fork?"""
    return pin is not None and (pin.path, pin.version) == (item.path, item.expected)


def forward_change(intent: Intent, versions: Mapping[str, int] | None = None) -> Change:
    """The publish that an intent planned: its own commit id, actor and key, its own conditions."""
    landed = versions or {item.table_key: item.planned for item in intent.tables}
    return Change(
        branch=intent.branch,
        incarnation=intent.incarnation,
        commit_id=intent.commit_id,
        kind=intent.kind.value,
        actor=intent.actor,
        created_at=intent.created_at,
        merged_parent_id=intent.merged_parent_id,
        idempotency_key=intent.idempotency_key,
        schema_base=intent.schema_base,
        schema_digest=intent.schema_digest,
        head=intent.head,
        expected={item.table_key: item.expected for item in intent.tables},
        judged=intent.judged,
        records=(
            *(
                VersionRecord(
                    table_key=item.table_key,
                    location=item.path,
                    version=landed[item.table_key],
                    table_branch=item.table_branch,
                    row_count=item.row_count,
                )
                for item in intent.tables
            ),
            *intent.records,
        ),
        details=intent.details,
        origin=intent.origin,
    )


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
        commit_id=intent.commit_id,
        settled=settled,
        branch=intent.branch,
        writer=intent.kind.value,
        tables=tuple(sorted(item.table_key for item in intent.tables)),
        note=note,
    )
