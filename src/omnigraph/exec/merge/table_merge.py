"""The merge of one type: their changes since the merge base, laid over ours.

Only entities that their side has changed matter. One that our side has not changed gets their row
as it is. One that both sides have changed is merged cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.changes.table_changes import AFTER, BEFORE, ChangedKeys, same_before
from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.exec.merge.conflicts import Choice, ConflictKind, MergeConflict, Resolving
from omnigraph.exec.merge.merged_rows import OURS, MergedRows, Rows, Versions
from omnigraph.exec.merge.resolution_values import Given, given_values
from omnigraph.exec.merge.tasks import MergeWork
from omnigraph.exec.merge.three_way import Cells, column_groups, unequal_cells
from omnigraph.lang.catalog.identity import END_NAMES, ENDS
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.values import Base


@dataclass(slots=True, eq=False)
class MergedTable:
    """The outcome for one type, to be written onto our side.

    Attributes:
        entity: The type.
        keys: The ids that their side has changed, with the addresses of their rows at the base
            (`BEFORE`), on their side (`AFTER`) and on our side (`OURS`).
        take: The rows of `keys` that are written, with their cells where `cells` says so.
        cells: For each of `keys`, the columns that get their value.
        drop: The rows of `keys` whose entities are deleted.
        conflicts: What could not be settled.
        restored: The cells that get the value of the merge base, by row of `keys`; where a
            conflict was settled so.
        given: Values that settle conflicts, by row of `keys`.
        settled: The rows of `keys` that are as they are because something was settled so.
        doubtful: Those among them that may come out as our side has them.
    """

    entity: EntityType
    keys: pa.Table
    take: Rows
    cells: Cells
    drop: Rows
    conflicts: list[MergeConflict] = field(default_factory=list)
    restored: dict[int, npt.NDArray[np.bool_]] = field(default_factory=dict)
    given: dict[int, Given] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)


def display_name(column: str) -> str:
    """The name that a conflict has for a column."""
    return END_NAMES.get(column, column)


_OF_TWO_SIDES: Final = {
    ConflictKind.DIVERGENT_INSERT,
    ConflictKind.DIVERGENT_UPDATE,
    ConflictKind.DELETE_VS_UPDATE,
}
# The columns of `MergedTable.keys` that say whether an entity is there.
_ADDRESSES: Final = {"ours": OURS, "theirs": AFTER, "base": BEFORE}


@dataclass(frozen=True, slots=True, eq=False)
class SettledConflict:
    """The choice for one conflict.

    Attributes:
        row: The row of `MergedTable.keys`.
        conflict: The conflict.
        choice: What settles it.
        cells: The columns that it is about; None for the whole entity.
    """

    row: int
    conflict: MergeConflict
    choice: Choice
    cells: npt.NDArray[np.bool_] | None = None


class TableMerge:
    """Merges one type."""

    def __init__(
        self,
        entity: EntityType,
        theirs: ChangedKeys,
        ours: ChangedKeys,
        work: MergeWork | None = None,
    ) -> None:
        """Merge the changes of both sides since the merge base.

        Args:
            entity: The type.
            theirs: The changes of their side.
            ours: The changes of our side.
            work: Reads and writes rows by tasks, if there are many.
        """
        self.entity = entity
        self.work = work
        self.versions = Versions(
            base=theirs.diff.removed.rows,
            ours=ours.diff.added.rows,
            theirs=theirs.diff.added.rows,
        )
        self.theirs = theirs.keys
        self.ours = ours.keys
        self._in_ours = ours.in_newer
        self._in_theirs = theirs.in_newer
        ends = list(ENDS) if entity.kind == "edge" else []
        self.columns = [*ends, *(item.name for item in entity.properties)]
        self.blobs = [item.name for item in entity.properties if item.type.base is Base.BLOB]
        self._groups = column_groups(entity, self.columns)
        self.rows = MergedRows(self.versions, self.columns, self.blobs, self._groups)

    def merged(self, resolve: Resolving, *, by_row: bool) -> MergedTable:
        """Decide about every entity that their side has changed."""
        keys, is_ours = self._located()
        outcome = self._start(keys, is_ours)
        rows = keys.filter(pa.array(is_ours))
        # Conflicts come in the order of the ids.
        order = np.asarray(pc.sort_indices(rows.column("id")))
        both, rows = np.flatnonzero(is_ours)[order], rows.take(pa.array(order))
        there = [_valid(rows.column(name)) for name in (BEFORE, OURS, AFTER)]
        base, ours, theirs = there
        outcome.cells[both] = False
        self._settle_deletions(outcome, both, ours & ~theirs, resolve)
        self._settle_deletions(outcome, both, ~ours & theirs, resolve)
        for kind, chosen in (
            (ConflictKind.DIVERGENT_UPDATE, base & ours & theirs),
            (ConflictKind.DIVERGENT_INSERT, ~base & ours & theirs),
        ):
            self._merge_rows(outcome, both[chosen], kind, resolve, by_row=by_row)
        return outcome

    def counts(self, outcome: MergedTable) -> ChangeCounts:
        """The numbers of entities that the merge changes on our side."""
        new = ~_valid(outcome.keys.column(OURS))[outcome.take]
        return ChangeCounts(
            inserted=int(new.sum()), updated=int((~new).sum()), deleted=len(outcome.drop)
        )

    @cached_property
    def our_ids(self) -> pa.Array:
        """The ids of the entities that our side has changed."""
        return self.ours.column("id").combine_chunks()

    def in_theirs(self, addresses: pa.Array) -> pa.Array:
        """The rows of their side that are those of the base, unchanged; null stays null."""
        rows = np.flatnonzero(addresses.is_valid())
        found = np.zeros(len(addresses), np.uint64)
        found[rows] = self._in_theirs(np.asarray(addresses.take(pa.array(rows)), np.uint64))
        return pa.array(found, mask=np.asarray(addresses.is_null()))

    def _start(self, keys: pa.Table, is_ours: npt.NDArray[np.bool_]) -> MergedTable:
        """Take every change of theirs to an entity that our side has not changed."""
        alone = ~is_ours
        kept = _valid(keys.column(AFTER))
        return MergedTable(
            entity=self.entity,
            keys=keys,
            take=np.flatnonzero(alone & kept),
            cells=np.ones((keys.num_rows, len(self.columns)), bool),
            drop=np.flatnonzero(alone & ~kept),
        )

    def _located(self) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
        """Their changes with the addresses on our side, and whether that changed them, too."""
        keys = self.theirs
        there = _valid(keys.column(BEFORE))
        match = np.full(keys.num_rows, -1)
        match[there] = same_before(keys, self.ours).fill_null(-1).filter(pa.array(there))
        new = np.flatnonzero(~there)
        ids = keys.column("id").take(pa.array(new)).combine_chunks()
        match[new] = pc.index_in(ids, value_set=self.our_ids).fill_null(-1)
        is_ours = match >= 0
        ours = np.zeros(keys.num_rows, np.uint64)
        left = there & ~is_ours
        ours[left] = self._in_ours(np.asarray(keys.column(BEFORE).filter(left), np.uint64))
        changed = self.ours.column(AFTER).combine_chunks().take(pa.array(match[is_ours]))
        ours[is_ours] = changed.fill_null(0)
        left[is_ours] = _valid(changed)
        return keys.append_column(OURS, pa.array(ours, mask=~left)), is_ours

    def _settle_deletions(
        self,
        outcome: MergedTable,
        both: Rows,
        chosen: npt.NDArray[np.bool_],
        resolve: Resolving,
    ) -> None:
        """Settle entities that one side deleted and the other one changed."""
        kind = ConflictKind.DELETE_VS_UPDATE
        found = []
        for row, conflict in self.described(outcome.keys, both[chosen].tolist(), kind):
            choice = resolve(conflict)
            if choice is None:
                outcome.conflicts.append(conflict)
            else:
                found.append(SettledConflict(row, conflict, choice))
        self.settle(outcome, found, resolve)

    def settle(
        self, outcome: MergedTable, settlements: Sequence[SettledConflict], resolve: Resolving
    ) -> None:
        """Give entities the states that were chosen for them."""
        if not settlements:
            return
        count = outcome.keys.num_rows
        taken, dropped = np.zeros(count, bool), np.zeros(count, bool)
        taken[outcome.take] = dropped[outcome.drop] = True
        there = {side: _valid(outcome.keys.column(name)) for side, name in _ADDRESSES.items()}
        for item in settlements:
            row, choice = item.row, item.choice
            outcome.settled.add(row)
            if choice != "theirs" or item.conflict.kind not in _OF_TWO_SIDES:
                outcome.doubtful.add(row)
            if not isinstance(choice, str):
                if not there["ours"][row] and not taken[row]:
                    outcome.cells[row] = True
                values = given_values(self.entity, item.conflict, choice, resolve)
                outcome.given[row] = {**outcome.given.get(row, {}), **values}
                taken[row], dropped[row] = True, False
            elif not there[choice][row]:
                taken[row], dropped[row] = False, there["ours"][row]
            else:
                is_merged = taken[row] or (there["ours"][row] and not dropped[row])
                cells = item.cells if is_merged and item.cells is not None else np.True_
                self._take_cells(outcome, row, choice, cells)
                is_ours = not outcome.cells[row].any() and row not in outcome.restored
                taken[row] = not is_ours or row in outcome.given
                dropped[row] = False
        outcome.take, outcome.drop = np.flatnonzero(taken), np.flatnonzero(dropped)

    def _take_cells(self, outcome: MergedTable, row: int, choice: str, cells: Any) -> None:
        """Give some cells of an entity the values that one side or the base has."""
        mask = np.broadcast_to(cells, len(self.columns))
        outcome.cells[row, mask] = choice == "theirs"
        restored = outcome.restored.pop(row, np.zeros(len(self.columns), bool))
        restored = np.where(mask, choice == "base", restored)
        if restored.any():
            outcome.restored[row] = restored
        chosen = {name for name, hit in zip(self.columns, mask, strict=True) if hit}
        values = outcome.given.pop(row, {})
        kept = {name: value for name, value in values.items() if name not in chosen}
        if kept:
            outcome.given[row] = kept

    def _merge_rows(
        self,
        outcome: MergedTable,
        rows: Rows,
        kind: ConflictKind,
        resolve: Resolving,
        *,
        by_row: bool,
    ) -> None:
        """Merge entities that both sides have, and have changed."""
        if not len(rows):
            return
        keys, has_base = outcome.keys, kind is ConflictKind.DIVERGENT_UPDATE
        if self.work is None:
            both = keys.take(pa.array(rows))
            merge = self.rows.merged(both, has_base=has_base, by_row=by_row)
        else:
            merge = self.work.merged(self.rows, keys, rows, has_base=has_base, by_row=by_row)
        outcome.cells[rows] = merge.theirs
        outcome.take = np.concatenate([outcome.take, rows[merge.theirs.any(axis=1)]])
        clashes = np.flatnonzero(merge.conflicts.any(axis=1))
        cells = merge.conflicts[clashes]
        described = self.described(outcome.keys, rows[clashes].tolist(), kind, cells)
        found = []
        for about, (row, conflict) in zip(cells, described, strict=True):
            choice = resolve(conflict)
            if choice is None:
                outcome.conflicts.append(conflict)
            else:
                found.append(
                    SettledConflict(row, conflict, choice, self._with_groups(about, by_row=by_row))
                )
        self.settle(outcome, found, resolve)

    def _with_groups(self, cells: npt.NDArray[np.bool_], *, by_row: bool) -> Any:
        """Cells, and those that change together with them."""
        if by_row:
            return np.ones_like(cells)
        chosen = cells.copy()
        for group in self._groups:
            chosen[group] = cells[group].any()
        return chosen

    def leave_unchanged(self, outcome: MergedTable, schema: pa.Schema) -> bool:
        """Do not write rows that come out as our side has them; true if there are any.

        Where two sides disagree, theirs is another one than ours. Values that are given, those of a
        merge base, and of a side that does not break a rule may be the same.
        """
        here = _valid(outcome.keys.column(OURS))
        rows = np.intersect1d(outcome.take, np.array([*outcome.doubtful], np.int64))
        rows = rows[here[rows]]
        if not len(rows):
            return False
        keys = outcome.keys.take(pa.array(rows))
        ours = np.zeros((len(rows), len(self.columns)), np.int8)
        before = self.rows.images(keys, ours, {}, schema)
        after = self.images(outcome, rows, schema)
        same = rows[~unequal_cells(before, after, self.columns).any(axis=1)]
        outcome.take = np.setdiff1d(outcome.take, same)
        return len(same) > 0

    # -- rows --------------------------------------------------------------------------------------

    def differing_cells(self, keys: pa.Table) -> Cells:
        """The cells in which the two sides differ, of entities that both have."""
        return self.rows.differing(keys)

    def images(self, outcome: MergedTable, rows: Rows, schema: pa.Schema) -> pa.Table:
        """Some of the rows that are written, with some columns of the table."""
        keys = outcome.keys.take(pa.array(rows))
        given = self.given(outcome, rows)
        return self.rows.images(keys, self.sources(outcome, rows), given, schema)

    def base_values(self, outcome: MergedTable, row: int) -> dict[str, Any]:
        """The values that one of the rows that are written gets from the merge base."""
        cells = outcome.restored.get(row)
        if cells is None:
            return {}
        names = [name for name, hit in zip(self.columns, cells, strict=True) if hit]
        stored = self.versions.theirs.schema
        schema = pa.schema([stored.field(name) for name in ("id", *names)])
        sources = np.full((1, len(self.columns)), 2, np.int8)
        images = self.rows.images(outcome.keys.slice(row, 1), sources, {}, schema)
        values: dict[str, Any] = images.select(names).to_pylist()[0]
        return values

    def given(self, outcome: MergedTable, rows: Rows) -> dict[int, Given]:
        """The values that were given for some rows, by their places among them."""
        if not outcome.given:
            return {}
        places = {row: place for place, row in enumerate(rows.tolist())}
        return {places[row]: each for row, each in outcome.given.items() if row in places}

    def sources(self, outcome: MergedTable, rows: Rows) -> npt.NDArray[np.int8]:
        """The origins of the cells of some rows: 0 for our side, 1 for theirs, 2 for the base."""
        sources = outcome.cells[rows].astype(np.int8)
        if outcome.restored:
            for place, row in enumerate(rows.tolist()):
                if row in outcome.restored:
                    sources[place][outcome.restored[row]] = 2
        return sources

    def replaced(self, outcome: MergedTable) -> pa.Array:
        """The addresses on our side of rows that go: deleted ones, and old copies of written ones.

        A row that is written again gets a new row id. To keep it, every version that lists it
        would have to be changed, which takes as long as its fragment is large.
        """
        rows = np.concatenate([outcome.drop, outcome.take])
        return outcome.keys.column(OURS).take(pa.array(rows)).drop_null().combine_chunks()

    # -- conflicts ---------------------------------------------------------------------------------

    def described(
        self,
        keys: pa.Table,
        rows: Sequence[int],
        kind: ConflictKind,
        cells: Cells | None = None,
    ) -> Iterator[tuple[int, MergeConflict]]:
        """Describe conflicts about some rows of `keys`, with the values of all sides."""
        if not rows:
            return
        chosen = keys.take(pa.array(rows, pa.int64()))
        ids = chosen.column("id").to_pylist()
        base, ours, theirs = (self._shown(chosen, side) for side in (BEFORE, OURS, AFTER))
        for number, name in enumerate(ids):
            about: Sequence[str] = ()
            if cells is not None:
                about = [
                    display_name(c)
                    for c, hit in zip(self.columns, cells[number], strict=True)
                    if hit
                ]
            conflict = MergeConflict(
                kind=kind,
                entity_kind=self.entity.kind,
                type=self.entity.name,
                id=name,
                properties=tuple(about),
                message=_message(
                    kind, self.entity.name, name, about, is_theirs_gone=theirs[number] is None
                ),
                base=base[number],
                ours=ours[number],
                theirs=theirs[number],
            )
            yield rows[number], conflict

    def _shown(self, keys: pa.Table, side: str) -> list[dict[str, Any] | None]:
        """The values of entities on one side, None for those that are not there."""
        there = _valid(keys.column(side))
        found: list[dict[str, Any] | None] = [None] * len(there)
        chosen = np.flatnonzero(there)
        if not self.columns:
            found = [{} if is_there else None for is_there in there.tolist()]
        elif len(chosen):
            rows = self.rows.read(keys.take(pa.array(chosen)), side)
            rows = rows.rename_columns(list(map(display_name, rows.column_names)))
            for place, row in zip(chosen.tolist(), rows.to_pylist(), strict=True):
                found[place] = row
        return found


def _message(
    kind: ConflictKind, type_name: str, name: str, about: Sequence[str], *, is_theirs_gone: bool
) -> str:
    entity, properties = f"{type_name} {name!r}", ", ".join(about)
    if kind is ConflictKind.DELETE_VS_UPDATE:
        sides = ("theirs", "ours") if is_theirs_gone else ("ours", "theirs")
        return "{} was deleted by {} and changed by {}".format(entity, *sides)
    if kind is ConflictKind.DIVERGENT_INSERT:
        return f"{entity} was inserted on both sides with different values of {properties}"
    if properties:
        return f"{entity}: both sides changed {properties} to different values"
    return f"{entity}: merge bases disagree about who changed it"


def _valid(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return _numpy(column.is_valid())


def _numpy(values: Any) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = np.asarray(values.to_numpy(zero_copy_only=False)).astype(bool)
    return found
