"""The tasks of an optimisation: each knows a place and a table, and never a graph."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.core.storage_errors import storage_errors
from omnigraph.store.model import IndexWish, Pin, RewriteReceipt, SegmentReceipt
from omnigraph.store.root import Root
from omnigraph.store.tables import Tables, open_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the tables of a graph are, and whether what is written there is synced."""

    root: Root
    durable: bool

    def open(self) -> Tables:
        """Open them."""
        return open_tables(self.root, durable=self.durable)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """Fragments of one table to write together."""

    place: Place
    pin: Pin
    fragments: tuple[int, ...]
    target_rows: int
    rows: int  # how many that are, for the progress


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTask:
    """A piece of an index to build; `pin` may be a draft."""

    place: Place
    pin: Pin
    wish: IndexWish
    fragments: frozenset[int]
    rows: int  # how many that are, for the progress


def rewrite(task: RewriteTask) -> RewriteReceipt:
    """Write fragments together."""
    with storage_errors():
        tables = task.place.open()
        return tables.upkeep.rewrite(
            tables.open(task.pin), task.fragments, target_rows=task.target_rows
        )


def build(task: IndexTask) -> SegmentReceipt:
    """Build a piece of an index."""
    with storage_errors():
        return task.place.open().upkeep.build(task.pin, task.wish, task.fragments)
