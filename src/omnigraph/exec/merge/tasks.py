"""Tasks of a large merge: rows are compared, merged and written part by part, by a runner.

What the parts have in common, the keys and the decisions, stays with the process that merges. The
rows are read where a task runs, and never come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """The rows of one version, for a task in any process."""

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
    """Return, for each pair of rows, whether it differs."""
    with task.at.errors():
        before, after = (side.open(task.at) for side in task.sides)
        return RowComparison(before, after, task.columns, task.blobs).unequal(*task.pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRowsSpec:
    """The rows of the three versions of a type, for a task in any process."""

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


@dataclass(frozen=True, slots=True)
class RowsToWrite:
    """Rows that are made of the cells of several sides.

    Attributes:
        keys: Their ids, and their addresses on each side.
        sources: The side of each cell.
        given: Values that are written instead, by the place of a row.
    """

    keys: pa.Table
    sources: npt.NDArray[np.int8]
    given: Mapping[int, Given]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesTask:
    """Rows to be written into fragments of the table of our side."""

    rows: MergedRowsSpec
    pin: Pin
    written: RowsToWrite
    schema: pa.Schema


def write_rows(task: ImagesTask) -> tuple[FragmentReceipt, ...]:
    """Write rows made of the cells of several sides. Nothing refers to them yet."""
    at = task.rows.at
    with at.errors():
        table = at.tables.open(task.pin)
        part = task.written
        images = task.rows.open().images(part.keys, part.sources, part.given, task.schema)
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

            def task(start: int) -> CompareTask:
                part = order[start : start + count]
                return CompareTask(
                    at=self._at,
                    sides=sides,
                    columns=tuple(rows.columns),
                    blobs=rows.blobs,
                    pairs=(old[part], new[part]),
                )

            found = np.zeros(len(old), bool)
            for start, result in self._run("compare", compare, len(order), count, task):
                found[order[start : start + count]] = result
            return found

        return unequal

    def merged(
        self, rows: MergedRows, keys: pa.Table, chosen: Rows, *, has_base: bool, by_row: bool
    ) -> CellMerge:
        """Merge some entities of `keys` cell by cell."""
        spec = MergedRowsSpec.of(rows, self._at)
        count = rows_at_once(rows.versions.theirs)

        def task(start: int) -> CellsTask:
            part = keys.take(pa.array(chosen[start : start + count]))
            return CellsTask(rows=spec, keys=part, has_base=has_base, by_row=by_row)

        theirs = np.zeros((len(chosen), len(rows.columns)), bool)
        conflicts = np.zeros_like(theirs)
        for start, result in self._run("merge", merge_rows, len(chosen), count, task):
            theirs[start : start + count] = result.theirs
            conflicts[start : start + count] = result.conflicts
        return CellMerge(theirs, conflicts)

    def write(
        self,
        table: Table,
        rows: MergedRows,
        chosen: Rows,
        described: Callable[[Rows], RowsToWrite],
        schema: pa.Schema,
    ) -> list[FragmentReceipt]:
        """Write some rows, described part by part; return the receipts in their order."""
        spec = MergedRowsSpec.of(rows, self._at)
        count = rows_at_once(rows.versions.theirs)

        def task(start: int) -> ImagesTask:
            part = described(chosen[start : start + count])
            return ImagesTask(rows=spec, pin=table.pin, written=part, schema=schema)

        found = dict(self._run("write", write_rows, len(chosen), count, task))
        return [receipt for start in sorted(found) for receipt in found[start]]

    def _run(
        self,
        stage: str,
        task: Callable[[Any], Any],
        rows: int,
        count: int,
        item: Callable[[int], Any],
    ) -> Iterator[tuple[int, Any]]:
        """Run a task for every so many rows; yield where each begins, and its result.

        The rows of a task are described when its turn comes. Other processes get as many
        descriptions at once as fit in memory, since all that is sent together goes to each of them.
        """
        runner = self._opened
        starts = range(0, rows, count)
        at_once = max(1, tuning.active.merge_sent_rows // count)
        waves = [starts]
        if runner.is_remote:
            waves = [starts[n : n + at_once] for n in range(0, len(starts), at_once)]
        for wave in waves:
            items = [item(start) for start in wave] if runner.is_remote else _Parts(wave, item)
            for number, result in runner.run(stage, task, items):
                cancellation.check()
                yield wave[number], result


class _Parts(Sequence[Any]):
    """The items of tasks, each made when it is asked for."""

    def __init__(self, starts: range, item: Callable[[int], Any]) -> None:
        self._starts = starts
        self._item = item

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, number: Any) -> Any:
        return self._item(self._starts[number])


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
