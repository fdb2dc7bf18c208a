"""Nodes and edges of one snapshot as DataFrames that are joined by numbers.

The number of an entity is the stable row id that Lance gave its row: a long that is unique within
its type. What it cannot tell is where an edge leads, since edges store the ids of their ends. So
the ends of an edge type are looked up by a join once per pinned state and kept with the session.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.session import HeldSession
from omnigraph.dataplane.spark.shipping import ship
from omnigraph.dataplane.spark.table_scan import (
    Frame,
    Make,
    Renamed,
    TableScan,
    pieces_of,
    renamed_schema,
    scan_frame,
)
from omnigraph.lang.catalog.model import Catalog
from omnigraph.store.tables import Pin

NUMBER: Final = "_id"
SOURCE: Final = "_src"
TARGET: Final = "_dst"
_Key: TypeAlias = tuple[object, ...]
T = TypeVar("T")
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class DenseFrames:
    """Makes the frames of one snapshot in one session. The session must be held while it is used.

    Frames of nodes have the column `_id`, those of edges `_id`, `_src` and `_dst`, all of them
    longs; then the columns that are asked for, under the names that the caller gives. Spark does
    not tell upper from lower case in names, so the names of a schema are not always good ones.
    """

    def __init__(
        self, held: HeldSession, repo: Repository, snapshot: GraphVersion, catalog: Catalog
    ) -> None:
        """Read this snapshot, whose schema is `catalog`."""
        self.session = held.session
        self.repo = repo
        self.snapshot = snapshot
        self.catalog = catalog
        if held.ships:
            ship(held.session, held.cache)

    def nodes(
        self, type_name: str, columns: Mapping[str, str] = _NONE, where: str | None = None
    ) -> Frame:
        """The nodes of a type.

        Args:
            type_name: The type.
            columns: Names in the frame and the stored columns that they show, `id` among them.
            where: Only the rows for which this condition, in the SQL of Lance, is true.
        """
        return self.rows(f"node:{type_name}", columns, where)

    def edges(
        self, type_name: str, columns: Mapping[str, str] = _NONE, where: str | None = None
    ) -> Frame:
        """The edges of a type; arguments as for `nodes`."""
        ends = self.edge_ends(type_name)
        if not columns and where is None:
            return ends
        rows = self.rows(f"edge:{type_name}", columns, where)
        return ends.join(rows, [NUMBER])

    def rows(
        self, table_key: str, columns: Mapping[str, str] = _NONE, where: str | None = None
    ) -> Frame:
        """The rows of a table: their numbers and some columns."""
        pairs = tuple(columns.items())
        names = tuple(name for name, _ in pairs)
        stored = tuple(column for _, column in pairs)
        made = self.schema(table_key, pairs)
        return self.made(table_key, stored, Renamed(NUMBER, stored, names), made, where)

    def schema(self, table_key: str, columns: Sequence[tuple[str, str]]) -> pa.Schema:
        """The numbers of a table and some of its columns, under names of the frame."""
        stored = self.repo.table(self.snapshot.pin(table_key)).schema
        return renamed_schema(NUMBER, stored, columns)

    def made(
        self,
        table_key: str,
        columns: tuple[str, ...],
        make: Make,
        schema: pa.Schema,
        where: str | None = None,
    ) -> Frame:
        """A frame that a function makes of the rows of a table, on the workers; see `TableScan`."""
        pin = self.snapshot.pin(table_key)
        table = self.repo.table(pin)
        scan = TableScan(
            root=self.repo.root,
            pin=pin.store_pin,
            columns=columns,
            make=make,
            schema=schema,
            where=where,
            pieces=pieces_of(table) if table.row_count else (),
        )
        return scan_frame(self.session, table, scan)

    def edge_ends(self, type_name: str) -> Frame:
        """The numbers of all edges of a type and of their ends; computed once and kept."""
        edge = self.catalog.edge_by_name[type_name]
        keys = (f"edge:{type_name}", f"node:{edge.source}", f"node:{edge.target}")
        return self.kept("edge_ends", keys, lambda: self._joined(*keys).persist())

    def kept(self, name: object, table_keys: Sequence[str], make: Callable[[], T]) -> T:
        """A persisted frame that is made once per state of some tables and kept with the session.

        Args:
            name: Its own name among the frames that are made of the same tables.
            table_keys: The tables that it is made of.
            make: Makes it, if it is not there yet: a persisted frame, or something with its method
                `unpersist`.
        """
        key = (name, self.repo.root.uri, *map(self._state, table_keys))
        found: T = _kept_for(self.session).get(key, make)
        return found

    def _state(self, table_key: str) -> tuple[Pin, str | None]:
        """A key that differs for any two states of tables, also for forks of one name."""
        pin = self.snapshot.pin(table_key).store_pin
        return pin, self.repo.tables.transaction_uuid(pin)

    def _joined(self, edge: str, source: str, target: str) -> Frame:
        edges = self.rows(edge, {"src_id": "src", "dst_id": "dst"})
        sources = self.rows(source, {"src_id": "id"}).withColumnRenamed(NUMBER, SOURCE)
        targets = self.rows(target, {"dst_id": "id"}).withColumnRenamed(NUMBER, TARGET)
        ends = edges.join(sources, ["src_id"]).join(targets, ["dst_id"])
        return ends.select(NUMBER, SOURCE, TARGET)


class _FrameCache:
    """The frames that one session keeps; the least recently used makes room."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: OrderedDict[_Key, Any] = OrderedDict()

    def get(self, key: _Key, make: Callable[[], Any]) -> Any:
        with self._lock:
            known = self._frames.get(key)
        # Making one may run jobs, so no other call waits for it.
        made = make() if known is None else None
        with self._lock:
            known = self._frames.setdefault(key, made) if made is not None else known
            self._frames[key] = known
            self._frames.move_to_end(key)
            over = [
                self._frames.popitem(last=False)[1]
                for _ in range(len(self._frames) - tuning.active.kept_frames_max)
            ]
        if made is not None and made is not known:
            over.append(made)
        for each in over:
            # A query that still uses it makes it anew.
            with suppress(Exception):
                each.unpersist()
        return known


_lock: Final = threading.Lock()
_sessions: Final[weakref.WeakKeyDictionary[Any, _FrameCache]] = weakref.WeakKeyDictionary()


def _kept_for(session: Any) -> _FrameCache:
    with _lock:
        found = _sessions.get(session)
        if found is None:
            found = _sessions[session] = _FrameCache()
        return found
