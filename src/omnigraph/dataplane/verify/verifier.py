"""The verifier: metadata here, files and rows by the tasks of a runner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.layout import table_key
from omnigraph.core.maintenance.verify import (
    Aspect,
    Flaw,
    MetadataVerifier,
    looked,
    message_of,
    missing_files,
    place_of,
)
from omnigraph.core.repository import Repository
from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.verify.tasks import (
    FilesTask,
    RowsReceipt,
    RowsTask,
    read_files,
    read_rows,
)
from omnigraph.dataplane.worker_tables import WorkerTables
from omnigraph.errors import GraphError
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.store.failures import StorageFailure
from omnigraph.store.maintenance.inventory import TableInventory
from omnigraph.store.tables import Pin

# What one task reads.
FILES_BYTES: Final = 256 << 20
ROWS_FRAGMENTS: Final = 16
_RESTORE: Final = "restore it from a backup"


class Depth(StrEnum):
    """The depths of a verification; each includes those before it."""

    METADATA = "metadata"
    FILES = "files"
    ROWS = "rows"


@dataclass(slots=True)
class Verified:
    """The outcome of a verification, while it grows."""

    flaws: list[Flaw] = field(default_factory=list)
    branches: int = 0
    commits: int = 0
    tables: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0


class Verifier:
    """Verifies one graph."""

    def __init__(self, repo: Repository) -> None:
        """Look at this graph."""
        self._repo = repo
        self._workers = WorkerTables(repo.root, durable=repo.tables.durable, tables=repo.tables)

    def verify(self, depth: Depth, runner: Runner, monitor: Monitor) -> Verified:
        """Check a graph, and return what is wrong."""
        return looked(
            self._repo, lambda: self._verified(depth, runner, monitor), lambda done: done.flaws
        )

    def _verified(self, depth: Depth, runner: Runner, monitor: Monitor) -> Verified:
        done = Verified()
        monitor.stage("metadata")
        metadata = MetadataVerifier(self._repo)
        with storage_errors():
            done.flaws.extend(metadata.flaws())
        done.branches, done.commits = len(metadata.heads), metadata.commits
        done.tables = len({pin.path for pin in metadata.pins()})
        if depth is not Depth.METADATA:
            self._files(metadata, done, runner, monitor)
        if depth is Depth.ROWS:
            self._rows(metadata, done, runner, monitor)
        return done

    # -- files -------------------------------------------------------------------------------------

    def _files(
        self, metadata: MetadataVerifier, done: Verified, runner: Runner, monitor: Monitor
    ) -> None:
        """Read every file that a stored version refers to, of whatever age."""
        tasks: list[FilesTask] = []
        for path in metadata.paths():
            try:
                found = self._repo.tables.inventories.take(path)
            except (GraphError, StorageFailure) as error:
                flaw = Flaw(aspect=Aspect.FILE, place=place_of(error, path), text=message_of(error))
                done.flaws.append(flaw)
                continue
            done.flaws.extend(missing_files(found))
            tasks.extend(self._tasks(found))
        for pin in metadata.pins():
            done.flaws.extend(self._indexes(pin))
        monitor.stage("files", len(tasks))
        for _, receipt in runner.run("files", read_files, tasks):
            done.files += receipt.files
            done.bytes += receipt.bytes
            monitor.add(tasks=1, bytes=receipt.bytes)
            monitor.check()
            for path, reason in receipt.damaged:
                text = f"it is damaged: {reason}; {_RESTORE}"
                done.flaws.append(Flaw(aspect=Aspect.FILE, place=path, text=text))

    def _tasks(self, found: TableInventory) -> Iterator[FilesTask]:
        used = found.all_referenced()
        files = [item.info for item in found.versions]
        files += [each.info for each in found.files if each.owner in used]
        some: list[tuple[str, int]] = []
        for info in files:
            some.append((info.path, info.size))
            if sum(size for _, size in some) >= FILES_BYTES:
                yield FilesTask(worker_tables=self._workers, files=tuple(some))
                some = []
        if some:
            yield FilesTask(worker_tables=self._workers, files=tuple(some))

    def _indexes(self, pin: TablePin) -> Iterator[Flaw]:
        try:
            damaged = self._repo.tables.open(pin.store_pin).damaged_indexes()
        except StorageFailure:
            return  # the pin has been reported
        for name in sorted(damaged):
            text = f"index {name} of {pin.table_key} is damaged: `graph.ensure_indices()` builds it"
            yield Flaw(aspect=Aspect.INDEX, place=pin.path, text=text, is_harmless=True)

    # -- rows --------------------------------------------------------------------------------------

    def _rows(
        self, metadata: MetadataVerifier, done: Verified, runner: Runner, monitor: Monitor
    ) -> None:
        """Decode every row of every head, and compare keys and the ends of edges."""
        pins = [pin for pin in metadata.pins() if pin.row_count]
        tasks = [task for pin in pins for task in self._row_tasks(pin)]
        monitor.stage("rows", len(tasks))
        read: dict[Pin, list[RowsReceipt]] = {}
        for number, receipt in runner.run("rows", read_rows, tasks):
            read.setdefault(tasks[number].pin, []).append(receipt)
            done.rows += receipt.rows
            monitor.add(tasks=1, rows=receipt.rows)
            monitor.check()
        columns: dict[Pin, pa.Table] = {}
        for pin in pins:
            receipts = read.get(pin.store_pin, [])
            done.flaws.extend(_of_rows(pin, receipts))
            found = [item.columns for item in receipts if item.columns is not None]
            if found and not any(item.error for item in receipts):
                columns[pin.store_pin] = pa.concat_tables(found)
                done.flaws.extend(_of_keys(pin, columns[pin.store_pin]))
        for head in metadata.heads.values():
            done.flaws.extend(self._endpoints(head, columns))

    def _row_tasks(self, pin: TablePin) -> Iterator[RowsTask]:
        at = pin.store_pin
        returned = ("id", "src", "dst") if pin.table_key.startswith("edge:") else ("id",)
        try:
            fragments = self._repo.tables.open(at).fragment_ids()
        except StorageFailure:
            return  # the pin has been reported
        for start in range(0, len(fragments), ROWS_FRAGMENTS):
            yield RowsTask(
                worker_tables=self._workers,
                pin=at,
                key=pin.table_key,
                fragments=tuple(fragments[start : start + ROWS_FRAGMENTS]),
                returned=returned,
            )

    def _endpoints(self, head: GraphVersion, columns: dict[Pin, pa.Table]) -> Iterator[Flaw]:
        try:
            catalog = self._repo.schemas.load(head.schema_digest).catalog
        except (GraphError, StorageFailure):
            return  # the schema has been reported
        for edge in catalog.edges:
            pin = head.tables.get(table_key("edge", edge.name))
            edges = None if pin is None else columns.get(pin.store_pin)
            if pin is not None and edges is not None:
                yield from self._ends(head, edge, pin, edges, columns)

    @staticmethod
    def _ends(
        head: GraphVersion,
        edge: EdgeType,
        pin: TablePin,
        edges: pa.Table,
        columns: dict[Pin, pa.Table],
    ) -> Iterator[Flaw]:
        for column, name in (("src", edge.source), ("dst", edge.target)):
            nodes = head.tables.get(table_key("node", name))
            known = None if nodes is None else columns.get(nodes.store_pin)
            if nodes is not None and nodes.row_count and known is None:
                continue  # its rows could not be read, which has been reported
            ids = (
                pa.array([], pa.string()) if known is None else known.column("id").combine_chunks()
            )
            lost = edges.filter(pc.invert(pc.is_in(edges.column(column), value_set=ids)))
            if lost.num_rows:
                first = lost.column("id")[0].as_py()
                text = (
                    f"{lost.num_rows} edges of {pin.table_key} on branch '{head.branch}' lead to "
                    f"no {name}, the first is {first!r}: {_RESTORE}, or delete them"
                )
                yield Flaw(aspect=Aspect.ENDPOINT, place=pin.path, text=text)


def _of_rows(pin: TablePin, receipts: Iterable[RowsReceipt]) -> Iterator[Flaw]:
    found = list(receipts)
    errors = [item.error for item in found if item.error]
    for error in errors:
        text = f"rows of {pin.table_key} cannot be read: {error}"
        yield Flaw(aspect=Aspect.ROWS, place=pin.path, text=text)
    count = sum(item.rows for item in found)
    if not errors and count != pin.row_count:
        text = f"{count} rows of {pin.table_key} can be read, {pin.row_count} are published"
        yield Flaw(aspect=Aspect.ROW_COUNT, place=pin.path, text=f"{text}: {_RESTORE}")


def _of_keys(pin: TablePin, columns: pa.Table) -> Iterator[Flaw]:
    ids = columns.column("id")
    twice = len(ids) - pc.count_distinct(ids, mode="all").as_py()
    for count, what in ((twice, "an id that another row has"), (ids.null_count, "no id")):
        if count:
            text = f"{count} rows of {pin.table_key} have {what}: {_RESTORE}"
            yield Flaw(aspect=Aspect.KEY, place=pin.path, text=text)
