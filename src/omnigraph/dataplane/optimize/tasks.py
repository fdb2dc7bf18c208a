"""The tasks of an optimisation: each knows a table, and no graph."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.worker_tables import WorkerTables
from omnigraph.store.model import IndexWish, Pin, RewriteReceipt, SegmentReceipt


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """Fragments of one table to write together."""

    worker_tables: WorkerTables
    pin: Pin
    fragments: tuple[int, ...]
    target_rows: int
    rows: int  # how many that are, for the progress


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTask:
    """A piece of an index to build; `pin` may be a draft."""

    worker_tables: WorkerTables
    pin: Pin
    wish: IndexWish
    fragments: frozenset[int]
    rows: int  # how many that are, for the progress


def rewrite(task: RewriteTask) -> RewriteReceipt:
    """Write fragments together."""
    with storage_errors():
        tables = task.worker_tables.tables
        return tables.maintenance.rewrite(
            tables.open(task.pin), task.fragments, target_rows=task.target_rows
        )


def build(task: IndexTask) -> SegmentReceipt:
    """Build a piece of an index."""
    with storage_errors():
        return task.worker_tables.tables.maintenance.build(task.pin, task.wish, task.fragments)
