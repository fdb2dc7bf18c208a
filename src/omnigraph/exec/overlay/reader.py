"""Running queries on a snapshot with uncommitted changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from omnigraph.core.graph_version import GraphVersion
from omnigraph.exec.access import QueryEngine, SnapshotReader
from omnigraph.exec.dense.view import DenseView
from omnigraph.exec.direct.lookup import LookupBounds, RowLookup
from omnigraph.exec.direct.view import DirectView
from omnigraph.exec.overlay.table import OverlaidLookup, TableOverlay
from omnigraph.exec.overlay.views import OverlayViews
from omnigraph.lang.catalog.model import Catalog


class OverlayReader(SnapshotReader):
    """Runs programs on one snapshot with uncommitted changes laid over it."""

    def __init__(
        self,
        engine: QueryEngine,
        pinned: GraphVersion,
        catalog: Catalog,
        overlays: Mapping[str, TableOverlay],
        now_ms: int,
    ) -> None:
        """Read this pinned state with these changes, by table key, at this moment."""
        super().__init__(engine, pinned, catalog)
        self._overlays = overlays
        self._moment_ms = now_ms

    def _now_ms(self) -> int:
        return self._moment_ms

    @cached_property
    def _view(self) -> DenseView:
        return OverlayViews(self._engine.views, self._overlays).view(self._pinned, self._catalog)

    def _dense(self) -> DenseView:
        return self._view if self._overlays else super()._dense()

    def _direct(self, wanted: Mapping[str, Sequence[str]], bounds: LookupBounds) -> DirectView:
        engine = self._engine
        return DirectView(engine.repo, self._pinned, self._catalog, wanted, bounds, self._over)

    def _over(self, table_key: str, stored: RowLookup) -> RowLookup:
        overlay = self._overlays.get(table_key)
        return stored if overlay is None else OverlaidLookup(stored, overlay)
