"""The changes of one type between two versions of its table.

The store tells which rows the versions do not share. Their ids are joined: an id on one side alone
was inserted or deleted, an id on both sides was updated, unless the row only moved. Only rows whose
id is on both sides have to be read to know that. Where one version was made from the other one, the
row ids tell most of the pairs, and the ids of the older version need not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.changes.equality import Mask
from omnigraph.dataplane.changes.row_comparison import RowComparison, blob_sizes
from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.dataplane.load.hashing import partitions_of
from omnigraph.runtime import cancellation
from omnigraph.store.reading.row_addresses import AddressedRows, Addresses
from omnigraph.store.reading.table_diff import RowSelection, TableDiff
from omnigraph.store.table import ROW_ADDRESS

_ID: Final = "id"
# The addresses of the row of an entity in both versions; null where it is not there.
BEFORE: Final = "_rowaddr_before"
AFTER: Final = "_rowaddr_after"


class Operation(StrEnum):
    """The kind of a change of one entity."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLimits:
    """Bounds of the memory that reading changes takes.

    Attributes:
        keys_max: The most ids that are joined at once, of both sides together; about 100 bytes
            each. More are joined part by part.
        batch_rows: The most changes whose images are read at once.
    """

    keys_max: int = 4_000_000
    batch_rows: int = 8_192


# Tells of pairs of rows, by their addresses in both versions, whether they differ.
Comparing = Callable[[Addresses, Addresses], Mask]


_NO_KEYS: Final = pa.schema(
    [(_ID, pa.string()), (BEFORE, pa.uint64()), (AFTER, pa.uint64())]
).empty_table()


@dataclass(frozen=True, slots=True, eq=False)
class ChangedKeys:
    """The changed entities of one table, and the places of all others.

    Attributes:
        keys: The ids of changed entities, in no order, with their addresses `BEFORE` and `AFTER`.
            From `TableChanges.touched`, also of some that were rewritten as they were.
        moved_from: The addresses of rows that were rewritten as they were, ascending.
        moved_to: Their addresses in the newer version.
        diff: The rows that the two versions do not share.
    """

    keys: pa.Table
    moved_from: Addresses
    moved_to: Addresses
    diff: TableDiff

    def nothing(self) -> ChangedKeys:
        """No changes of the same table."""
        empty = np.empty(0, np.uint64)
        return ChangedKeys(keys=_NO_KEYS, moved_from=empty, moved_to=empty, diff=self.diff)

    def confirmed(self, others: ChangedKeys, unequal: Comparing) -> ChangedKeys:
        """The same without entities that others have changed and that were rewritten as they were.

        Args:
            others: Changes since the same version; only about these entities has it to be known.
            unequal: Compares pairs of rows.
        """
        keys = self.keys
        asked = np.zeros(keys.num_rows, bool)
        asked[np.asarray(same_before(others.keys, keys).drop_null(), np.int64)] = True
        chosen = np.flatnonzero(asked & _mask(_on_both_sides(keys)))
        if not len(chosen):
            return self
        before, after = _pairs(keys, chosen)
        has_moved = ~unequal(before, after)
        if not has_moved.any():
            return self
        is_changed = np.ones(keys.num_rows, bool)
        is_changed[chosen[has_moved]] = False
        moved_from = np.concatenate([self.moved_from, before[has_moved]])
        moved_to = np.concatenate([self.moved_to, after[has_moved]])
        order = np.argsort(moved_from)
        return ChangedKeys(
            keys=keys.filter(pa.array(is_changed)),
            moved_from=moved_from[order],
            moved_to=moved_to[order],
            diff=self.diff,
        )

    def in_newer(self, addresses: Addresses) -> Addresses:
        """The addresses in the newer version of rows that have not changed since the older one."""
        found = np.empty(len(addresses), np.uint64)
        near = np.searchsorted(self.moved_from, addresses)
        near = np.minimum(near, max(len(self.moved_from) - 1, 0))
        has_moved = np.zeros(len(addresses), bool)
        if len(self.moved_from):
            has_moved = self.moved_from[near] == addresses
            found[has_moved] = self.moved_to[near[has_moved]]
        found[~has_moved] = self.diff.in_newer(addresses[~has_moved])
        return found


def same_before(some: pa.Table, others: pa.Table) -> pa.Array:
    """For each of some changed entities its place among others; null where it is not there.

    Both are changes since one version. Told by the addresses there, so not of new entities.
    """
    left, right = (side.column(BEFORE).combine_chunks() for side in (some, others))
    return pc.index_in(left, value_set=right, skip_nulls=True)


class TableChanges:
    """The changes of one table, read when they are asked for."""

    def __init__(
        self,
        diff: TableDiff,
        columns: Mapping[str, str],
        blobs: Sequence[str],
        limits: ChangeLimits,
    ) -> None:
        """Read the changes of a table.

        Args:
            diff: The rows that the two versions do not share.
            columns: The columns of the images, and what users call them.
            blobs: The columns among them that hold blobs; an image has their size.
            limits: Bounds of the memory that it takes.
        """
        self._diff = diff
        self._limits = limits
        self._columns = list(columns)
        self._names = list(columns.values())
        self._blobs = frozenset(blobs)
        self._before = diff.removed.rows
        self._after = diff.added.rows
        self.comparison = RowComparison(self._before, self._after, self._columns, self._blobs)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches: operation, id, changed properties, both images."""
        fields = map(self._field, self._columns)
        image = pa.struct(
            [field.with_name(name) for field, name in zip(fields, self._names, strict=True)]
        )
        return pa.schema(
            [
                pa.field("operation", pa.string()),
                pa.field("id", pa.string()),
                pa.field("changed", pa.list_(pa.string())),
                pa.field("before", image),
                pa.field("after", image),
            ]
        )

    def _field(self, name: str) -> pa.Field:
        if name in self._blobs:
            return pa.field(name, pa.struct([pa.field("size", pa.uint64())]))
        return self._after.schema.field(name).with_nullable(True).remove_metadata()

    def counts(self) -> ChangeCounts:
        """Count the changes. Reads the rows of ids on both sides, and ids otherwise."""
        total = ChangeCounts()
        for keys in self._unordered_keys():
            both = _on_both_sides(keys)
            total += ChangeCounts(
                inserted=keys.column(BEFORE).null_count,
                updated=int(self.comparison.unequal(*_pairs(keys, _places(both))).sum()),
                deleted=keys.column(AFTER).null_count,
            )
        return total

    def keys(self, unequal: Comparing | None = None) -> ChangedKeys:
        """The ids of all changed entities, with their addresses before and after.

        Args:
            unequal: Compares pairs of rows; by default they are read here.
        """
        return self._changed_keys(unequal or self.comparison.unequal)

    def touched(self) -> ChangedKeys:
        """The same, with entities whose rows were rewritten as they were; reads no more than ids.

        A few are compared one by one, see `ChangedKeys.confirmed`.
        """
        return self._changed_keys(lambda before, _after: np.ones(len(before), bool))

    def _changed_keys(self, compare: Comparing) -> ChangedKeys:
        changed, moved = [_NO_KEYS], [_NO_KEYS]
        for keys in self._unordered_keys():
            is_changed = np.ones(keys.num_rows, bool)
            both = np.flatnonzero(_mask(_on_both_sides(keys)))
            is_changed[both] = compare(*_pairs(keys, both))
            if is_changed.all():
                changed.append(keys)
                continue
            changed.append(keys.filter(pa.array(is_changed)))
            moved.append(keys.filter(pa.array(~is_changed)))
        places = pa.concat_tables(moved)
        before, after = (np.asarray(places.column(side), np.uint64) for side in (BEFORE, AFTER))
        order = np.argsort(before)
        return ChangedKeys(
            keys=pa.concat_tables(changed),
            moved_from=before[order],
            moved_to=after[order],
            diff=self._diff,
        )

    def batches(self, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the changes with their images, by id; by parts of the ids when there are many.

        Args:
            after: The id of the last change that is left out, and all before it.
        """
        for keys in self._keys(after):
            for batch in self._in_batches(keys):
                found = self._images(batch)
                if found.num_rows:
                    yield found

    def inserts(self) -> Iterator[pa.RecordBatch]:
        """Yield all entities of the newer version as inserts, in the order of storage."""
        schema = self.schema
        image = schema.field("after").type
        plain = [name for name in self._columns if name not in self._blobs]
        rows = self._after.scan([_ID, *plain], row_address=True, batch_rows=self._limits.batch_rows)
        for batch in rows:
            cancellation.check()
            count = batch.num_rows
            found = pa.Table.from_batches([batch])
            if self._blobs:
                blobs = self._after.take(batch.column(ROW_ADDRESS), sorted(self._blobs))
                for name, column in zip(blobs.column_names, blobs.columns, strict=True):
                    found = found.append_column(name, column)
                found = blob_sizes(found, self._blobs)
            arrays = [
                pa.array([Operation.INSERT.value] * count, pa.string()),
                batch.column(_ID).cast(pa.string()),
                pa.array([[]] * count, pa.list_(pa.string())),
                pa.nulls(count, image),
                self._image(image, found, np.zeros(count, bool)),
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def of(self, entity_id: str) -> pa.RecordBatch | None:
        """The change of one entity as a batch of one row; None when it has not changed."""
        for keys in self._keys():
            chosen = keys.filter(pc.equal(keys.column(_ID), entity_id))
            found = self._images(chosen) if chosen.num_rows else None
            if found is not None and found.num_rows:
                return found
        return None

    def _keys(self, after: str | None = None) -> Iterator[pa.Table]:
        """Yield the ids of unshared rows with the addresses on both sides, each id once, by id."""
        for keys in self._unordered_keys(after):
            yield keys.take(pc.sort_indices(keys.column(_ID)))

    def _unordered_keys(self, after: str | None = None) -> Iterator[pa.Table]:
        """Yield the same, the ids of each part in any order."""
        removed, added = self._diff.removed, self._diff.added
        parts = -(-(removed.count + added.count) // self._limits.keys_max)
        first = 0
        if after is not None and parts > 1:
            first = int(partitions_of([pa.array([after], pa.string())], parts)[0])
        if parts == 1 and self._diff.is_same_history:
            keys = _joined_by_row_id(removed, added, [] if self._blobs else self._columns)
            yield keys if after is None else keys.filter(pc.greater(keys.column(_ID), after))
            return
        for part in range(first, parts):
            keys = _joined(
                _keys_of(removed, BEFORE, part, parts), _keys_of(added, AFTER, part, parts)
            )
            if after is not None and part == first:
                keys = keys.filter(pc.greater(keys.column(_ID), after))
            yield keys

    def _in_batches(self, keys: pa.Table) -> Iterator[pa.Table]:
        for start in range(0, keys.num_rows, self._limits.batch_rows):
            cancellation.check()
            yield keys.slice(start, self._limits.batch_rows)

    def _images(self, keys: pa.Table) -> pa.RecordBatch:
        """Read both images of some entities; rows that only moved are left out."""
        inserted = _mask(keys.column(BEFORE).is_null())
        deleted = _mask(keys.column(AFTER).is_null())
        before = self._rows(self._before, keys.column(BEFORE))
        after = self._rows(self._after, keys.column(AFTER))
        changed = self.comparison.changed_columns(
            before, after, keys.column(BEFORE), keys.column(AFTER), ~inserted & ~deleted
        )
        kept = inserted | deleted | np.any(changed, axis=1)
        operation = np.where(inserted, Operation.INSERT, Operation.UPDATE).astype(object)
        operation[deleted] = Operation.DELETE
        schema = self.schema
        arrays = [
            pa.array([str(each) for each in operation], pa.string()),
            keys.column(_ID).combine_chunks().cast(pa.string()),
            _names(self._names, changed),
            self._image(schema.field("before").type, before, inserted),
            self._image(schema.field("after").type, after, deleted),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema).filter(pa.array(kept))

    def _rows(self, side: AddressedRows, addresses: pa.ChunkedArray) -> pa.Table:
        """Read rows by their addresses; a null gives a row of nulls."""
        if not self._columns:
            return pa.table({})
        there = addresses.drop_null()
        if len(there):
            found = blob_sizes(side.take(there.combine_chunks(), self._columns), self._blobs)
        else:
            found = pa.schema(map(self._field, self._columns)).empty_table()
        if addresses.null_count == 0:
            return found
        places = np.cumsum(~_mask(addresses.is_null())) - 1
        return found.take(pa.array(places, mask=_mask(addresses.is_null())))

    def _image(self, kind: pa.StructType, rows: pa.Table, absent: Mask) -> pa.StructArray:
        """The images of entities as one column; null where the entity is not there."""
        if not self._columns:
            return pa.array([None if is_absent else {} for is_absent in absent.tolist()], kind)
        arrays = [
            _column(rows, name).cast(field.type)
            for name, field in zip(self._columns, kind, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(absent))


def _keys_of(rows: RowSelection, name: str, part: int, parts: int) -> pa.Table:
    """The ids of one part of the selected rows, with their addresses."""
    reader = rows.scan([_ID])
    batches = []
    for batch in reader:
        cancellation.check()
        if parts > 1:
            chosen = partitions_of([batch.column(0)], parts) == part
            batch = batch.filter(pa.array(chosen))  # noqa: PLW2901
        batches.append(batch)
    found = pa.Table.from_batches(batches, reader.schema)
    return found.rename_columns([_ID, name])


def _joined_by_row_id(
    removed: RowSelection, added: RowSelection, columns: Sequence[str]
) -> pa.Table:
    """Join both sides by their row ids, and by id what is left of them.

    The added rows come first, in their order. Of a few of them some columns are read at once and
    kept.
    """
    old, new = removed.every_address, added.every_address
    if added.is_small:
        kept = added.rows.take(new, [_ID, *columns]).append_column(ROW_ADDRESS, pa.array(new))
        added.rows.keep(kept)
    else:
        kept = added.rows.take(new, [_ID])
    old_ids, new_ids = removed.rows.row_ids(old), added.rows.row_ids(new)
    match = pc.index_in(pa.array(new_ids), value_set=pa.array(old_ids))
    is_new, before = _mask(match.is_null()), np.zeros(len(new), np.uint64)
    places = np.asarray(match.drop_null(), np.int64)
    before[~is_new] = old[places]
    is_gone = np.ones(len(old), bool)
    is_gone[places] = False
    gone, ids = old[is_gone], kept.column(_ID)
    gone_ids = removed.rows.take(gone, [_ID]).column(_ID)
    if len(gone) and is_new.any():
        fresh = np.flatnonzero(is_new)
        match = pc.index_in(ids.take(pa.array(fresh)), value_set=gone_ids.combine_chunks())
        again = fresh[_mask(match.is_valid())]
        places = np.asarray(match.drop_null(), np.int64)
        before[again] = gone[places]
        is_new[again] = False
        is_left = np.ones(len(gone), bool)
        is_left[places] = False
        gone, gone_ids = gone[is_left], gone_ids.filter(pa.array(is_left))
    sides = [
        pa.chunked_array([pa.array(before, mask=is_new), pa.array(gone)]),
        pa.chunked_array([pa.array(new), pa.nulls(len(gone), pa.uint64())]),
    ]
    both = pa.chunked_array([*ids.chunks, *gone_ids.chunks], pa.string())
    return pa.table([both, *sides], schema=_NO_KEYS.schema)


def _joined(before: pa.Table, after: pa.Table) -> pa.Table:
    """Join the ids of both sides."""
    old, new = (side.column(_ID).combine_chunks() for side in (before, after))
    match = pc.index_in(new, value_set=old)
    on_both = pc.is_in(old, value_set=new)
    alone = before.filter(pc.invert(on_both))
    return pa.table(
        {
            _ID: pa.chunked_array([new, *alone.column(_ID).chunks], pa.string()),
            BEFORE: pa.chunked_array(
                [*before.column(BEFORE).take(match).chunks, *alone.column(BEFORE).chunks],
                pa.uint64(),
            ),
            AFTER: pa.chunked_array(
                [*after.column(AFTER).chunks, pa.nulls(alone.num_rows, pa.uint64())], pa.uint64()
            ),
        }
    )


def _pairs(keys: pa.Table, chosen: npt.NDArray[np.int64]) -> tuple[Addresses, Addresses]:
    """The addresses of some rows, which are on both sides."""
    rows = keys.select([BEFORE, AFTER]).take(pa.array(chosen))
    before, after = (np.asarray(rows.column(side), np.uint64) for side in (BEFORE, AFTER))
    return before, after


def _places(mask: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.flatnonzero(_mask(mask))


def _on_both_sides(keys: pa.Table) -> pa.ChunkedArray:
    return pc.and_(keys.column(BEFORE).is_valid(), keys.column(AFTER).is_valid())


def _names(columns: Sequence[str], changed: npt.NDArray[np.bool_]) -> pa.ListArray:
    """The names of the changed columns of each row."""
    rows, places = np.nonzero(changed)
    ends = np.searchsorted(rows, np.arange(len(changed) + 1))
    names = pa.array(columns, pa.string()).take(pa.array(places))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), names)


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _mask(values: pa.Array | pa.ChunkedArray) -> Mask:
    found: Mask = np.asarray(values.to_numpy(zero_copy_only=False)).astype(bool)
    return found
