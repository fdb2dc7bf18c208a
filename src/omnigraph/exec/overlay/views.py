"""Queries on a snapshot with uncommitted changes, and views derived from those of the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.exec.access import QueryExecutor, SnapshotReader
from omnigraph.exec.dense.adjacency import Adjacency
from omnigraph.exec.dense.cache import Slot, StructureCache
from omnigraph.exec.dense.csr import Csr
from omnigraph.exec.dense.disk_cache import DiskCache
from omnigraph.exec.dense.endpoints import Endpoints
from omnigraph.exec.dense.incremental import VersionDeltas
from omnigraph.exec.dense.type_columns import TypeColumns
from omnigraph.exec.dense.view import DenseView
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.exec.direct.lookup import LookupBounds, RowLookup
from omnigraph.exec.direct.view import DirectView
from omnigraph.exec.overlay.table import OverlaidLookup, OverlaidTable, TableOverlay
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.store.reading.table_delta import TableDelta
from omnigraph.store.table import ROW_ID


class OverlayViews:
    """Makes the columns and the adjacency of types that have uncommitted changes.

    They take memory of their own, which is free again when the view is dropped.
    """

    def __init__(self, views: ViewCache, overlays: Mapping[str, TableOverlay]) -> None:
        """Lay changes, by table key, over what these views have."""
        self.cache = StructureCache(views.cache.bytes_max)
        self.disk_cache: DiskCache | None = None
        self.saved_rows_min = views.saved_rows_min
        self.query_bytes_max = views.query_bytes_max
        self._views = views
        self._overlays = overlays
        self._types: dict[str, TypeColumns] = {}  # as they are committed, by table key

    def view(self, snapshot: GraphVersion, catalog: Catalog) -> DenseView:
        """The view of a snapshot with the changes."""
        stored = self._views.view(snapshot, catalog)
        nodes = {item.name: self._columns(stored, _ref(item)) for item in catalog.nodes}
        edges = {item.name: self._columns(stored, _ref(item)) for item in catalog.edges}
        adjacencies: dict[str, Adjacency] = {}
        for item in catalog.edges:
            types = edges[item.name], nodes[item.source], nodes[item.target]
            known = stored.adjacency(_ref(item))
            if types == (known.edge, known.source, known.target):
                adjacencies[item.name] = known
            else:
                adjacencies[item.name] = _OverlaidAdjacency(known, types, self.cache, self)
        return DenseView(snapshot, nodes, edges, adjacencies)

    def _columns(self, stored: DenseView, ref: EntityRef) -> TypeColumns:
        known = stored.type_columns(ref)
        overlay = self._overlays.get(ref.table_key)
        if overlay is None:
            return known
        self._types[ref.table_key] = known
        pin = TablePin(
            table_key=known.pin.table_key,
            path=known.pin.path,
            version=known.pin.version,
            table_branch=known.pin.table_branch,
            row_count=overlay.row_count,
        )
        return TypeColumns(pin, known.kind, self, known.properties)

    # -- the context of columns and adjacency ------------------------------------------------------

    def table(self, pin: TablePin) -> OverlaidTable:
        """A pinned table with the changes."""
        return OverlaidTable(self._views.table(pin), self._overlays[pin.table_key])

    def cache_key(self, pin: TablePin) -> str | None:
        """None: nothing of it is saved."""
        return None

    def older_in_memory(self, type_columns: TypeColumns) -> Iterable[TypeColumns]:
        """The columns of the snapshot."""
        return (self._types[type_columns.pin.table_key],)

    def older_on_disk(self, type_columns: TypeColumns) -> Iterable[TypeColumns]:
        """None are needed."""
        return ()

    def delta(
        self, newer: TypeColumns, older: TypeColumns, columns: list[str], rows_max: int
    ) -> TableDelta | None:
        """The changes; None when they are too many to derive anything."""
        overlay = self._overlays[newer.pin.table_key]
        if overlay.count > rows_max:
            return None
        rows = pa.array(overlay.image_rows).cast(pa.uint64())
        written = overlay.images.select(columns).append_column(ROW_ID, rows)
        return TableDelta(written, overlay.removed_rows)

    def other_versions(self, adjacency: Adjacency) -> Iterable[Adjacency]:
        """Adjacency of the same types that is in use or in memory."""
        return self._views.other_versions(adjacency)

    def saved_versions(self, adjacency: Adjacency) -> Iterable[Adjacency]:
        """None are needed."""
        return ()


def _ref(entity: EntityType) -> EntityRef:
    return EntityRef(entity.kind, entity.name, entity.id)


class _OverlaidAdjacency(Adjacency):
    """Adjacency with uncommitted changes: derived from that of the snapshot, which is loaded."""

    def __init__(
        self,
        stored: Adjacency,
        types: tuple[TypeColumns, TypeColumns, TypeColumns],
        cache: StructureCache,
        context: OverlayViews,
    ) -> None:
        super().__init__(*types, cache, context)
        self._stored = stored

    def _nearest_version(
        self, slot_of: Callable[[Adjacency], Slot[Endpoints] | Slot[Csr]]
    ) -> tuple[Adjacency, VersionDeltas] | None:
        self._stored.ends.get()
        slot_of(self._stored).get()
        return super()._nearest_version(slot_of)


class OverlayReader(SnapshotReader):
    """Runs programs on one snapshot with uncommitted changes laid over it."""

    def __init__(
        self,
        executor: QueryExecutor,
        pinned: GraphVersion,
        catalog: Catalog,
        overlays: Mapping[str, TableOverlay],
        now_ms: int,
    ) -> None:
        """Read this pinned state with these changes, by table key, at this moment."""
        super().__init__(executor, pinned, catalog)
        self._overlays = overlays
        self._moment_ms = now_ms

    def _now_ms(self) -> int:
        return self._moment_ms

    @cached_property
    def _view(self) -> DenseView:
        return OverlayViews(self._executor.views, self._overlays).view(self._pinned, self._catalog)

    def _dense(self) -> DenseView:
        return self._view if self._overlays else super()._dense()

    def _direct(self, wanted: Mapping[str, Sequence[str]], bounds: LookupBounds) -> DirectView:
        executor = self._executor
        return DirectView(executor.repo, self._pinned, self._catalog, wanted, bounds, self._over)

    def _over(self, table_key: str, stored: RowLookup) -> RowLookup:
        overlay = self._overlays.get(table_key)
        return stored if overlay is None else OverlaidLookup(stored, overlay)
