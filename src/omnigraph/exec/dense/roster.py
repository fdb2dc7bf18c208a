"""Who is in a type: row identities by handle and, for nodes, the ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.exec.dense.archive import Arrays, numbers
from omnigraph.exec.dense.id_index import IdIndex, sorted_order
from omnigraph.exec.dense.row_ids import AscendingRows, ListedRows, RowIds, RowNumbers
from omnigraph.exec.dense.step import Step, carried, carried_column
from omnigraph.exec.large_text import joined
from omnigraph.exec.view import Counts, Handles
from omnigraph.store.delta import TableDelta
from omnigraph.store.table import ROW_ID

ID: Final = "id"


@dataclass(frozen=True, slots=True, eq=False)
class Roster:
    """Who is in a type.

    `trail` leads from older versions to this one, the nearest first: each an extent (whose module
    stands above this one) and the step from there.
    """

    rows: RowIds
    index: IdIndex | None  # of nodes
    trail: tuple[tuple[Any, Step], ...] = ()

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return self.rows.nbytes + (0 if self.index is None else self.index.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Where in storage each handle lies; None when that is the order of the handles."""

    places: Handles | None

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        return 0 if self.places is None else self.places.nbytes


# -- as stored -------------------------------------------------------------------------------------


def node_roster(ids: pa.Array, rows: RowNumbers) -> tuple[Roster, Order]:
    """The roster of nodes as they are stored."""
    order = sorted_order(ids)
    if order is None:
        return Roster(ListedRows(rows), IdIndex(ids)), Order(None)
    ranked = joined(pa.chunked_array([ids]).take(pa.array(order)))
    return Roster(ListedRows(rows[order]), IdIndex(ranked)), Order(order.astype(np.int32))


def edge_roster(rows: RowNumbers) -> tuple[Roster, Order]:
    """The roster of edges as they are stored."""
    order: Handles | None = None
    if len(rows) > 1 and not bool((rows[1:] > rows[:-1]).all()):
        order = np.argsort(rows).astype(np.int32)
        rows = rows[order]
    return Roster(AscendingRows.from_rows(rows), None), Order(order)


def storage_order(roster: Roster, stored: RowNumbers) -> Order:
    """Where in storage each handle lies, given the identities of the rows as they are stored."""
    wanted = roster.rows.all()
    if np.array_equal(wanted, stored):
        return Order(None)
    order = np.argsort(stored)
    return Order(order[np.searchsorted(stored, wanted, sorter=order)].astype(np.int32))


# -- after a change --------------------------------------------------------------------------------


def changed_roster(roster: Roster, delta: TableDelta, size: int) -> tuple[Roster, Step] | None:
    """The roster after a change, and the step to it. None if the change does not fit to it."""
    written = delta.written.column(ROW_ID).to_numpy().astype(np.int64)
    gone = _present(roster.rows, delta.removed.astype(np.int64))
    if roster.index is None:
        return _changed_edges(roster.rows, written, gone, size)
    return _changed_nodes(roster, joined(delta.written.column(ID)), written, gone, size)


def _present(rows: RowIds, removed: RowNumbers) -> Counts:
    """The handles of the removed rows that were there, ascending."""
    if isinstance(rows, ListedRows) and len(removed) <= _FEW:
        # The way back from identities costs a sort; looking through them is cheaper for a few.
        found = [np.flatnonzero(rows.rows == row) for row in removed.tolist()]
        return np.sort(np.concatenate([*found, np.empty(0, np.int64)]))
    handles = rows.find(removed)
    return np.sort(handles[handles >= 0]).astype(np.int64)


def _changed_edges(
    rows: RowIds, written: RowNumbers, gone: Counts, size: int
) -> tuple[Roster, Step] | None:
    assert isinstance(rows, AscendingRows)
    known = rows.find(written)
    fresh = np.sort(written[known < 0])
    if len(fresh) and len(rows) and fresh[0] < rows.last:
        return None  # identities are given in ascending order; whoever breaks that starts over
    survivors = len(rows) - len(gone)
    born = np.arange(survivors, survivors + len(fresh))
    rewritten = np.sort(known[known >= 0]).astype(np.int64)
    step = Step(len(rows), size, gone, born, rewritten - np.searchsorted(gone, rewritten))
    if survivors + len(fresh) != size:
        return None
    return Roster(rows.changed(gone, fresh), None), step


def _changed_nodes(
    roster: Roster, ids: pa.Array, written: RowNumbers, gone: Counts, size: int
) -> tuple[Roster, Step] | None:
    old = roster.index
    assert old is not None
    known = old.find_array(ids)
    # An id that came back on another row is a new entity with the handle of the old one.
    same = known >= 0
    same[same] = roster.rows.of(known[same]) == written[same]
    if np.isin(known[same], gone).any():
        return None
    born_ids = ids.filter(pa.array(~same))
    order = sorted_order(born_ids)
    places = np.arange(len(born_ids)) if order is None else order
    born_ids = born_ids.take(pa.array(places))
    born_rows = written[~same][places]
    # Its handle: the survivors below it and the born below it.
    below = old.lower_bounds(born_ids)
    born = below - np.searchsorted(gone, below) + np.arange(len(born_ids))
    if len(roster.rows) - len(gone) + len(born) != size:
        return None
    pure = Step(len(roster.rows), size, gone, born, np.empty(0, np.int64))
    rewritten = np.sort(pure.moved(np.sort(known[same]).astype(np.int64)))
    step = Step(len(roster.rows), size, gone, born, rewritten)
    rows = carried(roster.rows.all(), pure, born_rows)
    return Roster(
        ListedRows(rows), old.changed(carried_column(old.ids, pure, born_ids), pure)
    ), step


_FEW: Final = 32


# -- on disk ---------------------------------------------------------------------------------------


def roster_arrays(roster: Roster, order: Order | None) -> Arrays:
    """What to save of a roster."""
    arrays: dict[str, pa.Array] = {}
    if isinstance(roster.rows, AscendingRows):
        arrays["firsts"] = pa.array(roster.rows.firsts)
        arrays["starts"] = pa.array(roster.rows.starts)
        arrays["size"] = pa.array([len(roster.rows)], pa.int64())
    else:
        arrays["rows"] = pa.array(roster.rows.all())
    if roster.index is not None:
        arrays["ids"] = roster.index.ids
        arrays["keys"] = pa.array(roster.index.keys)
    if order is not None:
        places = np.empty(0, np.int32) if order.places is None else order.places
        arrays["order"] = pa.array(places)
    return arrays


def saved_roster(arrays: Arrays, size: int) -> tuple[Roster, Order | None] | None:
    """A roster as it was saved; None when it does not fit."""
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
        return Roster(rows, index), None
    places = numbers(arrays["order"])
    if len(places) not in (0, size):
        return None
    return Roster(rows, index), Order(places if len(places) else None)
