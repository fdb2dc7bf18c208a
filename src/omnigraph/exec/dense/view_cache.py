"""The dense views of a graph. Snapshots share the columns of tables that they pin alike."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias

from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.core.storage_errors import storage_errors
from omnigraph.errors import Corrupt, Gone, GraphError
from omnigraph.exec import tuning
from omnigraph.exec.dense.adjacency import Adjacency
from omnigraph.exec.dense.cache import StructureCache
from omnigraph.exec.dense.disk_cache import DiskCache
from omnigraph.exec.dense.entity_index import ENTITY_INDEX_FILE
from omnigraph.exec.dense.type_columns import TypeColumns
from omnigraph.exec.dense.view import DenseView
from omnigraph.exec.memory import QUERY_BYTES_MAX
from omnigraph.lang.catalog.model import Catalog, EntityKind, EntityType
from omnigraph.runtime import telemetry
from omnigraph.store.reading.table_delta import TableDelta, table_delta
from omnigraph.store.tables import Pin, Table

_Joint: TypeAlias = tuple[Pin, Pin, Pin]
BYTES_MAX: Final = 4 << 30
_DIGEST_BYTES: Final = 12


class ViewCache:
    """The dense views of one graph. Thread-safe."""

    def __init__(
        self,
        repo: Repository,
        *,
        bytes_max: int = BYTES_MAX,
        query_bytes_max: int = QUERY_BYTES_MAX,
        folder: Path | None = None,
        saved_rows_min: int = tuning.active.saved_rows_min,
    ) -> None:
        """Keep columns and adjacency.

        Args:
            repo: The graph.
            bytes_max: How much is kept in memory.
            query_bytes_max: How much a column, or the values taken of one, may have.
            folder: Where structures of large types are saved for other processes; None: nowhere.
            saved_rows_min: What a large type is.
        """
        self._repo = repo
        self.cache = StructureCache(bytes_max)
        self.disk_cache = None if folder is None else DiskCache(folder)
        self.saved_rows_min = saved_rows_min
        self.query_bytes_max = query_bytes_max
        self._lock = threading.RLock()
        self._last: DenseView | None = None
        # Of a few snapshots, since readers of several branches take turns.
        self._views: OrderedDict[tuple[str, int], DenseView] = OrderedDict()
        # Slots that are not in use and keep nothing are dropped.
        self._types: weakref.WeakValueDictionary[Pin, TypeColumns] = weakref.WeakValueDictionary()
        self._adjacencies: weakref.WeakValueDictionary[_Joint, Adjacency] = (
            weakref.WeakValueDictionary()
        )

    def view(self, snapshot: GraphVersion, catalog: Catalog) -> DenseView:
        """The view of a snapshot; `catalog` is the schema in force there."""
        last = self._last
        if last is not None and last.snapshot is snapshot:
            return last
        key = (snapshot.incarnation, snapshot.manifest_version)
        with self._lock:
            found = self._views.pop(key, None) or self._make(snapshot, catalog)
            self._views[key] = self._last = found
            if len(self._views) > tuning.active.views_max:
                self._views.popitem(last=False)
        return found

    def _make(self, snapshot: GraphVersion, catalog: Catalog) -> DenseView:
        nodes = {item.name: self._pinned(snapshot, item) for item in catalog.nodes}
        edges = {item.name: self._pinned(snapshot, item) for item in catalog.edges}
        adjacencies = {
            item.name: self._adjacency(edges[item.name], nodes[item.source], nodes[item.target])
            for item in catalog.edges
        }
        return DenseView(snapshot, nodes, edges, adjacencies)

    def flush(self) -> None:
        """Wait until everything that is to be saved is on disk."""
        if self.disk_cache is not None:
            self.disk_cache.flush()

    def close(self) -> None:
        """Frees the memory, once everything to be saved is on disk. Views in use stay readable."""
        self.flush()
        with self._lock:
            self._last = None
            self._views.clear()
        self.cache.clear()

    # -- the context of columns and adjacency ------------------------------------------------------

    def table(self, pin: TablePin) -> Table:
        """A pinned table."""
        return self._repo.table(pin)

    def delta(
        self, newer: TypeColumns, older: TypeColumns, columns: list[str], rows_max: int
    ) -> TableDelta | None:
        """The change between two versions; None when it is too large or unknown.

        It is unknown, too, when the older version is not stored any more, or damaged.
        """
        table = self.table(newer.pin)
        try:
            since = self.table(older.pin)
        except (Corrupt, Gone):
            telemetry.count("dense.version_gone")
            return None
        with storage_errors():
            return table_delta(table, since, columns, rows_max=rows_max)

    def cache_key(self, pin: TablePin) -> str | None:
        """A name that no other version of any table has; None if there is none.

        Structures of a version that is not stored any more, or damaged, may still be in memory.
        """
        try:
            uuid = self._repo.written_by(pin)
        except (Corrupt, Gone):
            return None
        return None if uuid is None else f"{self._folder(pin)}/{pin.version}-{uuid}"

    def older_in_memory(self, type_columns: TypeColumns) -> Iterator[TypeColumns]:
        """Columns of older versions of the same history in memory, the newest first."""
        pin = type_columns.pin
        yield from self._in_memory(pin.path, pin.table_branch, range(1, pin.version))
        if pin.table_branch is None:
            return
        with storage_errors():
            fork = self._repo.tables.fork_info(pin.path, pin.table_branch)
        if fork is not None:
            # Lance follows a fork back to the version that it left its parent at, no further.
            at = fork.parent_version
            yield from self._in_memory(pin.path, fork.parent_branch, range(at, at + 1))

    def older_on_disk(self, type_columns: TypeColumns) -> Iterator[TypeColumns]:
        """Columns of older versions of the same history on disk, the newest first."""
        pin = type_columns.pin
        if self.disk_cache is None or pin.row_count < self.saved_rows_min:
            return
        saved = [name.partition("-") for name in self.disk_cache.folders(self._folder(pin))]
        known = [(int(version), uuid) for version, _, uuid in saved if version.isdigit()]
        older = sorted(((v, uuid) for v, uuid in known if v < pin.version), reverse=True)
        for version, _ in older[: tuning.active.saved_versions_tried]:
            found = self._revived(pin, version, type_columns.kind)
            if found is not None and found.is_saved(ENTITY_INDEX_FILE):
                yield found

    def _revived(self, pin: TablePin, version: int, kind: EntityKind) -> TypeColumns | None:
        """The columns of an older version, if that version can still be read."""
        try:
            table = self._repo.table(_at(pin, version, 0))
            return self._type_columns(_at(pin, version, table.row_count), kind)
        except GraphError:
            telemetry.count("dense.version_gone")
            return None

    def _in_memory(self, path: str, branch: str | None, versions: range) -> Iterator[TypeColumns]:
        with self._lock:
            known = list(self._types.values())
        near = [
            each
            for each in known
            if (each.pin.path, each.pin.table_branch) == (path, branch)
            and each.pin.version in versions
            and each.entity_index.peek() is not None
        ]
        yield from sorted(near, key=lambda each: each.pin.version, reverse=True)

    def other_versions(self, adjacency: Adjacency) -> Iterator[Adjacency]:
        """Adjacency of other versions of the same types that is in use or in memory."""
        paths = _paths(adjacency)
        with self._lock:
            known = list(self._adjacencies.values())
        yield from (each for each in known if _paths(each) == paths)

    def saved_versions(self, adjacency: Adjacency) -> Iterator[Adjacency]:
        """Adjacency of older versions that is on disk, mapped."""
        if adjacency.edge.place("") is None:
            return
        ways = [
            [
                older
                for older, _ in type_columns.known_versions()[: tuning.active.saved_versions_tried]
            ]
            for type_columns in (adjacency.edge, adjacency.source, adjacency.target)
        ]
        for edge, source, target in product(*ways):
            found = self._adjacency(edge, source, target)
            if found is not adjacency:
                found.load_saved()
                yield found

    # -- one object per pin ------------------------------------------------------------------------

    def _pinned(self, snapshot: GraphVersion, entity: EntityType) -> TypeColumns:
        pin = snapshot.pin(table_key(entity.kind, entity.name))
        return self._type_columns(pin, entity.kind, entity)

    def _type_columns(
        self, pin: TablePin, kind: EntityKind, entity: EntityType | None = None
    ) -> TypeColumns:
        key = pin.store_pin
        with self._lock:
            found = self._types.get(key)
            if found is None:
                found = self._types[key] = TypeColumns(pin, kind, self)
            if found.properties is None and entity is not None:
                found.properties = {
                    item.name: f"{item.identity}:{arrow_type(item.type)}"
                    for item in entity.properties
                }
        return found

    def _adjacency(self, edge: TypeColumns, source: TypeColumns, target: TypeColumns) -> Adjacency:
        key = _joint(edge, source, target)
        with self._lock:
            found = self._adjacencies.get(key)
            if found is None:
                found = Adjacency(edge, source, target, self.cache, self)
                self._adjacencies[key] = found
        return found

    def _folder(self, pin: TablePin) -> str:
        name = "\n".join([self._repo.root.uri, pin.path, pin.table_branch or ""])
        return blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _at(pin: TablePin, version: int, row_count: int) -> TablePin:
    return TablePin(
        table_key=pin.table_key,
        path=pin.path,
        version=version,
        table_branch=pin.table_branch,
        row_count=row_count,
    )


def _joint(edge: TypeColumns, source: TypeColumns, target: TypeColumns) -> _Joint:
    return edge.pin.store_pin, source.pin.store_pin, target.pin.store_pin


def _paths(adjacency: Adjacency) -> tuple[str, str, str]:
    return adjacency.edge.pin.path, adjacency.source.pin.path, adjacency.target.pin.path
