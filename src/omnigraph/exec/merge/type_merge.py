"""One type during a merge: both sides, and the outcome so far."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.dataplane.changes.table_changes import AFTER, BEFORE
from omnigraph.exec.merge.images import MergedImages
from omnigraph.exec.merge.merged_rows import OURS, addresses_of
from omnigraph.exec.merge.schemas import TypeSides
from omnigraph.exec.merge.table_merge import MergedTable, TableMerge, display_name
from omnigraph.exec.mutate.committed import CommittedRows
from omnigraph.exec.schema_change.validation import is_tightened
from omnigraph.lang.catalog.model import Cardinality, EdgeType
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.store.table import ROW_ADDRESS


@dataclass(slots=True, eq=False)
class TypeMerge:
    """One type during a merge: both sides, and the outcome so far.

    Attributes:
        merge: Both sides.
        outcome: What is going to be written.
        sides: The type as the three states have it.
        committed: The rows of our side; None when it does not have the type.
        brought_back: The nodes that exist again because a conflict was settled so.
        touched: Sources of edges that are judged, whichever side has changed their edges.
    """

    merge: TableMerge
    outcome: MergedTable
    sides: TypeSides
    committed: CommittedRows | None
    brought_back: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)

    @property
    def is_tightened(self) -> bool:
        """True if the type gets rules that a side did not have."""
        known = (self.sides.ours, self.sides.theirs)
        return any(
            each is not None and is_tightened(each.entity, self.sides.entity) for each in known
        )

    def candidates(self, wanted: Mapping[str, Sequence[ConstValue]]) -> Iterator[pa.RecordBatch]:
        """Rows of our side that have in each column a value wanted for it, or more."""
        if self.committed is None:
            return iter(())
        if self.sides.is_altered:
            return self.merge.versions.ours.scan(["id", *wanted])
        return self.committed.candidates(wanted)

    def rows_after(
        self, images: MergedImages | None, names: tuple[str, ...]
    ) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows that there are once the merge is done."""
        ours = self.merge.versions.ours
        gone = self.merge.replaced(self.outcome)
        schema = pa.schema([ours.schema.field(name) for name in names])
        if self.committed is not None:
            for rows in ours.scan(names, row_address=True):
                kept = pc.invert(pc.is_in(rows.column(ROW_ADDRESS), value_set=gone))
                yield rows.select(names).filter(kept).cast(schema)
        if images is not None:
            yield from images.projected(names).cast(schema).to_batches()

    @property
    def dropped(self) -> pa.Array:
        """The ids that the merge deletes."""
        return self._ids(self.outcome.drop)

    @property
    def written(self) -> pa.Array:
        """The ids that the merge writes."""
        return self._ids(self.outcome.take)

    @property
    def absent(self) -> pa.Array:
        """The ids that a side has changed and that are not there once the merge is done.

        Those whose existence is a conflict itself are left out: that has to be settled first.
        """
        ours, keys = self.merge.ours, self.outcome.keys
        is_new = np.asarray(keys.column(OURS).is_null())
        is_new[self.outcome.take] = False
        gone = [
            ours.column("id").filter(ours.column(AFTER).is_null()).combine_chunks(),
            self._ids(np.flatnonzero(is_new)),
            self.dropped,
        ]
        found = pa.concat_arrays(gone)
        kept = pa.concat_arrays([self.written, self.disputed])
        return found.filter(pc.invert(pc.is_in(found, value_set=kept)))

    @property
    def decided(self) -> pa.Array:
        """The ids that both sides have changed, or that were brought back, and that exist.

        Those whose existence is a conflict are left out.
        """
        ours, theirs = (side.column("id").combine_chunks() for side in self._sides())
        both = ours.filter(pc.is_in(ours, value_set=theirs))
        found = pa.concat_arrays([both, pa.array(sorted(self.brought_back), pa.string())])
        left_out = pa.concat_arrays([self.absent, self.disputed])
        return found.filter(pc.invert(pc.is_in(found, value_set=left_out)))

    @property
    def kept_ours(self) -> pa.Table:
        """The keys of entities that their side has changed and that stay as our side has them."""
        keys = self.outcome.keys
        is_kept = _mask(keys.column(OURS).is_valid())
        is_kept[np.concatenate([self.outcome.drop, self.outcome.take])] = False
        kept = keys.filter(pa.array(is_kept))
        return kept.filter(pc.invert(pc.is_in(kept.column("id"), value_set=self.disputed)))

    @property
    def stayed(self) -> pa.Array:
        """The addresses on our side of rows that their side has changed and ours has not.

        They stay as they are because a conflict was settled so.
        """
        keys = self.outcome.keys
        is_left = _mask(keys.column(OURS).is_valid())
        is_left &= ~_mask(pc.is_in(keys.column("id"), value_set=self.merge.our_ids))
        is_left[np.concatenate([self.outcome.take, self.outcome.drop])] = False
        return keys.column(OURS).filter(pa.array(is_left)).combine_chunks()

    @property
    def disputed(self) -> pa.Array:
        """The ids of entities that are a conflict themselves."""
        return pa.array([item.id for item in self.outcome.conflicts], pa.string())

    def _sides(self) -> tuple[pa.Table, pa.Table]:
        return self.merge.ours, self.merge.theirs

    def rows_of(self, ids: Collection[str]) -> dict[str, int]:
        """The rows of `MergedTable.keys` of some entities; those that have none are left out."""
        wanted = pa.array(ids, pa.string())
        places = pc.index_in(wanted, value_set=self.outcome.keys.column("id").combine_chunks())
        found = zip(wanted.to_pylist(), places.to_pylist(), strict=True)
        return {name: row for name, row in found if row is not None}

    def keep(self, ids: Collection[str]) -> None:
        """Do not delete some entities."""
        rows = list(self.rows_of(ids).values())
        self.outcome.drop = np.setdiff1d(self.outcome.drop, rows)
        self.outcome.cells[rows] = False

    def leave_unchanged(self) -> bool:
        """Do not write rows that come out as our side has them; true if there are any."""
        return self.merge.leave_unchanged(self.outcome, table_schema(self.sides.entity))

    def is_settled(self, name: str) -> bool:
        """True if an entity is as it is because something was settled so."""
        return not self.outcome.settled.isdisjoint(self.rows_of([name]).values())

    def restore(self, name: str) -> None:
        """Let an entity stay or come back, as a side has it, if it is gone."""
        if pc.is_in(pa.scalar(name), value_set=self.absent).as_py():
            self.keep([name])
            self.brought_back.add(name)
        if pc.is_in(pa.scalar(name), value_set=self.absent).as_py():
            self.bring_back([name])

    def located(self, ids: Sequence[str]) -> pa.Table:
        """The keys of entities that a side has changed, in the order of their ids."""
        keys, ours = self.outcome.keys, self.merge.ours
        known = self.rows_of(ids)
        names = pa.array([name for name in ids if name not in known], pa.string())
        ours = ours.take(pc.index_in(names, value_set=self.merge.our_ids))
        # Of what their side has left alone, it has the row of the base.
        after = self.merge.in_theirs(ours.column(BEFORE).combine_chunks())
        columns = {"id": names, BEFORE: ours.column(BEFORE), AFTER: after, OURS: ours.column(AFTER)}
        rest = pa.table({name: columns[name] for name in keys.column_names}, schema=keys.schema)
        found = pa.concat_tables([keys.take(pa.array(known.values(), pa.int64())), rest])
        return found.take(
            pc.index_in(pa.array(ids, pa.string()), value_set=found.column("id").combine_chunks())
        )

    def disputed_in(self, columns: Sequence[str]) -> pa.Array:
        """The ids of entities whose existence or whose values in some columns are a conflict."""
        about = {display_name(name) for name in columns}
        found = [
            item.id
            for item in self.outcome.conflicts
            if not item.properties or about.intersection(item.properties)
        ]
        return pa.array(found, pa.string())

    def key_of(self, name: str) -> pa.Table:
        """The key of any entity, which need not have changed."""
        is_known = self.rows_of([name]) or pc.is_in(pa.scalar(name), self.merge.our_ids).as_py()
        if is_known:
            return self.located([name])
        wanted, versions = pa.array([name], pa.string()), self.merge.versions
        columns = {BEFORE: versions.base, AFTER: versions.theirs, OURS: versions.ours}
        found = {side: [addresses_of(rows, wanted).get(name)] for side, rows in columns.items()}
        schema = self.outcome.keys.schema
        columns_now = {"id": wanted, **found}
        return pa.table({item.name: columns_now[item.name] for item in schema}, schema=schema)

    def sources(self, keys: pa.Table) -> Iterator[str]:
        """The sources that some edges have at the base and on both sides."""
        for column in (BEFORE, OURS, AFTER):
            addresses = keys.column(column).drop_null().combine_chunks()
            if len(addresses):
                rows = self.merge.versions.side(column).take(addresses, ["src"])
                yield from rows.column("src").to_pylist()

    def touch_sources(self) -> None:
        """Have the sources of all edges judged that a side has changed.

        With several merge bases, what comes out at a source need not be what either side has.
        """
        edge = self.merge.entity
        if isinstance(edge, EdgeType) and edge.cardinality != Cardinality():
            for keys in (self.outcome.keys, self.located(self.merge.our_ids.to_pylist())):
                self.touched.update(self.sources(keys))

    def row_of(self, key: pa.Table) -> int:
        """The row of `MergedTable.keys` of an entity; a new one keeps ours."""
        values = {name: key.column(name)[0].as_py() for name in (BEFORE, AFTER, OURS)}
        name = key.column("id")[0].as_py()
        row = self.rows_of([name]).get(name)
        if row is None:
            row = self._add_key(name, values[BEFORE], values[AFTER], values[OURS])
            self.outcome.cells[row] = False
        return row

    def bring_back(self, ids: Collection[str]) -> None:
        """Write entities that our side has deleted, as their side has them."""
        known = self.rows_of(ids)
        missing = pa.array([name for name in ids if name not in known], pa.string())
        if len(missing):
            versions = self.merge.versions
            before, after = (
                addresses_of(side, missing) for side in (versions.base, versions.theirs)
            )
            known |= {
                name: self._add_key(name, before.get(name), address, None)
                for name, address in after.items()
            }
        rows = [row for row in known.values() if self.outcome.keys.column(AFTER)[row].is_valid]
        self.outcome.cells[rows] = True
        self.outcome.take = np.union1d(self.outcome.take, np.array(rows, np.int64))
        self.brought_back.update(known)

    def _add_key(self, name: str, before: int | None, after: int | None, ours: int | None) -> int:
        outcome = self.outcome
        fields = {"id": [name], BEFORE: [before], AFTER: [after], OURS: [ours]}
        row = pa.table(fields, schema=outcome.keys.schema)
        outcome.keys = pa.concat_tables([outcome.keys, row])
        outcome.cells = np.vstack([outcome.cells, np.ones((1, outcome.cells.shape[1]), bool)])
        return int(outcome.keys.num_rows - 1)

    def _ids(self, rows: npt.NDArray[np.int64]) -> pa.Array:
        return self.outcome.keys.column("id").combine_chunks().take(pa.array(rows))


Types = Mapping[str, TypeMerge]


def _mask(values: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy()).astype(bool)
