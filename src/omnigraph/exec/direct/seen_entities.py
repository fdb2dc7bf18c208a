"""The entities of a type that a query has come across so far, numbered as they came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.exec.direct.lookup import RowLookup
from omnigraph.exec.large_text import joined, taken
from omnigraph.exec.view import MISSING, Counts, Handles

ID: Final = "id"


class _ColumnGroup:
    """The values of some columns that are always read together."""

    __slots__ = ("_joined", "columns", "parts", "place", "rows")

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.parts: list[pa.Table] = []
        self._joined: dict[str, pa.Array] = {}
        self.place: dict[int, int] = {}  # by handle; -1 for an entity that is not stored
        self.rows = 0

    def add(self, handles: Sequence[int], rows: pa.Table) -> None:
        """Keep the values of entities that are not here yet."""
        self.parts.append(rows.select(self.columns))
        for handle in handles:
            self.place[handle] = self.rows
            self.rows += 1

    def take(self, column: str, handles: Sequence[int]) -> pa.Array:
        """The values at some handles, all of which are here; null for -1."""
        if len(self.parts) > 1:
            self.parts = [pa.concat_tables(self.parts)]
            self._joined.clear()
        places = [MISSING if handle < 0 else self.place[handle] for handle in handles]
        numbers = np.array(places, np.int64)
        whole = self._joined.get(column)
        if whole is None:
            whole = self._joined[column] = joined(self.parts[0].column(column))
        return taken(whole, numbers)


class SeenEntities:
    """The entities of one type seen so far; `wanted` are the columns that the query reads."""

    __slots__ = ("_cells", "_complete", "_lookups", "_place", "ids", "wanted")

    def __init__(self, lookups: RowLookup, wanted: Iterable[str]) -> None:
        """Starts without entities."""
        self._lookups = lookups
        self.wanted = tuple(name for name in dict.fromkeys(wanted) if name != ID)
        self.ids: list[str] = []
        self._place: dict[str, int] = {}
        self._complete = False
        whole = _ColumnGroup((ID, *self.wanted))
        self._cells = dict.fromkeys(self.wanted, whole)
        # Even without columns it tells who was looked up already.
        self._cells[ID] = whole

    @property
    def size(self) -> int:
        """The number of entities of the type, known or not."""
        return self._lookups.row_count

    def assign(self, ids: Iterable[str]) -> list[int]:
        """Returns the handles of entities that exist, new ones for those not seen yet."""
        place, known = self._place, self.ids
        found = []
        for each in ids:
            handle = place.get(each)
            if handle is None:
                handle = place[each] = len(known)
                known.append(each)
            found.append(handle)
        return found

    def find(self, ids: Sequence[str]) -> Handles:
        """The handle of each id, -1 where no entity has it."""
        place = self._place
        if not self._complete:
            unknown = [each for each in dict.fromkeys(ids) if each not in place]
            if unknown:
                self.add(self._lookups.rows((ID, *self.wanted), {ID: unknown}))
        return np.array([place.get(each, MISSING) for each in ids], np.int32)

    def add(self, rows: pa.Table) -> None:
        """Adds rows with the id and all wanted columns."""
        cells = self._cells[ID]
        handles = self.assign(rows.column(ID).to_pylist())
        fresh = [number for number, handle in enumerate(handles) if handle not in cells.place]
        if len(fresh) < len(handles):
            rows = rows.take(pa.array(fresh, pa.int64()))
        cells.add([handles[number] for number in fresh], rows)

    def take(self, column: str, handles: Handles | None) -> pa.Array:
        """The values of a column, null for -1; of all entities for None."""
        wanted = list(range(self.size)) if handles is None else handles.tolist()
        self.ensure_known(wanted)
        if column == ID:
            names = [None if handle < 0 else self.ids[handle] for handle in wanted]
            return pa.array(names, pa.string())
        cells = self._cells.get(column)
        if cells is None:
            cells = self._cells[column] = _ColumnGroup((ID, column))
        self._fetch(cells, wanted)
        return cells.take(column, wanted)

    def ensure_known(self, handles: Sequence[int]) -> None:
        """Makes sure that these handles are assigned; if not, all entities are read at once."""
        if not self._complete and handles and max(handles) >= len(self.ids):
            self.add(self._lookups.everything((ID, *self.wanted)))
            self._complete = True

    def rank(self, handles: Handles) -> Counts:
        """Numbers that sort as the ids do; -1 stays -1."""
        wanted = handles.tolist()
        self.ensure_known(wanted)
        order = sorted({handle for handle in wanted if handle >= 0}, key=self.ids.__getitem__)
        ranks = {handle: rank for rank, handle in enumerate(order)}
        return np.array([ranks.get(handle, MISSING) for handle in wanted], np.int64)

    def _fetch(self, cells: _ColumnGroup, handles: Sequence[int]) -> None:
        missing = [each for each in dict.fromkeys(handles) if each >= 0 and each not in cells.place]
        if missing or not cells.parts:
            names = [self.ids[handle] for handle in missing]
            rows = self._lookups.rows(cells.columns, {ID: names})
            found = [self._place[each] for each in rows.column(ID).to_pylist()]
            cells.add(found, rows)
            for handle in missing:
                cells.place.setdefault(handle, MISSING)
