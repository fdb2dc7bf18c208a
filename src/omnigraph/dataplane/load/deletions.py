"""Rows that a load deletes: old copies of updated rows, and edges that an overwrite takes along.

Whichever task finds such rows puts their addresses aside, divided by fragment. A deletion file
names all rows of a fragment that are gone, so one task writes it, for the addresses of all others.
The driver sees receipts, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.dataplane.load.plan import LoadPlan
from omnigraph.dataplane.staging import StagedPart, Staging
from omnigraph.store.maintenance.orphan_files import deletion_paths
from omnigraph.store.reading.row_addresses import FRAGMENT_BITS
from omnigraph.store.table import ROW_ADDRESS, Table
from omnigraph.store.tables import DeletionReceipt, Pin

# How many rows the fragments of one task have: its memory is some ten bytes for each that goes,
# and a list of Python's numbers for those of one fragment at a time.
SHARE_ROWS: Final = 1 << 22
_WAITING_ROWS: Final = 1 << 20

# By table key, the first fragment of each share of a table, ascending.
Shares: TypeAlias = Mapping[str, tuple[int, ...]]
Addresses: TypeAlias = "npt.NDArray[np.uint64]"


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedDeletions:
    """Addresses of deleted rows of one share of a table, in the staging area."""

    key: str
    share: int
    staged_part: StagedPart


def shares_of(table: Table, rows_max: int = SHARE_ROWS) -> tuple[int, ...]:
    """Divide the fragments of a table into shares: those between two numbers are one."""
    starts: list[int] = []
    room = 0
    for fragment, rows in table.fragment_rows():
        if not starts or rows > room:
            starts.append(fragment)
            room = rows_max
        room -= rows
    return tuple(starts)


class DeletionSpill:
    """Stages the addresses of rows that one task deletes, by share. Not thread-safe."""

    def __init__(self, staging: Staging, shares: Shares) -> None:
        """Divide by these shares."""
        self._staging = staging
        self._shares = shares
        self._waiting: dict[str, list[Addresses]] = {}
        self._rows = 0
        self._dead: list[StagedDeletions] = []

    def add(self, key: str, addresses: Addresses) -> None:
        """Take addresses of rows of a type."""
        if not len(addresses):
            return
        self._waiting.setdefault(key, []).append(addresses)
        self._rows += len(addresses)
        if self._rows >= _WAITING_ROWS:
            self._put()

    def close(self) -> tuple[StagedDeletions, ...]:
        """Write what is left; return the places of all."""
        self._put()
        return tuple(self._dead)

    def _put(self) -> None:
        places: list[tuple[str, int]] = []
        contents: list[dict[str, pa.Table]] = []
        for key, parts in self._waiting.items():
            addresses = np.sort(np.concatenate(parts))
            starts = np.array(self._shares[key][1:], np.uint64) << np.uint64(FRAGMENT_BITS)
            for share, part in enumerate(np.split(addresses, np.searchsorted(addresses, starts))):
                if len(part):
                    places.append((key, share))
                    contents.append({ROW_ADDRESS: pa.table({ROW_ADDRESS: part})})
        if contents:
            staged_parts = self._staging.put_all(contents)
            self._dead += (
                StagedDeletions(key=key, share=share, staged_part=staged_part)
                for (key, share), staged_part in zip(places, staged_parts, strict=True)
            )
        self._waiting, self._rows = {}, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionTask:
    """A share of a table whose deletion files are to be written.

    Attributes:
        plan: The load.
        key: The table key.
        pin: The table that the load will change.
        held: Fragments that the commit rewrites; see `Tables.delete`.
        staged_parts: The addresses.
    """

    plan: LoadPlan
    key: str
    pin: Pin
    held: frozenset[int]
    staged_parts: tuple[StagedPart, ...]

    @property
    def rows(self) -> int:
        """The number of rows to delete; one that is named twice counts twice."""
        return sum(sum(staged_part.rows.values()) for staged_part in self.staged_parts)


def write_deletions(task: DeletionTask) -> DeletionReceipt:
    """Write the deletion files of a share. A task of a load."""
    plan = task.plan
    with plan.worker_tables.errors():
        plan.stop.check()
        contents = plan.staging.get_all(task.staged_parts)
        parts = [content[ROW_ADDRESS].column(0).to_numpy() for content in contents]
        table = plan.worker_tables.tables.open(task.pin)
        # An edge that loses both ends is named twice.
        addresses = np.unique(np.concatenate(parts))
        plan.staging.check()
        receipt = plan.worker_tables.tables.delete(table, addresses, held=task.held)
        plan.staging.note(deletion_paths(table, receipt))
        return receipt


def deletion_tasks(
    plan: LoadPlan,
    dead: Sequence[StagedDeletions],
    tables: Mapping[str, Table],
    held: Mapping[str, frozenset[int]],
) -> list[DeletionTask]:
    """One task for each share of a table that has rows which go."""
    found: dict[tuple[str, int], list[StagedPart]] = {}
    for item in dead:
        found.setdefault((item.key, item.share), []).append(item.staged_part)
    return [
        DeletionTask(
            plan=plan,
            key=key,
            pin=tables[key].pin,
            held=held[key],
            staged_parts=tuple(staged_parts),
        )
        for (key, _), staged_parts in sorted(found.items())
    ]
