"""The entities of a type: the row id of each handle and, for nodes, the ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.exec import tuning
from omnigraph.exec.dense.disk_cache import Arrays, numbers
from omnigraph.exec.dense.id_index import IdIndex, sorted_order
from omnigraph.exec.dense.row_ids import AscendingRows, ListedRows, RowIds, RowNumbers
from omnigraph.exec.dense.version_delta import VersionDelta, derived_array, derived_column
from omnigraph.exec.large_text import joined
from omnigraph.exec.view import Counts, Handles
from omnigraph.store.reading.table_delta import TableDelta
from omnigraph.store.table import ROW_ID

ID: Final = "id"
# The name under which an index is saved.
ENTITY_INDEX_FILE: Final = "entities"


@dataclass(frozen=True, slots=True, eq=False)
class EntityIndex:
    """The entities of a type by handle.

    `older_versions` are those that this one can be derived from, the nearest first: the
    `TypeColumns` of each (whose module imports this one) and the delta from there.
    """

    rows: RowIds
    id_index: IdIndex | None  # of nodes
    older_versions: tuple[tuple[Any, VersionDelta], ...] = ()

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.rows.nbytes + (0 if self.id_index is None else self.id_index.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """The place in storage of each handle; None when that is the order of the handles."""

    places: Handles | None

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return 0 if self.places is None else self.places.nbytes


# -- as stored -------------------------------------------------------------------------------------


def node_index(ids: pa.Array, rows: RowNumbers) -> tuple[EntityIndex, Order]:
    """The index of nodes as they are stored."""
    order = sorted_order(ids)
    if order is None:
        return EntityIndex(ListedRows(rows), IdIndex(ids)), Order(None)
    ranked = joined(pa.chunked_array([ids]).take(pa.array(order)))
    return EntityIndex(ListedRows(rows[order]), IdIndex(ranked)), Order(order.astype(np.int32))


def edge_index(rows: RowNumbers) -> tuple[EntityIndex, Order]:
    """The index of edges as they are stored."""
    order: Handles | None = None
    if len(rows) > 1 and not bool((rows[1:] > rows[:-1]).all()):
        order = np.argsort(rows).astype(np.int32)
        rows = rows[order]
    return EntityIndex(AscendingRows.from_rows(rows), None), Order(order)


def storage_order(known: EntityIndex, stored: RowNumbers) -> Order:
    """The place in storage of each handle, given the row ids in storage order."""
    wanted = known.rows.all()
    if np.array_equal(wanted, stored):
        return Order(None)
    order = np.argsort(stored)
    return Order(order[np.searchsorted(stored, wanted, sorter=order)].astype(np.int32))


# -- after a change --------------------------------------------------------------------------------


def changed_entity_index(
    known: EntityIndex, changes: TableDelta, size: int
) -> tuple[EntityIndex, VersionDelta] | None:
    """The index after a change, with the delta to it; None if the change does not fit."""
    written = changes.written.column(ROW_ID).to_numpy().astype(np.int64)
    deleted = _present(known.rows, changes.removed.astype(np.int64))
    if known.id_index is None:
        return _changed_edges(known.rows, written, deleted, size)
    return _changed_nodes(known, joined(changes.written.column(ID)), written, deleted, size)


def _present(rows: RowIds, removed: RowNumbers) -> Counts:
    """The handles of the removed rows that were there, ascending."""
    if isinstance(rows, ListedRows) and len(removed) <= tuning.active.searched_rows_max:
        found = [np.flatnonzero(rows.rows == row) for row in removed.tolist()]
        return np.sort(np.concatenate([*found, np.empty(0, np.int64)]))
    handles = rows.find(removed)
    return np.sort(handles[handles >= 0]).astype(np.int64)


def _changed_edges(
    rows: RowIds, written: RowNumbers, deleted: Counts, size: int
) -> tuple[EntityIndex, VersionDelta] | None:
    assert isinstance(rows, AscendingRows)
    known = rows.find(written)
    fresh = np.sort(written[known < 0])
    if len(fresh) and len(rows) and fresh[0] < rows.last:
        return None  # ids ascend; otherwise the index is made anew
    survivors = len(rows) - len(deleted)
    inserted = np.arange(survivors, survivors + len(fresh))
    updated = np.sort(known[known >= 0]).astype(np.int64)
    delta = VersionDelta(
        len(rows), size, deleted, inserted, updated - np.searchsorted(deleted, updated)
    )
    if survivors + len(fresh) != size:
        return None
    return EntityIndex(rows.changed(deleted, fresh), None), delta


def _changed_nodes(
    index: EntityIndex, ids: pa.Array, written: RowNumbers, deleted: Counts, size: int
) -> tuple[EntityIndex, VersionDelta] | None:
    old = index.id_index
    assert old is not None
    known = old.find_array(ids)
    # An id that came back on another row is a new entity with the handle of the old one.
    same = known >= 0
    same[same] = index.rows.of(known[same]) == written[same]
    if np.isin(known[same], deleted).any():
        return None
    inserted_ids = ids.filter(pa.array(~same))
    order = sorted_order(inserted_ids)
    places = np.arange(len(inserted_ids)) if order is None else order
    inserted_ids = inserted_ids.take(pa.array(places))
    inserted_rows = written[~same][places]
    # Its handle: the survivors below it and the inserted below it.
    below = old.lower_bounds(inserted_ids)
    inserted = below - np.searchsorted(deleted, below) + np.arange(len(inserted_ids))
    if len(index.rows) - len(deleted) + len(inserted) != size:
        return None
    pure = VersionDelta(len(index.rows), size, deleted, inserted, np.empty(0, np.int64))
    updated = np.sort(pure.new_handles(np.sort(known[same]).astype(np.int64)))
    delta = VersionDelta(len(index.rows), size, deleted, inserted, updated)
    rows = derived_array(index.rows.all(), pure, inserted_rows)
    return EntityIndex(
        ListedRows(rows), old.changed(derived_column(old.ids, pure, inserted_ids), pure)
    ), delta


# -- on disk ---------------------------------------------------------------------------------------


def entity_index_arrays(known: EntityIndex, order: Order | None) -> Arrays:
    """Returns the arrays in which an index is saved."""
    arrays: dict[str, pa.Array] = {}
    if isinstance(known.rows, AscendingRows):
        arrays["firsts"] = pa.array(known.rows.firsts)
        arrays["starts"] = pa.array(known.rows.starts)
        arrays["size"] = pa.array([len(known.rows)], pa.int64())
    else:
        arrays["rows"] = pa.array(known.rows.all())
    if known.id_index is not None:
        arrays["ids"] = known.id_index.ids
        arrays["keys"] = pa.array(known.id_index.keys)
    if order is not None:
        places = np.empty(0, np.int32) if order.places is None else order.places
        arrays["order"] = pa.array(places)
    return arrays


def saved_entity_index(arrays: Arrays, size: int) -> tuple[EntityIndex, Order | None] | None:
    """An index as it was saved; None when it does not fit."""
    rows: RowIds
    index: IdIndex | None = None
    if "rows" in arrays:
        rows = ListedRows(numbers(arrays["rows"]))
        index = IdIndex(arrays["ids"], numbers(arrays["keys"]))
        if len(index) != size or len(index.keys) != size:
            return None
    else:
        count = int(arrays["size"][0].as_py())
        rows = AscendingRows(numbers(arrays["firsts"]), numbers(arrays["starts"]), count)
    if len(rows) != size:
        return None
    if "order" not in arrays:
        return EntityIndex(rows, index), None
    places = numbers(arrays["order"])
    if len(places) not in (0, size):
        return None
    return EntityIndex(rows, index), Order(places if len(places) else None)
