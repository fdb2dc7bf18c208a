"""The direct view: a snapshot of which only the entities that a query touches are read.

For queries that start from a few ids and stay small. Every step is a lookup through the store's
indexes; without one it reads more and says the same. Handles are given in the order of discovery,
so they say nothing about ids. Made for one query, and for one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.exec.direct.lookup import LookupBounds, LookupBudget, RowLookup, TableLookup
from omnigraph.exec.large_text import joined, taken
from omnigraph.exec.view import MISSING, Counts, Handles, Mask, NeighbourSlices
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import ReadPlan, Towards

ID: Final = "id"
_SRC, _DST = "src", "dst"
_WAYS = {
    Towards.OUT: ((_SRC, _DST),),
    Towards.IN: ((_DST, _SRC),),
    Towards.BOTH: ((_SRC, _DST), (_DST, _SRC)),
}


def wanted_columns(plan: ReadPlan) -> dict[str, tuple[str, ...]]:
    """The columns that a query reads, by table key."""
    found: dict[str, list[str]] = {}
    for need in plan.needs:
        names = found.setdefault(need.entity.table_key, [])
        names += [column.name for column in need.columns]
    return {key: tuple(dict.fromkeys(names)) for key, names in found.items()}


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
        # Even without columns it shows what was looked up already.
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


class DirectView:
    """One snapshot, read entity by entity; implements `GraphView`.

    Every method raises `LookupTooLarge` when the query turns out to touch too much.
    """

    __slots__ = (
        "__weakref__",
        "_budget",
        "_catalog",
        "_lookups",
        "_members",
        "_over",
        "_repo",
        "_wanted",
        "snapshot",
    )

    def __init__(
        self,
        repo: Repository,
        snapshot: GraphVersion,
        catalog: Catalog,
        wanted: Mapping[str, Sequence[str]] | None = None,
        bounds: LookupBounds | None = None,
        over: Callable[[str, TableLookup], RowLookup] | None = None,
    ) -> None:
        """Read a snapshot.

        Args:
            repo: The graph.
            snapshot: Its tables.
            catalog: The schema in force there.
            wanted: Columns that are read along with what finds an entity, by table key.
            bounds: The most that is read.
            over: Lays uncommitted changes over a table.
        """
        self.snapshot = snapshot
        self._repo = repo
        self._catalog = catalog
        self._wanted = wanted or {}
        self._budget = LookupBudget(bounds or LookupBounds())
        self._over = over
        self._lookups: dict[str, RowLookup] = {}
        self._members: dict[str, SeenEntities] = {}

    # -- entities --------------------------------------------------------------------------

    def size(self, entity: EntityRef) -> int:
        """The number of entities of a type."""
        return self._table(entity.table_key).row_count

    def find(self, entity: EntityRef, ids: Sequence[str]) -> Handles:
        """The handle of each id; -1 where there is no such entity."""
        return self._of(entity.table_key).find(ids)

    def take(self, entity: EntityRef, column: str, handles: Handles | None) -> pa.Array:
        """The values of a column, null for -1; of the whole type for None."""
        return self._of(entity.table_key).take(column, handles)

    def rank(self, entity: EntityRef, handles: Handles) -> Counts:
        """Numbers that sort as the ids of the entities do; -1 stays -1."""
        return self._of(entity.table_key).rank(handles)

    # -- edges -----------------------------------------------------------------------------

    def neighbours(self, edge: EntityRef, towards: Towards, sources: Handles) -> NeighbourSlices:
        """The distinct nodes one edge away from each source, in the order of their ids."""
        source, target = self._ends(edge, towards)
        wanted = _ids_of(source, sources)
        reached: dict[str, set[str]] = {each: set() for each in wanted}
        for near, far in _WAYS[towards]:
            rows = self._table(edge.table_key).rows((near, far), {near: list(reached)})
            for each, other in _pairs(rows, near, far):
                reached[each].add(other)
        named = {each: target.assign(sorted(found)) for each, found in reached.items()}
        return _slices([named[each] for each in wanted])

    def edges(self, edge: EntityRef, towards: Towards, sources: Handles) -> NeighbourSlices:
        """Every stored edge at each source, with the node at its other end."""
        source, target = self._ends(edge, towards)
        known = self._of(edge.table_key)
        wanted = _ids_of(source, sources)
        # By the other end and then by edge, so that a self-loop is there once.
        reached: dict[str, set[tuple[str, str]]] = {each: set() for each in wanted}
        for near, far in _WAYS[towards]:
            columns = (ID, *known.wanted)
            rows = self._table(edge.table_key).rows(columns, {near: list(reached)})
            known.add(rows)
            names = rows.column(ID).to_pylist()
            for name, (each, other) in zip(names, _pairs(rows, near, far), strict=True):
                reached[each].add((other, name))
        found = {each: sorted(pairs) for each, pairs in reached.items()}
        targets = {each: target.assign(o for o, _ in pairs) for each, pairs in found.items()}
        links = {each: known.assign(e for _, e in pairs) for each, pairs in found.items()}
        nodes = _slices([targets[each] for each in wanted])
        edges = _slices([links[each] for each in wanted]).targets
        return NeighbourSlices(nodes.counts, nodes.targets, edges)

    def degrees(self, edge: EntityRef, towards: Towards, sources: Handles | None) -> Counts:
        """The number of distinct nodes one edge away from each source, or from every node."""
        if sources is None:
            source, _ = self._ends(edge, towards)
            sources = np.arange(source.size, dtype=np.int32)
        return self.neighbours(edge, towards, sources).counts

    def linked(self, edge: EntityRef, towards: Towards, sources: Handles, targets: Handles) -> Mask:
        """True where an edge leads from a source to the target in the same place."""
        source, target = self._ends(edge, towards)
        starts, stops = _ids_of(source, sources), _ids_of(target, targets)
        there: set[tuple[str, str]] = set()
        for near, far in _WAYS[towards]:
            keys = {near: list(dict.fromkeys(starts)), far: list(dict.fromkeys(stops))}
            rows = self._table(edge.table_key).rows((near, far), keys) if starts else None
            there.update(_pairs(rows, near, far) if rows is not None else ())
        found = [pair in there for pair in zip(starts, stops, strict=True)]
        return np.array(found, np.bool_)

    # -- inside ----------------------------------------------------------------------------

    def _ends(self, edge: EntityRef, towards: Towards) -> tuple[SeenEntities, SeenEntities]:
        """The types at the near and at the far end."""
        kind = self._catalog.edge_by_name[edge.name]
        near, far = self._of(f"node:{kind.source}"), self._of(f"node:{kind.target}")
        return (far, near) if towards is Towards.IN else (near, far)

    def _of(self, table_key: str) -> SeenEntities:
        found = self._members.get(table_key)
        if found is None:
            fixed = (_SRC, _DST) if table_key.startswith("edge:") else ()
            columns = (*fixed, *self._wanted.get(table_key, ()))
            found = self._members[table_key] = SeenEntities(self._table(table_key), columns)
        return found

    def _table(self, table_key: str) -> RowLookup:
        found = self._lookups.get(table_key)
        if found is None:
            pin = self.snapshot.pin(table_key)
            opening = partial(self._repo.table, pin)
            stored = TableLookup(opening, pin.row_count, self._budget)
            found = stored if self._over is None else self._over(table_key, stored)
            self._lookups[table_key] = found
        return found


def _ids_of(members: SeenEntities, handles: Handles) -> list[str]:
    """The ids of entities."""
    wanted = handles.tolist()
    members.ensure_known(wanted)
    return [members.ids[handle] for handle in wanted]


def _pairs(rows: pa.Table, near: str, far: str) -> Iterable[tuple[str, str]]:
    return zip(rows.column(near).to_pylist(), rows.column(far).to_pylist(), strict=True)


def _slices(rows: list[list[int]]) -> NeighbourSlices:
    counts = np.array([len(row) for row in rows], np.int64)
    targets = np.array([handle for row in rows for handle in row], np.int32)
    return NeighbourSlices(counts, targets)
