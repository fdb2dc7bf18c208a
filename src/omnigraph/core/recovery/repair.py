"""Repair: settles drift that recovery leaves alone, because another tool has made it.

A table is adrift when its newest version is beyond the published one and no write of ours accounts
for it. Recovery takes back what carries an identity of ours. What another tool committed is judged
here, by its transactions alone: rewriting fragments and building indexes change no row, so such a
version can be published as it is. Anything else is refused, unless the caller says that it should
be taken as it is. While a write is under way, or waits for recovery, nothing is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from omnigraph.core import tuning
from omnigraph.core.branches.branches import is_own
from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.commits.records import CommitRecord, VersionRecord
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.commits.requirements import TableAt, requirement_of
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.manifest.lost_head import lost_head
from omnigraph.errors import Code, RecoveryRequired
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin
from omnigraph.types import BranchName, CommitId

if TYPE_CHECKING:
    from omnigraph.core.repository import Repository

# The operations that change no row, as Lance names them.
_MAINTENANCE: Final = frozenset({"Rewrite", "CreateIndex", "ReserveFragments"})


class DriftVerdict(StrEnum):
    """The judgement on a table that is adrift."""

    MAINTENANCE = "maintenance"
    SUSPICIOUS = "suspicious"
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A table that is further than what is published, and what the versions between did."""

    branch: BranchName
    pin: TablePin
    head: int
    operations: tuple[str | None, ...]  # one for each version after the published one
    rows: int | None  # of the newest version; None if it cannot be read
    has_same_columns: bool

    @property
    def verdict(self) -> DriftVerdict:
        """The verdict, from the evidence only."""
        known = len(self.operations) == self.head - self.pin.version
        if not known or self.rows is None or None in self.operations:
            return DriftVerdict.UNVERIFIABLE
        same = self.rows == self.pin.row_count and self.has_same_columns
        if same and _MAINTENANCE.issuperset(name or "" for name in self.operations):
            return DriftVerdict.MAINTENANCE
        return DriftVerdict.SUSPICIOUS


class Repairer:
    """Finds the drift of one graph and settles it."""

    def __init__(self, repo: Repository) -> None:
        """Work on this graph."""
        self._repo = repo

    def find(self) -> list[Drift]:
        """Look at every table of every branch.

        Raises:
            RecoveryRequired: A write is under way, or waits for recovery.
        """
        pending = self._repo.intents.pending()
        if pending:
            text = (
                f"operation {pending[0].operation_id} is not settled yet, so nothing can be told "
                "about the tables: run `omnigraph recover`, and then repair"
            )
            raise RecoveryRequired(
                Code.RECOVERY_REQUIRED,
                text,
                operation_id=pending[0].operation_id,
                effect="none",
            )
        return [drift for head in self._repo.manifest.heads() for drift in self._of_branch(head)]

    def settle(
        self, drifts: Sequence[Drift], *, force: bool, actor: str | None
    ) -> dict[BranchName, CommitId]:
        """Publish the newest versions of tables whose drift is harmless; with force, of all.

        Returns:
            The commit of each branch that got one.
        """
        chosen = [
            drift
            for drift in drifts
            if drift.verdict is DriftVerdict.MAINTENANCE or (force and drift.rows is not None)
        ]
        made: dict[BranchName, CommitId] = {}
        for branch in sorted({drift.branch for drift in chosen}):
            mine = [drift for drift in chosen if drift.branch == branch]
            made[branch] = self._publish(branch, mine, actor)
        return made

    def _of_branch(self, snapshot: GraphVersion) -> Iterator[Drift]:
        tables = self._repo.tables
        if lost_head(tables, snapshot) is not None:
            return  # its tables are right; verification shows what is to be restored
        for pin in snapshot.tables.values():
            if not is_own(pin, snapshot):
                continue
            try:
                head = tables.head(pin.path, pin.table_branch)
            except StorageFailure as failure:
                if failure.kind is FailureKind.NOT_FOUND:
                    continue  # of a branch that was deleted meanwhile
                raise
            if head > pin.version:
                yield self._drift(snapshot, pin, head)

    def _drift(self, snapshot: GraphVersion, pin: TablePin, head: int) -> Drift:
        last = min(head, pin.version + tuning.active.drift_versions_max)
        versions = range(pin.version + 1, last + 1)
        rows, same = self._look(pin, head)
        return Drift(
            branch=snapshot.branch,
            pin=pin,
            head=head,
            operations=tuple(self._operation(pin, version) for version in versions),
            rows=rows,
            has_same_columns=same,
        )

    def _look(self, pin: TablePin, head: int) -> tuple[int | None, bool]:
        tables = self._repo.tables
        try:
            newest = tables.open(Pin(pin.path, head, pin.table_branch))
            base = tables.open(pin.store_pin)
            return newest.row_count, newest.schema.equals(base.schema)
        except StorageFailure as failure:
            if failure.kind in (FailureKind.CORRUPT, FailureKind.NOT_FOUND):
                return None, False
            raise

    def _operation(self, pin: TablePin, version: int) -> str | None:
        try:
            return self._repo.tables.operation(Pin(pin.path, version, pin.table_branch))
        except StorageFailure as failure:
            if failure.kind in (FailureKind.CORRUPT, FailureKind.NOT_FOUND):
                return None
            raise

    def _publish(self, branch: BranchName, drifts: Sequence[Drift], actor: str | None) -> CommitId:
        """Make the newest versions visible, if nothing has moved since they were judged."""
        repo = self._repo
        snapshot = repo.snapshot(branch)
        records = tuple(
            VersionRecord(
                table_key=drift.pin.table_key,
                location=drift.pin.path,
                version=drift.head,
                table_branch=drift.pin.table_branch,
                row_count=drift.rows or 0,
            )
            for drift in drifts
        )
        commit = CommitRecord(
            id=CommitId(repo.ids.new()),
            parent_id=None,
            branch=branch,
            actor=actor,
            created_at=repo.clock.now_us(),
            kind=WriterKind.REPAIR,
            details={
                "repaired": {drift.pin.table_key: drift.verdict.value for drift in drifts},
            },
        )
        pinned = (TableAt(drift.pin.table_key, drift.pin.version) for drift in drifts)
        requires = (requirement_of(snapshot.target), *pinned)
        request = CommitRequest(
            commit=commit, target=snapshot.target, requires=requires, records=records
        )
        return repo.publisher.publish(request).commit.id
