"""The audit of recoveries and clean-ups: one row for each, also if it was tried several times.

The operation id is the key of the row, so a second attempt to record the same recovery finds the
first and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from omnigraph.core import tuning
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.layout import AUDIT
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin, Tables

_SCHEMA = pa.schema(
    [
        pa.field("operation_id", pa.string(), nullable=False),
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("writer_kind", pa.string(), nullable=False),
        pa.field("graph_branch", pa.string(), nullable=False),
        pa.field("recovery_for_actor", pa.string()),
        pa.field("graph_commit_id", pa.string()),
        pa.field("table_outcomes", pa.string(), nullable=False),
        pa.field("created_at", pa.int64(), nullable=False),
    ]
)


class RecoveryKind(StrEnum):
    """The ways in which an operation is settled."""

    ROLLED_FORWARD = "RolledForward"
    ROLLED_BACK = "RolledBack"
    CLEANED_UP = "CleanedUp"  # no recovery: a clean-up removed versions and files


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One settled operation."""

    operation_id: str
    recovery_kind: RecoveryKind
    writer_kind: str
    graph_branch: str
    recovery_for_actor: str | None
    graph_commit_id: str | None
    table_outcomes: str  # JSON
    created_at: int


class Audit:
    """The audit table of one graph; made when the first row is written."""

    __slots__ = ("_tables",)

    def __init__(self, tables: Tables) -> None:
        """Keep the rows in these tables."""
        self._tables = tables

    def record(self, row: AuditRow) -> None:
        """Write a row, unless the operation has one."""
        for _ in range(tuning.active.audit_attempts_max):
            try:
                guarded(Fp.RECOVER_AUDIT, lambda: self._write(row))
                return
            except StorageFailure as failure:
                if failure.kind not in (FailureKind.CONFLICT, FailureKind.EXISTS):
                    raise
        raise StorageFailure(FailureKind.CONFLICT, verb="audit", place=AUDIT, text="too busy")

    def _write(self, row: AuditRow) -> None:
        """One try, judged and written at one version: a later process finds the row."""
        plain = {name: getattr(row, name) for name in _SCHEMA.names}
        rows = pa.Table.from_pylist([plain], schema=_SCHEMA)
        base = self._newest()
        if base is None:
            self._tables.create(AUDIT, _SCHEMA, primary_key="operation_id", rows=rows)
        elif row.operation_id not in {item.operation_id for item in self._read(base)}:
            self._tables.merge_rows(base, "operation_id", rows)

    def rows(self) -> tuple[AuditRow, ...]:
        """Every row, oldest first."""
        base = self._newest()
        rows = [] if base is None else self._read(base)
        return tuple(sorted(rows, key=lambda row: (row.created_at, row.operation_id)))

    def _newest(self) -> Pin | None:
        try:
            return Pin(path=AUDIT, version=self._tables.head(AUDIT))
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None
            raise

    def _read(self, base: Pin) -> list[AuditRow]:
        found = self._tables.open(base).read(_SCHEMA.names).to_pylist()
        return [
            AuditRow(**{**row, "recovery_kind": RecoveryKind(row["recovery_kind"])})
            for row in found
        ]
