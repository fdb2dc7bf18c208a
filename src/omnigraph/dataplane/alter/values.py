"""Values of altered tables, written by the tasks of a runner. A task knows a table, no graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

from omnigraph.core.repository import Repository
from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane import tuning
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.worker_tables import WorkerTables
from omnigraph.store.model import Pin
from omnigraph.store.writing.alter import Alteration
from omnigraph.store.writing.altered_values import ValuesReceipt, WrittenColumns

# Opens a runner for an operation on so many bytes, and a monitor of it.
Running: TypeAlias = Callable[[int], AbstractContextManager[tuple[Runner, Monitor]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesTask:
    """Fragments of one table whose rows get values."""

    worker_tables: WorkerTables
    pin: Pin
    fragments: tuple[int, ...]
    written: WrittenColumns
    rows: int  # how many that are, for the progress


def write_values(task: ValuesTask) -> tuple[ValuesReceipt, ...]:
    """Write the values of some fragments."""
    with storage_errors():
        tables = task.worker_tables.tables
        return tables.alterer.write(tables.open(task.pin), task.fragments, task.written)


def values_of(
    repo: Repository, alterations: Mapping[str, Alteration], running: Running
) -> dict[str, list[ValuesReceipt]]:
    """Write the values of several tables at once; return what was written, by table key."""
    receipts: dict[str, list[ValuesReceipt]] = {key: [] for key in alterations}
    size = sum(each.table.data_bytes for each in alterations.values() if each.fragments)
    if size:
        with running(size) as (runner, monitor):
            here = None if runner.is_remote else repo.tables
            workers = WorkerTables(repo.root, durable=repo.tables.is_durable, tables=here)
            work = [
                (key, task) for key, each in alterations.items() for task in _tasks(each, workers)
            ]
            monitor.stage("values", len(work))
            for number, found in runner.run("values", write_values, [task for _, task in work]):
                key, task = work[number]
                receipts[key] += found
                monitor.add(tasks=1, rows=task.rows)
                monitor.check()
    return receipts


def _tasks(alteration: Alteration, workers: WorkerTables) -> Iterator[ValuesTask]:
    if alteration.written is None:
        return
    for fragments, rows in _groups(alteration.fragments.items()):
        yield ValuesTask(
            worker_tables=workers,
            pin=alteration.table.pin,
            fragments=fragments,
            written=alteration.written,
            rows=rows,
        )


def _groups(fragments: Iterable[tuple[int, int]]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Fragments that one task takes, and the number of their rows."""
    some: list[int] = []
    rows = 0
    for number, count in fragments:
        some.append(number)
        rows += count
        if rows >= tuning.active.altered_rows:
            yield tuple(some), rows
            some, rows = [], 0
    if some:
        yield tuple(some), rows
