"""Tasks of a verification: reading files whole, and rows of tables. A task knows no graph."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from omnigraph.core.storage_errors import public
from omnigraph.dataplane.worker_tables import WorkerTables
from omnigraph.store.failures import StorageFailure
from omnigraph.store.model import Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesTask:
    """Files to be read, with their sizes."""

    worker_tables: WorkerTables
    files: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesReceipt:
    """The outcome of reading files: how much was read, and the damage by path."""

    files: int
    bytes: int
    damaged: tuple[tuple[str, str], ...]


def read_files(task: FilesTask) -> FilesReceipt:
    """Read files and compare them with their checksums."""
    tables = task.worker_tables.tables
    damaged: list[tuple[str, str]] = []
    for path, size in task.files:
        reason = tables.inventories.damage(path, size)
        if reason is not None:
            damaged.append((path, reason))
    return FilesReceipt(
        files=len(task.files), bytes=sum(size for _, size in task.files), damaged=tuple(damaged)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsTask:
    """A version of a table whose rows are read: all columns of some fragments."""

    worker_tables: WorkerTables
    pin: Pin
    key: str
    fragments: tuple[int, ...]
    returned: tuple[str, ...]  # the columns that are compared with others


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsReceipt:
    """The rows that could be read, the columns to be compared, and what went wrong."""

    rows: int
    columns: pa.Table | None
    error: str | None = None


def read_rows(task: RowsTask) -> RowsReceipt:
    """Decode every value of some fragments."""
    count, kept = 0, list[pa.Table]()
    try:
        table = task.worker_tables.tables.open(task.pin)
        for batch in table.scan(fragments=task.fragments):
            count += batch.num_rows
            kept.append(pa.table(batch.select(list(task.returned))))
    except StorageFailure as failure:
        return RowsReceipt(rows=count, columns=None, error=str(public(failure)))
    return RowsReceipt(rows=count, columns=pa.concat_tables(kept) if kept else None)
