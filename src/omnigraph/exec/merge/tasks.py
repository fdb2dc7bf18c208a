"""Tasks of a large merge: rows are compared, merged and written part by part, by a runner.

What the parts have in common, the keys and the decisions, stays with the process that merges. The
rows are read where a task runs, and never come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.core.repository import Repository
from omnigraph.dataplane.changes.equality import Mask
from omnigraph.dataplane.changes.row_comparison import RowComparison
from omnigraph.dataplane.changes.table_changes import Comparing
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.worker_tables import WorkerTables
from omnigraph.exec import tuning
from omnigraph.exec.merge.merged_rows import MergedRows, Rows, Versions
from omnigraph.exec.merge.resolution_values import Given
from omnigraph.exec.merge.three_way import CellMerge
from omnigraph.runtime import cancellation
from omnigraph.store.model import FragmentReceipt, Pin
from omnigraph.store.reading.aligned_rows import AlignedRows
from omnigraph.store.reading.altered_columns import AlteredColumn
from omnigraph.store.reading.row_addresses import AddressedRows, Addresses
from omnigraph.store.table import Table

# Opens a runner for about so many bytes of input.
Running = Callable[[int], AbstractContextManager[Runner]]


@dataclass(frozen=True, slots=True)
class SideSpec:
    """The rows of one version, wherever a task reads them."""

    pin: Pin
    alteration: tuple[AlteredColumn, ...] | None

    @classmethod
    def of(cls, rows: AddressedRows) -> SideSpec:
        """Name the rows of a version."""
        return cls(rows.table.pin, rows.alteration)

    def open(self, at: WorkerTables) -> AddressedRows:
        """The rows."""
        rows = at.tables.rows(self.pin)
        return rows if self.alteration is None else AlignedRows(rows, self.alteration)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareTask:
    """Pairs of rows to be compared, by their addresses in two versions."""

    at: WorkerTables
    sides: tuple[SideSpec, SideSpec]
    columns: tuple[str, ...]
    blobs: frozenset[str]
    pairs: tuple[Addresses, Addresses]


def compare(task: CompareTask) -> Mask:
    """Tell of each pair of rows whether it differs."""
    with task.at.errors():
        before, after = (side.open(task.at) for side in task.sides)
        return RowComparison(before, after, task.columns, task.blobs).unequal(*task.pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRowsSpec:
    """The rows of the three versions of a type, wherever a task reads them."""

    at: WorkerTables
    base: SideSpec
    ours: SideSpec
    theirs: SideSpec
    columns: tuple[str, ...]
    blobs: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, rows: MergedRows, at: WorkerTables) -> MergedRowsSpec:
        """Name the rows of a merge."""
        versions = rows.versions
        return cls(
            at=at,
            base=SideSpec.of(versions.base),
            ours=SideSpec.of(versions.ours),
            theirs=SideSpec.of(versions.theirs),
            columns=tuple(rows.columns),
            blobs=tuple(rows.blobs),
            groups=tuple(map(tuple, rows.groups)),
        )

    def open(self) -> MergedRows:
        """The rows."""
        base, ours, theirs = (side.open(self.at) for side in (self.base, self.ours, self.theirs))
        return MergedRows(Versions(base, ours, theirs), self.columns, self.blobs, self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellsTask:
    """Entities that both sides have changed."""

    rows: MergedRowsSpec
    keys: pa.Table
    has_base: bool
    by_row: bool


def merge_rows(task: CellsTask) -> CellMerge:
    """Merge entities cell by cell."""
    with task.rows.at.errors():
        rows = task.rows.open()
        return rows.merged(task.keys, has_base=task.has_base, by_row=task.by_row)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesTask:
    """Rows to be written into fragments of the table of our side."""

    rows: MergedRowsSpec
    pin: Pin
    keys: pa.Table
    sources: npt.NDArray[np.int8]
    given: Mapping[int, Given]
    schema: pa.Schema


def write_rows(task: ImagesTask) -> tuple[FragmentReceipt, ...]:
    """Write rows made of the cells of several sides. Nothing refers to them yet."""
    at = task.rows.at
    with at.errors():
        table = at.tables.open(task.pin)
        images = task.rows.open().images(task.keys, task.sources, task.given, task.schema)
        return at.tables.write(table, images.cast(table.schema))


class MergeWork:
    """The tasks of one merge. The runner is opened for the first of them; close it at the end."""

    def __init__(self, repo: Repository, running: Running | None = None) -> None:
        """Merge rows of this graph; on threads of this process unless `running` says otherwise."""
        self._repo = repo
        self._running = running
        self._stack = ExitStack()
        self._runner: Runner | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def start(self, size: int) -> None:
        """Open the runner, for about so many bytes, unless it is open."""
        if self._runner is None:
            opened = None if self._running is None else self._running(size)
            self._runner = (
                InProcessRunner() if opened is None else self._stack.enter_context(opened)
            )

    @cached_property
    def _at(self) -> WorkerTables:
        tables = self._repo.tables
        own = None if self._opened.is_remote else tables
        return WorkerTables(self._repo.root, durable=tables.is_durable, tables=own)

    @property
    def _opened(self) -> Runner:
        assert self._runner is not None, "a large merge starts its runner first"
        return self._runner

    def comparing(self, rows: RowComparison) -> Comparing:
        """The same comparison of two versions, by tasks."""
        sides = (SideSpec.of(rows.before), SideSpec.of(rows.after))
        count = rows_at_once(rows.after)

        def unequal(old: Addresses, new: Addresses) -> Mask:
            # In the order of the older version, so that a task reads few of its blocks.
            order = np.argsort(old)
            chosen = [order[start : start + count] for start in range(0, len(order), count)]
            tasks = [
                CompareTask(
                    at=self._at,
                    sides=sides,
                    columns=tuple(rows.columns),
                    blobs=rows.blobs,
                    pairs=(old[part], new[part]),
                )
                for part in chosen
            ]
            found = np.zeros(len(old), bool)
            for number, result in self._run("compare", compare, tasks):
                found[chosen[number]] = result
            return found

        return unequal

    def merged(
        self, rows: MergedRows, keys: pa.Table, *, has_base: bool, by_row: bool
    ) -> CellMerge:
        """Merge entities cell by cell."""
        spec = MergedRowsSpec.of(rows, self._at)
        count = rows_at_once(rows.versions.theirs)
        tasks = [
            CellsTask(rows=spec, keys=keys.slice(start, count), has_base=has_base, by_row=by_row)
            for start in range(0, keys.num_rows, count)
        ]
        theirs = np.zeros((keys.num_rows, len(rows.columns)), bool)
        conflicts = np.zeros_like(theirs)
        for number, result in self._run("merge", merge_rows, tasks):
            start = number * count
            theirs[start : start + count] = result.theirs
            conflicts[start : start + count] = result.conflicts
        return CellMerge(theirs, conflicts)

    def write(
        self,
        table: Table,
        rows: MergedRows,
        keys: pa.Table,
        sources: npt.NDArray[np.int8],
        given: Mapping[int, Given],
        schema: pa.Schema,
    ) -> list[FragmentReceipt]:
        """Write rows; return the receipts in the order of `keys`."""
        spec = MergedRowsSpec.of(rows, self._at)
        count = rows_at_once(rows.versions.theirs)
        tasks = [
            ImagesTask(
                rows=spec,
                pin=table.pin,
                keys=keys.slice(start, count),
                sources=sources[start : start + count],
                given={
                    row - start: values
                    for row, values in given.items()
                    if start <= row < start + count
                },
                schema=schema,
            )
            for start in range(0, keys.num_rows, count)
        ]
        found = dict(self._run("write", write_rows, tasks))
        return [receipt for number in range(len(tasks)) for receipt in found[number]]

    def _run(self, stage: str, task: Callable[[Any], Any], items: list[Any]) -> Iterator[Any]:
        for found in self._opened.run(stage, task, items):
            cancellation.check()
            yield found


def rows_at_once(rows: AddressedRows) -> int:
    """The number of rows that one task reads or writes."""
    active = tuning.active
    count = rows.table.row_count
    width = max(1, rows.table.data_bytes // max(1, count))
    return max(1, min(active.merge_task_rows, active.merge_task_bytes // width))


def parts_of(places: Rows, rows: AddressedRows) -> Iterator[Rows]:
    """Rows, so many at a time as one task reads."""
    count = rows_at_once(rows)
    for start in range(0, len(places), count):
        cancellation.check()
        yield places[start : start + count]
