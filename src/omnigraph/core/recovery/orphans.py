"""Orphaned versions: table versions beyond the published one that no intent accounts for.

The head of a table is its published version, except while a write is landing, and then an intent
says so. A later version without an intent is a landing that arrived after its write had been given
up. It was never visible, and the table cannot be written to until the head is taken back. That is
done only if its transaction carries an identity of ours: what another tool committed stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from omnigraph.core import tuning
from omnigraph.core.branches.branches import is_own
from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.commits.records import CommitRecord, VersionRecord
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.commits.requirements import TableAt, requirement_of
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.journal.audit import Audit, AuditRow, RecoveryKind
from omnigraph.core.journal.intent import IntentLog, WriterKind
from omnigraph.core.manifest.lost_head import lost_head
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.core.publish.publisher import Publisher
from omnigraph.core.recovery.settlement import RECOVERY_ACTOR, Settled, Settlement
from omnigraph.errors import Conflict, NotFound
from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.ids import Ids
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin, Tables
from omnigraph.types import ULID, BranchName, CommitId

_REALIGN: Final = ".realign"
_OURS: Final = re.compile(rf"(?:{ULID.pattern})(?:\.restore|\{_REALIGN})*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ahead:
    """A table whose head is beyond its pin."""

    pin: TablePin
    head: int
    uuids: tuple[str | None, ...]  # of the versions after the pin, at most a few of them

    @property
    def is_ours(self) -> bool:
        known = self.head - self.pin.version == len(self.uuids)
        return known and all(uuid and _OURS.fullmatch(uuid) for uuid in self.uuids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """Finds the orphaned versions of one graph and takes them back."""

    tables: Tables
    manifest: Manifest
    publisher: Publisher
    intents: IntentLog
    audit: Audit
    clock: Clock
    ids: Ids

    def settle(
        self,
        branch: BranchName,
        table_keys: Collection[str] | None = None,
        *,
        apart_from: str | None = None,
    ) -> tuple[Settlement, ...]:
        """Take the tables of a branch back to what is published, where that is certain.

        Args:
            branch: Whose tables.
            table_keys: Only these; None for all.
            apart_from: An operation whose intent does not count, because the caller settles it.
        """
        try:
            snapshot = self.manifest.snapshot(branch)
        except NotFound:
            return ()  # it is gone, or only being created
        ahead = [
            found
            for key, pin in sorted(snapshot.tables.items())
            if (table_keys is None or key in table_keys) and is_own(pin, snapshot)
            if (found := self._ahead(pin)) is not None
        ]
        if not ahead:
            return ()
        # In this order: a write that is landing has an intent until its pins have moved.
        named = self._named(apart_from)
        pins = self.manifest.snapshot(branch).tables
        ahead = [
            item
            for item in ahead
            if pins.get(item.pin.table_key) == item.pin and named.isdisjoint(item.uuids)
        ]
        if ahead and (lost := lost_head(self.tables, snapshot)) is not None:
            return tuple(_stuck(branch, item, f"{lost.file}: {lost.text}") for item in ahead)
        ours = [item for item in ahead if item.is_ours]
        foreign = [_foreign(branch, item) for item in ahead if not item.is_ours]
        return (*self._take_back(snapshot, ours), *foreign)

    def _ahead(self, pin: TablePin) -> _Ahead | None:
        try:
            head = self.tables.head(pin.path, pin.table_branch, known=pin.version)
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None  # of a branch that was deleted meanwhile
            raise
        if head <= pin.version:
            return None
        last = min(head, pin.version + tuning.active.orphaned_versions_max)
        uuids = tuple(self._uuid(pin, version) for version in range(pin.version + 1, last + 1))
        return _Ahead(pin=pin, head=head, uuids=uuids)

    def _uuid(self, pin: TablePin, version: int) -> str | None:
        at = Pin(path=pin.path, version=version, branch=pin.table_branch)
        try:
            return self.tables.transaction_uuid(at)
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None
            raise

    def _named(self, apart_from: str | None) -> set[str | None]:
        """The transactions that pending intents account for."""
        return {
            uuid
            for intent in self.intents.pending(apart_from=apart_from)
            for item in intent.tables
            for uuid in (*item.uuids, item.restore_uuid)
        }

    def _take_back(self, snapshot: GraphVersion, orphans: list[_Ahead]) -> tuple[Settlement, ...]:
        try:
            restored = [(item.pin, self._restore(item)) for item in orphans]
            return (self._publish(snapshot, orphans, restored),) if restored else ()
        except StorageFailure as failure:
            if failure.kind is not FailureKind.CONFLICT:
                raise
        except Conflict:
            pass
        telemetry.count("recover.lost_race")  # another process takes them back
        return ()

    def _restore(self, item: _Ahead) -> int:
        pin, uuid = item.pin, f"{self.ids.new()}{_REALIGN}"
        return guarded(
            Fp.RECOVER_RESTORE,
            lambda: self.tables.restore(
                pin.path,
                pin.table_branch,
                to_version=pin.version,
                expected_head=item.head,
                uuid=uuid,
            ),
        )

    def _publish(
        self, snapshot: GraphVersion, orphans: list[_Ahead], restored: list[tuple[TablePin, int]]
    ) -> Settlement:
        operation_id, commit_id = self.ids.new(), CommitId(self.ids.new())
        transactions = [uuid for item in orphans for uuid in item.uuids if uuid]
        now = self.clock.now_us()
        commit = CommitRecord(
            id=commit_id,
            parent_id=None,
            branch=snapshot.branch,
            actor=RECOVERY_ACTOR,
            created_at=now,
            kind="recovery",
            details={"recovered": "orphaned_versions", "transactions": transactions},
        )
        pinned = (TableAt(pin.table_key, pin.version) for pin, _ in restored)
        records = tuple(
            VersionRecord(
                table_key=pin.table_key,
                location=pin.path,
                version=version,
                table_branch=pin.table_branch,
                row_count=pin.row_count,
            )
            for pin, version in restored
        )
        requires = (requirement_of(snapshot.target), *pinned)
        self.publisher.publish(
            CommitRequest(commit=commit, target=snapshot.target, requires=requires, records=records)
        )
        outcomes = {
            pin.table_key: {"from_version": item.head, "to_version": pin.version}
            for item, (pin, _) in zip(orphans, restored, strict=True)
        }
        self.audit.record(
            AuditRow(
                operation_id=operation_id,
                recovery_kind=RecoveryKind.ROLLED_BACK,
                writer_kind=WriterKind.REPAIR.value,
                graph_branch=snapshot.branch,
                recovery_for_actor=None,
                graph_commit_id=commit_id,
                table_outcomes=json.dumps(outcomes, sort_keys=True),
                created_at=now,
            )
        )
        note = "a landing arrived after its write had been given up"
        return Settlement(
            operation_id=operation_id,
            commit_id=commit_id,
            settled=Settled.ROLLED_BACK,
            branch=snapshot.branch,
            writer=WriterKind.REPAIR.value,
            tables=tuple(pin.table_key for pin, _ in restored),
            note=note,
        )


def _foreign(branch: BranchName, item: _Ahead) -> Settlement:
    pin = item.pin
    note = (
        f"{pin.table_key} is published at version {pin.version}, and another tool has committed up "
        f"to version {item.head} of {pin.path}; nothing was touched; take that commit back with "
        "the tool that made it"
    )
    return _stuck(branch, item, note)


def _stuck(branch: BranchName, item: _Ahead, note: str) -> Settlement:
    return Settlement(
        operation_id="",
        commit_id=None,
        settled=Settled.STUCK,
        branch=branch,
        writer="",
        tables=(item.pin.table_key,),
        note=note,
    )
