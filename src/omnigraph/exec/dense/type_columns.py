"""The entities of one type in one snapshot: their index and the columns that were asked for.

The handle of a node is the rank of its id, so ids in order are handles in order. The handle of an
edge is the rank of its row id: edges that come later get higher handles, and nothing else about an
edge needs sorting.

A structure is derived from that of an older version in memory, if there is one; else mapped from
the disk cache, where an earlier process left it; else read from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.core.commits.graph_version import TablePin
from omnigraph.core.storage_errors import storage_errors
from omnigraph.errors import Code, Corrupt, Internal, LimitExceeded
from omnigraph.exec import tuning
from omnigraph.exec.dense.cache import Slot, StructureCache
from omnigraph.exec.dense.columns import LoadedColumn, StoredRows, read_columns, reordered
from omnigraph.exec.dense.disk_cache import Arrays, DiskCache
from omnigraph.exec.dense.edge_ids import (
    EdgeIds,
    derived_edge_ids,
    edge_id_arrays,
    edge_ids,
    saved_edge_ids,
)
from omnigraph.exec.dense.entity_index import (
    ENTITY_INDEX_FILE,
    ID,
    EntityIndex,
    Order,
    changed_entity_index,
    edge_index,
    entity_index_arrays,
    node_index,
    saved_entity_index,
    storage_order,
)
from omnigraph.exec.dense.id_index import IdIndex
from omnigraph.exec.dense.version_delta import VersionDelta, composed, derived_column, unchanged
from omnigraph.exec.large_text import joined, taken
from omnigraph.exec.view import Counts, Handles
from omnigraph.lang.catalog.model import EntityKind
from omnigraph.runtime import telemetry
from omnigraph.store.reading.table_delta import TableDelta
from omnigraph.store.table import ROW_ID

T = TypeVar("T")

ENTITIES_MAX: Final = 2**31 - 1
# The number of versions back from which a structure is derived.
_OLDER_VERSIONS_MAX: Final = 8
_DIGEST_BYTES: Final = 12


@dataclass(frozen=True, slots=True, eq=False)
class PreviousStructure(Generic[T]):
    """A structure of an older version, and the delta from there to the one that is wanted."""

    value: T
    delta: VersionDelta


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """Saves a structure as named arrays and loads it again. None from `load`: it does not fit."""

    save: Callable[[T], Arrays]
    load: Callable[[Arrays], T | None]


class TypeContext(Protocol):
    """The caches and tables that the columns of a type are loaded with."""

    @property
    def cache(self) -> StructureCache:
        """The cache of structures in memory."""
        ...

    @property
    def disk_cache(self) -> DiskCache | None:
        """The cache of structures on disk."""
        ...

    @property
    def saved_rows_min(self) -> int:
        """Smaller types are not saved: they are read faster than a file is found."""
        ...

    @property
    def query_bytes_max(self) -> int:
        """The most bytes that a column, or the values taken of one, may have."""
        ...

    def table(self, pin: TablePin) -> StoredRows:
        """A pinned table."""
        ...

    def delta(
        self, newer: TypeColumns, older: TypeColumns, columns: list[str], rows_max: int
    ) -> TableDelta | None:
        """The change between two versions; None when it is too large or unknown."""
        ...

    def cache_key(self, pin: TablePin) -> str | None:
        """A name that no other version of any table has; None if there is none."""
        ...

    def older_in_memory(self, type_columns: TypeColumns) -> Iterable[TypeColumns]:
        """Columns of older versions of the same history in memory, the newest first."""
        ...

    def older_on_disk(self, type_columns: TypeColumns) -> Iterable[TypeColumns]:
        """Columns of older versions of the same history on disk, the newest first."""
        ...


class TypeColumns:
    """The entities of a pinned type. Everything is loaded when first asked for. Thread-safe."""

    def __init__(
        self,
        pin: TablePin,
        kind: EntityKind,
        context: TypeContext,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Takes a pinned table; nothing is loaded yet.

        `properties` has the identity and type of the property of each column: versions share the
        values of a property, and a name may belong to another one later. None for a version that
        others only derive from.
        """
        if pin.row_count > ENTITIES_MAX:
            text = f"{pin.table_key} has more than {ENTITIES_MAX} rows"
            raise LimitExceeded(Code.LIMIT_EXCEEDED, text, table_key=pin.table_key)
        self.pin = pin
        self.kind = kind
        self.properties = properties
        self.size = pin.row_count
        self._context = context
        self._cache = context.cache
        self.entity_index = self._cache.slot(self._build_entity_index, _nbytes)
        self._order = self._cache.slot(self._build_order, _nbytes)
        self.edge_ids = self._cache.slot(self._build_edge_ids, _nbytes)
        self._columns: dict[str, Slot[LoadedColumn]] = {}
        self._derived: dict[tuple[str, str], Slot[Any]] = {}

    # -- ids and handles ---------------------------------------------------------------------------

    @property
    def index(self) -> IdIndex:
        """The ids of nodes."""
        index = self.entity_index.get().id_index
        assert index is not None  # edges have none
        return index

    def find(self, ids: Sequence[str]) -> Handles:
        """The handle of each id, or -1."""
        if self.kind == "node":
            return self.index.find(ids)
        known = self.edge_ids.get()
        places = known.index.find(ids)
        return np.where(places < 0, places, known.order[places]) if self.size else places

    def find_one(self, wanted: str) -> int:
        """The handle of one id, or -1."""
        if self.kind == "node":
            return self.index.find_one(wanted)
        known = self.edge_ids.get()
        place = known.index.find_one(wanted)
        return place if place < 0 else int(known.order[place])

    def rank(self, handles: Handles) -> Handles:
        """Numbers that sort as the ids do; -1 stays -1."""
        if self.kind == "node" or not self.size:
            return handles
        return np.where(handles < 0, handles, self.edge_ids.get().rank[handles])

    # -- values ---------------------------------------------------------------------

    def column(self, name: str) -> pa.Array:
        """All values of a column, in the order of the handles."""
        if name == ID and self.kind == "node":
            return self.index.ids
        return self._column_slot(name).get().array

    def prepare(self, names: Iterable[str]) -> None:
        """Load several columns together: one after the other, each costs a look at the store."""
        slots = {name: self._column_slot(name) for name in names}
        if self.kind == "node":
            slots.pop(ID, None)  # the entity index has it
        missing = [name for name, slot in slots.items() if slot.peek() is None]
        if len(missing) < 2:
            return
        schema = self.table().schema
        kinds = {name: schema.field(name).type for name in missing}
        wanted = [name for name, kind in kinds.items() if not _is_read_by_row(kind)]
        wanted = self._derive_together(wanted)
        self._read_together([name for name in wanted if not self._is_column_saved(name)])

    def take(self, name: str, handles: Handles | None) -> pa.Array:
        """The values of a column at some handles, null for -1; None for all of them."""
        if handles is not None and self._is_better_taken(name, len(handles)):
            return self._taken(name, handles)
        column = self.column(name)
        if handles is None:
            return column
        return taken(column, handles, self._context.query_bytes_max)

    def cells(self, name: str, handles: Sequence[int]) -> list[Any]:
        """A few values of a column as Python has them, null for -1."""
        if name == ID and self.kind == "node":
            return self.index.cells(handles)
        if self._is_better_taken(name, len(handles)):
            found: list[Any] = self._taken(name, np.array(handles, np.int32)).to_pylist()
            return found
        return self._column_slot(name).get().cells(handles)

    def derived(
        self,
        column: str,
        kind: str,
        build: Callable[[PreviousStructure[T] | None], T],
        size: Callable[[T], int],
        codec: Codec[T] | None,
    ) -> T:
        """Returns a structure that the caller makes from a column; kept, and saved with a codec."""
        return self._derived_slot((self._property(column), kind), build, size, codec).get()

    def is_available(self) -> bool:
        """True if the entity index is in memory, on disk, or follows from one in memory."""
        return (
            self.entity_index.peek() is not None
            or any(True for _ in self._context.older_in_memory(self))
            or self.is_saved(ENTITY_INDEX_FILE)
        )

    def known_versions(self) -> tuple[tuple[TypeColumns, VersionDelta], ...]:
        """This version and older ones that are known, with the delta from each to this one."""
        return ((self, unchanged(self.size)), *self.entity_index.get().older_versions)

    # -- loading -----------------------------------------------------------------------------------

    def table(self) -> StoredRows:
        """The pinned table."""
        return self._context.table(self.pin)

    @cached_property
    def cache_key(self) -> str | None:
        """A name that no other version of any table has, in this graph and others."""
        return self._context.cache_key(self.pin)

    def place(self, name: str) -> str | None:
        """The name under which a structure is saved on disk; None if it is not."""
        if self.size < self._context.saved_rows_min or self._context.disk_cache is None:
            return None
        return None if self.cache_key is None else f"{self.cache_key}/{name}"

    def is_saved(self, name: str) -> bool:
        """True if an earlier process saved something."""
        place = self.place(name)
        disk_cache = self._context.disk_cache
        return place is not None and disk_cache is not None and disk_cache.has(place)

    def order(self) -> Handles | None:
        """The place in storage of each handle; None when that is the order of the handles."""
        self.entity_index.get()  # loading it fills the order, too
        return self._order.get().places

    def saved(self, name: str, decode: Callable[[Arrays], T | None]) -> T | None:
        """Returns what an earlier process saved, decoded."""
        place = self.place(name)
        disk_cache = self._context.disk_cache
        return None if place is None or disk_cache is None else disk_cache.load(place, decode)

    def save(self, name: str, arrays: Callable[[], Arrays]) -> None:
        """Save for the next process."""
        place = self.place(name)
        if place is not None and self._context.disk_cache is not None:
            self._context.disk_cache.save(place, arrays)

    def _read(self, columns: Sequence[str], *, row_id: bool = False) -> pa.Table:
        """Whole columns, as they are stored."""
        most = self._context.query_bytes_max
        return read_columns(self.table(), columns, row_id=row_id, bytes_max=most)

    def _build_entity_index(self) -> EntityIndex:
        return (
            self._derived_entity_index(self._context.older_in_memory(self))
            or self._saved_entity_index()
            or self._derived_entity_index(self._context.older_on_disk(self))
            or self._stored_entity_index()
        )

    def _stored_entity_index(self) -> EntityIndex:
        telemetry.count("dense.entity_index_read")
        wanted = [ID] if self.kind == "node" else []
        found = self._read(wanted, row_id=True)
        if found.num_rows != self.size:
            text = f"{self.pin.table_key} has {found.num_rows} rows, not {self.size}"
            raise Corrupt(Code.CORRUPT, text, table_key=self.pin.table_key)
        rows = _numbers(found.column(ROW_ID))
        if wanted:
            entity_index, order = node_index(joined(found.column(ID)), rows)
        else:
            entity_index, order = edge_index(rows)
        self._order.put(order)
        self.save(ENTITY_INDEX_FILE, lambda: entity_index_arrays(entity_index, order))
        return entity_index

    def _saved_entity_index(self) -> EntityIndex | None:
        found = self.saved(ENTITY_INDEX_FILE, lambda arrays: saved_entity_index(arrays, self.size))
        if found is None:
            return None
        entity_index, order = found
        if order is not None:
            self._order.put(order)
        return entity_index

    def _derived_entity_index(self, candidates: Iterable[TypeColumns]) -> EntityIndex | None:
        for older in candidates:
            known = older.entity_index.get()
            rows_max = max(tuning.active.delta_rows_min, older.size // tuning.active.delta_share)
            columns = [ID] if self.kind == "node" else []
            changes = self._context.delta(self, older, columns, rows_max)
            made = None if changes is None else changed_entity_index(known, changes, self.size)
            if made is None:
                continue
            entity_index, delta = made
            older_versions = [(older, delta)]
            for oldest, way in known.older_versions[: _OLDER_VERSIONS_MAX - 1]:
                both = composed(way, delta)
                if both.changes <= rows_max:
                    older_versions.append((oldest, both))
            self.entity_index.supersedes(older.entity_index)
            telemetry.count("dense.entity_index_derived")
            return EntityIndex(entity_index.rows, entity_index.id_index, tuple(older_versions))
        return None

    def _build_order(self) -> Order:
        stored = _numbers(self._read([], row_id=True).column(ROW_ID))
        return storage_order(self.entity_index.get(), stored)

    def _build_edge_ids(self) -> EdgeIds:
        for older, delta in self.entity_index.get().older_versions:
            known = older.edge_ids.peek()
            if known is not None:
                ids = self.column(ID)
                self.edge_ids.supersedes(older.edge_ids)
                return derived_edge_ids(known, delta, ids)
        found = self.saved("edge-ids", lambda arrays: saved_edge_ids(arrays, self.size))
        if found is None:
            made = found = edge_ids(self.column(ID))
            self.save("edge-ids", lambda: edge_id_arrays(made))
        return found

    # -- columns -----------------------------------------------------------------------------------

    def _property(self, column: str) -> str:
        """The property of a column; the name of the column if it has none, as ids and ends."""
        return column if self.properties is None else self.properties.get(column, column)

    def _column_slot(self, name: str) -> Slot[LoadedColumn]:
        key = self._property(name)
        slot = self._columns.get(key)
        if slot is None:
            fresh = self._cache.slot(lambda: self._build_column(name), self._column_bytes)
            slot = self._columns.setdefault(key, fresh)
        return slot

    def _is_column_saved(self, name: str) -> bool:
        return self.is_saved(_column_file(self._property(name)))

    def _is_better_taken(self, name: str, count: int) -> bool:
        """True if a few values are read one by one: vectors that no search has loaded."""
        slot = self._columns.get(self._property(name))
        if (
            count > tuning.active.taken_vectors_max
            or name == ID
            or (slot is not None and slot.peek() is not None)
        ):
            return False
        kind = self.table().schema.field(name).type
        return bool(pa.types.is_fixed_size_list(kind)) and not self._is_column_saved(name)

    def _taken(self, name: str, handles: Handles) -> pa.Array:
        """A few values, by the identity of their rows."""
        telemetry.count("dense.values_taken", len(handles))
        there = handles >= 0
        rows = self.entity_index.get().rows.of(handles[there])
        with storage_errors():
            found = self.table().take(rows.tolist(), [name]).column(name).combine_chunks()
        places = np.cumsum(there, dtype=np.int64) - 1
        return found.take(pa.array(places, mask=~there))

    def _build_column(self, name: str) -> LoadedColumn:
        found = self._derived_column(name)
        if found is None:
            found = self._saved_column(self._property(name))
        if found is None:
            found = self._stored_column(name)
        return self._kept(found)

    def _kept(self, values: pa.Array) -> LoadedColumn:
        index = self.entity_index.get().id_index
        # The key of a type is often its id: one copy serves both.
        return LoadedColumn(index.ids if index is not None and values.equals(index.ids) else values)

    def _read_together(self, names: Sequence[str]) -> None:
        order, table = self.order(), self.table()
        each = table.data_bytes // len(table.schema.names)
        size = max(1, tuning.active.read_group_bytes // max(1, each))
        for start in range(0, len(names), size):
            group = names[start : start + size]
            telemetry.count("dense.column_read", len(group))
            try:
                stored = self._read(group)
            except LimitExceeded as error:
                if error.code is not Code.LIMIT_EXCEEDED:
                    raise
                return  # together they are too much: each is read, or refused, for itself
            for name in group:
                column = reordered(stored.column(name), order)
                self._save_column(name, column)
                self._column_slot(name).put(self._kept(column))

    def _derive_together(self, names: Sequence[str]) -> list[str]:
        """Derives columns from older versions that have them; returns the names that are left."""
        entity_index, left = self.entity_index.get(), list(names)
        for older, delta in entity_index.older_versions:
            available = {name: older._available_column(self._property(name)) for name in left}
            known = {name: held for name, held in available.items() if held is not None}
            if not known:
                continue
            with storage_errors():
                rows = entity_index.rows.of(delta.written).tolist()
                fresh = self.table().take(rows, list(known))
            telemetry.count("dense.column_derived", len(known))
            for name, held in known.items():
                derived = derived_column(held, delta, joined(fresh.column(name)))
                self._supersede(older, name)
                self._column_slot(name).put(self._kept(derived))
            left = [name for name in left if name not in known]
        return left

    def _stored_column(self, name: str) -> pa.Array:
        telemetry.count("dense.column_read")
        order = self.order()
        table = self.table()
        if pa.types.is_large_binary(table.schema.field(name).type):
            raise Internal(Code.INTERNAL, f"{name} holds blobs, which are read one by one")
        stored = self._read([name]).column(name)
        column = reordered(stored, order)
        self._save_column(name, column)
        return column

    def _save_column(self, name: str, column: pa.Array) -> None:
        self.save(_column_file(self._property(name)), partial(_values, column))

    def _saved_column(self, key: str) -> pa.Array | None:
        column = self.saved(_column_file(key), lambda arrays: arrays["values"])
        return None if column is None or len(column) != self.size else column

    def _derived_column(self, name: str) -> pa.Array | None:
        entity_index = self.entity_index.get()
        for older, delta in entity_index.older_versions:
            known = older._available_column(self._property(name))
            if known is None:
                continue
            with storage_errors():
                rows = entity_index.rows.of(delta.written).tolist()
                values = joined(self.table().take(rows, [name]).column(name))
            self._supersede(older, name)
            telemetry.count("dense.column_derived")
            return derived_column(known, delta, values)
        return None

    def _available_column(self, key: str) -> pa.Array | None:
        """The values of a property, if they are in memory or on disk."""
        slot = self._columns.get(key)
        held = None if slot is None else slot.peek()
        return self._saved_column(key) if held is None else held.array

    def _supersede(self, older: TypeColumns, name: str) -> None:
        slot = older._columns.get(self._property(name))
        if slot is not None:
            self._column_slot(name).supersedes(slot)

    def _column_bytes(self, column: LoadedColumn) -> int:
        entity_index = self.entity_index.peek()
        index = None if entity_index is None else entity_index.id_index
        shared = index is not None and index.ids is column.array
        return 0 if shared else int(column.array.nbytes)

    # -- structures of others ----------------------------------------------------------------------

    def _derived_slot(
        self,
        key: tuple[str, str],
        build: Callable[[PreviousStructure[T] | None], T],
        size: Callable[[T], int],
        codec: Codec[T] | None,
    ) -> Slot[T]:
        slot: Slot[T] | None = self._derived.get(key)
        if slot is None:
            fresh = self._cache.slot(lambda: self._build_derived(key, build, size, codec), size)
            slot = self._derived.setdefault(key, fresh)
        return slot

    def _build_derived(
        self,
        key: tuple[str, str],
        build: Callable[[PreviousStructure[T] | None], T],
        size: Callable[[T], int],
        codec: Codec[T] | None,
    ) -> T:
        for older, delta in self.entity_index.get().older_versions:
            # `build` reads this version, so no slot of the older one may ever hold it.
            slot: Slot[T] | None = older._derived.get(key)
            known = None if slot is None else slot.peek()
            if known is None and codec is not None:
                known = older.saved(_derived_file(key), codec.load)
            if known is not None:
                if slot is not None:
                    self._derived[key].supersedes(slot)
                return build(PreviousStructure(known, delta))
        if codec is None:
            return build(None)
        found = self.saved(_derived_file(key), codec.load)
        if found is None:
            made = found = build(None)
            self.save(_derived_file(key), lambda: codec.save(made))
        return found


def _derived_file(key: tuple[str, str]) -> str:
    of, kind = key
    return f"derived-{kind}-{_digest(of)}"


def _column_file(key: str) -> str:
    return f"column-{_digest(key)}"


def _digest(name: str) -> str:
    """A name as a part of a file name, which has few letters and little room."""
    return blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def _numbers(column: pa.ChunkedArray) -> Counts:
    numbers: Counts = joined(column).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _nbytes(structure: EntityIndex | Order | EdgeIds) -> int:
    return structure.nbytes


def _is_read_by_row(kind: pa.DataType) -> bool:
    """True if values may be too large to load for all rows when a few are wanted."""
    return bool(pa.types.is_fixed_size_list(kind) or pa.types.is_large_binary(kind))


def _values(column: pa.Array) -> Arrays:
    return {"values": column}
