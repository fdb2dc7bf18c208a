"""Committed rows, as far as they can matter for some keys of the input.

Few keys are looked up; for many a column is read through, and hashing what is looked for is shared
by many rows at a time. When keys are divided into partitions, a stage of its own reads each table
once and sends its rows to where they matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane import tuning
from omnigraph.dataplane.load.exchange import Emitter, Partition, stored_channel
from omnigraph.dataplane.load.plan import LoadPlan
from omnigraph.dataplane.load.receipt import ScanReceipt
from omnigraph.rules.report import gathered
from omnigraph.store.table import LIST_KEYS_MAX, ROW_ADDRESS, ROW_ID, Table, in_list
from omnigraph.store.tables import Pin

Codes: TypeAlias = "npt.NDArray[np.signedinteger]"

_BATCH_ROWS: Final = 1 << 16
_PLACES: Final = (ROW_ID, ROW_ADDRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTable:
    """A committed table: where it is, and how many rows it has."""

    pin: Pin
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBase:
    """The committed tables that a load is judged against. Picklable.

    Attributes:
        tables: The committed tables, by table key.
        replaced: The types that the load replaces as a whole: their rows do not count any more.
    """

    tables: Mapping[str, StoredTable]
    replaced: frozenset[str] = frozenset()


class Committed:
    """The committed rows that may have to do with the keys of one partition."""

    def __init__(self, plan: LoadPlan, base: LoadBase, partition: Partition | None) -> None:
        """Read from a partition of the exchange, or from the tables themselves."""
        self._plan = plan
        self._base = base
        self._partition = partition

    def rows(self, key: str) -> int:
        """The number of rows of a type, replaced or not."""
        found = self._base.tables.get(key)
        return 0 if found is None else found.rows

    def is_replaced(self, key: str) -> bool:
        """True if the load replaces the type."""
        return key in self._base.replaced

    def among(
        self, key: str, columns: Sequence[str], values: pa.Array | None = None
    ) -> Iterator[pa.Table]:
        """Rows of a type that have one of the values in the first column, or more rows.

        Args:
            key: The table key.
            columns: The columns; the places of rows (`_rowid`, `_rowaddr`) can be among them.
            values: What matters; None for everything.
        """
        if not self.rows(key) or (values is not None and not len(values)):
            return iter(())
        if self._partition is not None:
            return iter(self._partition.tables(stored_channel(key, columns)))
        table = self._plan.worker_tables.tables.open(self._base.tables[key].pin)
        return _read(table, columns, values)

    def codes(self, key: str, column: str, values: pa.Array) -> Iterator[Codes]:
        """For the rows that have one of some distinct texts in a column: which of them."""
        pieces = (rows.column(0) for rows in self.among(key, [column], values))
        for chunks in gathered(pieces, max(len(values), tuning.active.gathered_rows)):
            arrays = [array for chunk in chunks for array in chunk.chunks]
            at = pc.index_in(pa.chunked_array(arrays), value_set=values, skip_nulls=True)
            yield at.drop_null().to_numpy().astype(np.int64)

    def found(self, key: str, column: str, values: pa.Array) -> npt.NDArray[np.bool_]:
        """The texts among some distinct ones that a row has in a column."""
        mask = np.zeros(len(values), np.bool_)
        for codes in self.codes(key, column, values):
            mask[codes] = True
        return mask


def _read(table: Table, columns: Sequence[str], values: pa.Array | None) -> Iterator[pa.Table]:
    if (
        values is None
        or not pa.types.is_string(values.type)
        or not table.prefers_lists(columns[0], len(values))
    ):
        yield from _scan(table, columns)
        return
    for start in range(0, len(values), LIST_KEYS_MAX):
        keys = values.slice(start, LIST_KEYS_MAX).to_pylist()
        yield from _scan(table, columns, in_list(columns[0], keys))


def _scan(
    table: Table,
    columns: Sequence[str],
    condition: str | None = None,
    fragments: Collection[int] | None = None,
) -> Iterator[pa.Table]:
    reader = table.scan(
        [name for name in columns if name not in _PLACES],
        filter=condition,
        row_id=ROW_ID in columns,
        row_address=ROW_ADDRESS in columns,
        batch_rows=_BATCH_ROWS,
        fragments=fragments,
    )
    for batch in reader:
        yield pa.Table.from_batches([batch]).select(list(columns))


# -- sending committed rows to the partitions ------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRequest:
    """Columns of a committed table that partitions need; the first so many are the key."""

    key: str
    columns: tuple[str, ...]
    keys: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """Some fragments of a committed table to read."""

    plan: LoadPlan
    pin: Pin
    fragments: tuple[int, ...]
    requests: tuple[ColumnRequest, ...]
    rows: int  # in these fragments


def scan_stored(task: ScanTask) -> ScanReceipt:
    """Send committed rows to their partitions. A task of a load."""
    plan = task.plan
    emitter = Emitter(plan.staging, plan.partitions)
    columns = list(dict.fromkeys(name for request in task.requests for name in request.columns))
    with plan.worker_tables.errors():
        table = plan.worker_tables.tables.open(task.pin)
        for rows in _scan(table, columns, fragments=task.fragments):
            plan.stop.check()
            for request in task.requests:
                part = rows.select(list(request.columns))
                for name in request.columns[: request.keys]:
                    if part.column(name).null_count:
                        part = part.filter(part.column(name).is_valid())
                emitter.add(stored_channel(request.key, request.columns), part, request.keys)
        return ScanReceipt(staged_parts=emitter.close())


def scan_tasks(
    plan: LoadPlan, base: LoadBase, requests: Iterable[ColumnRequest], rows_max: int = 1 << 22
) -> list[ScanTask]:
    """Divide the reading of committed tables into tasks."""
    by_key: dict[str, list[ColumnRequest]] = {}
    for request in requests:
        by_key.setdefault(request.key, []).append(request)
    tasks: list[ScanTask] = []
    for key, wanted in sorted(by_key.items()):
        stored = base.tables[key]
        table = plan.worker_tables.tables.open(stored.pin)
        group: list[int] = []
        rows = 0
        for fragment, count in table.fragment_rows():
            if group and rows + count > rows_max:
                tasks.append(_task(plan, stored.pin, group, wanted, rows))
                group, rows = [], 0
            group.append(fragment)
            rows += count
        if group:
            tasks.append(_task(plan, stored.pin, group, wanted, rows))
    return tasks


def _task(
    plan: LoadPlan, pin: Pin, group: Sequence[int], requests: Sequence[ColumnRequest], rows: int
) -> ScanTask:
    return ScanTask(plan=plan, pin=pin, fragments=tuple(group), requests=tuple(requests), rows=rows)
