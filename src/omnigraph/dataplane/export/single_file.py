"""Writes everything to one file or stream, in this process.

Its bytes come one after another, so one process writes them, whatever the engine. Threads spell
the next batches meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Final, TypeVar

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.dataplane.export.files import encoder, write_columns
from omnigraph.dataplane.export.plan import ExportPlan
from omnigraph.dataplane.export.rows import read_rows
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.source.model import Format
from omnigraph.lang.catalog.model import EntityType
from omnigraph.store.io.streams import Output

Item = TypeVar("Item")
Result = TypeVar("Result")

_THREADS_MAX: Final = 8  # more would wait for the one that writes
_BATCHES_AHEAD: Final = 2  # batches per thread that wait, done or not, for those before them
_Batches = Iterator[tuple[EntityType, pa.RecordBatch]]


class SingleFile:
    """Writes the types of a plan, one after another, to one output."""

    def __init__(
        self, repo: Repository, snapshot: GraphVersion, plan: ExportPlan, monitor: Monitor
    ) -> None:
        """Read this state, and report to this monitor."""
        self._repo = repo
        self._snapshot = snapshot
        self._plan = plan
        self._monitor = monitor
        self._written = 0
        self.rows = {table_key(item.kind, item.name): 0 for item in plan.entities}

    def write(self, output: Output, threads: int) -> None:
        """Write everything, and count the rows."""
        if self._plan.format is Format.NDJSON:
            self._write_lines(output, threads)
            return
        (entity,) = self._plan.entities
        write_columns(
            output,
            (batch for _, batch in self._batches()),
            entity,
            self._plan.format,
            self._plan.compression,
            lambda rows: self._count(entity, rows, output),
        )
        self._count(entity, 0, output)

    def _write_lines(self, output: Output, threads: int) -> None:
        plan = self._plan
        encoders = {id(item): encoder(item, plan.compression) for item in plan.entities}

        def encode(item: tuple[EntityType, pa.RecordBatch]) -> tuple[EntityType, int, memoryview]:
            entity, batch = item
            return entity, batch.num_rows, encoders[id(entity)](batch)

        for entity, rows, piece in in_order(encode, self._batches(), min(threads, _THREADS_MAX)):
            output.write(piece)
            self._count(entity, rows, output)

    def _batches(self) -> _Batches:
        for entity in self._plan.entities:
            pin = self._snapshot.pin(table_key(entity.kind, entity.name))
            if not pin.row_count:
                continue
            for batch in read_rows(self._repo.table(pin), entity):
                yield entity, batch

    def _count(self, entity: EntityType, rows: int, output: Output) -> None:
        self._monitor.check()
        written = output.tell()
        self.rows[table_key(entity.kind, entity.name)] += rows
        self._monitor.add(rows=rows, bytes=written - self._written)
        self._written = written


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Do some work for each item on a few threads; yield the results in the order of the items.

    Items are taken as they are needed, a bounded number ahead.
    """
    if threads <= 1:
        yield from map(work, items)
        return
    waiting = iter(items)
    running: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads, "omnigraph-export") as pool:
        try:
            running.extend(
                pool.submit(work, item) for item in islice(waiting, threads * _BATCHES_AHEAD)
            )
            while running:
                result = running.popleft().result()
                running.extend(pool.submit(work, item) for item in islice(waiting, 1))
                yield result
        finally:
            for future in running:
                future.cancel()
