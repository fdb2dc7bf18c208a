"""Writing rows into fragments, while the task that makes them goes on."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Self

import pyarrow as pa

from omnigraph.dataplane.load.plan import LoadPlan
from omnigraph.store.maintenance.orphan_files import data_paths
from omnigraph.store.table import ROW_ID
from omnigraph.store.tables import FragmentReceipt

# What all types of a task may hold back together, as a multiple of what is written at once.
_HELD_FACTOR: Final = 2


@dataclass(slots=True)
class _Pile:
    """Rows of one type that wait to be written."""

    tables: list[pa.Table] = field(default_factory=list)
    bytes: int = 0


class Writer:
    """Gathers rows by type and writes them when there are enough. Not thread-safe.

    A full pile is written on a second thread; when the next one is full, the first must be done.
    What is left at the end is written by the caller's own thread: small loads never start another.
    """

    def __init__(self, plan: LoadPlan) -> None:
        """Write into the targets of a plan."""
        self._plan = plan
        self._piles: dict[tuple[str, bool], _Pile] = {}
        self._held = 0
        self._receipts: dict[str, list[FragmentReceipt]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None
        self._is_off = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, key: str, rows: pa.Table) -> None:
        """Take new rows of a type, or, with `_rowid`, new images of known ones."""
        if self._is_off or not rows.num_rows:
            return
        pile = self._piles.setdefault((key, ROW_ID in rows.schema.names), _Pile())
        size = rows.nbytes
        pile.tables.append(rows)
        pile.bytes += size
        self._held += size
        most = self._plan.fragment_bytes
        if pile.bytes >= most or self._held >= most * _HELD_FACTOR:
            full = max(self._piles, key=lambda name: self._piles[name].bytes)
            self._write_behind(full, self._taken(full))

    @property
    def is_off(self) -> bool:
        """True if the load is going to be refused."""
        return self._is_off

    def give_up(self) -> None:
        """Write nothing any more: the load is going to be refused."""
        self._is_off = True
        self._piles.clear()

    def close(self) -> Mapping[str, tuple[FragmentReceipt, ...]]:
        """Write what is left; the receipts of everything, by table key."""
        self._wait()
        for name in sorted(self._piles):
            self._write(name, self._taken(name))
        return {key: tuple(found) for key, found in sorted(self._receipts.items())}

    def _taken(self, name: tuple[str, bool]) -> list[pa.Table]:
        pile = self._piles.pop(name)
        self._held -= pile.bytes
        return pile.tables

    def _write_behind(self, name: tuple[str, bool], tables: list[pa.Table]) -> None:
        self._wait()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "omnigraph-write")
        # What the caller counts and where it can be broken holds here, too.
        context = contextvars.copy_context()
        self._running = self._pool.submit(context.run, self._write, name, tables)

    def _wait(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def _write(self, name: tuple[str, bool], tables: list[pa.Table]) -> None:
        key, updates = name
        table = self._plan.target(key)
        schema = table.schema
        rows = pa.concat_tables(tables)
        if updates:
            # Every version of a table lists the identities of its rows, and runs take little room.
            rows = rows.sort_by(ROW_ID)
        row_ids = rows.column(ROW_ID).to_pylist() if updates else None
        plan = self._plan
        plan.staging.check()
        written = plan.worker_tables.tables.write(
            table, rows.select(schema.names).cast(schema), row_ids=row_ids, by=plan.by
        )
        paths = data_paths(table, written)
        plan.staging.note([path for path in paths if f"/{plan.load_id}-" not in path])
        self._receipts.setdefault(key, []).extend(written)
