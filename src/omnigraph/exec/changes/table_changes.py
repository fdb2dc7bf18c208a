"""The changes of one type between two versions of its table.

The store tells which rows the versions do not share. Their ids are joined: an id on one side alone
was inserted or deleted, an id on both sides was updated, unless the row only moved. Only rows whose
id is on both sides have to be read to know that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.load.hashing import partitions_of
from omnigraph.errors import JsonValue
from omnigraph.exec.changes.equality import Mask, equal_values
from omnigraph.runtime import cancellation
from omnigraph.store.blob_cells import read_blob
from omnigraph.store.table import Table
from omnigraph.store.table_diff import RowSelection, TableDiff

_ID: Final = "id"
# The row ids of an entity in both versions; null where it is not there.
BEFORE: Final = "_rowid_before"
AFTER: Final = "_rowid_after"
# The size of the pieces in which two blobs are compared.
_BLOB_PIECE_BYTES: Final = 1 << 20


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCounts:
    """Numbers of changed entities."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @classmethod
    def of(cls, numbers: JsonValue) -> ChangeCounts:
        """The counts that a commit has recorded: inserted, updated, deleted."""
        found = [each if isinstance(each, int) else 0 for each in _listed(numbers)]
        inserted, updated, deleted = found
        return cls(inserted=inserted, updated=updated, deleted=deleted)

    @property
    def total(self) -> int:
        """The number of all changed entities."""
        return self.inserted + self.updated + self.deleted

    def __add__(self, other: ChangeCounts) -> ChangeCounts:
        return ChangeCounts(
            inserted=self.inserted + other.inserted,
            updated=self.updated + other.updated,
            deleted=self.deleted + other.deleted,
        )


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) and len(value) == 3 else [0, 0, 0]


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
        self._before = diff.removed.table
        self._after = diff.added.table

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
        for keys in self._keys():
            both = _on_both_sides(keys)
            updated = sum(
                int((~self._equal_rows(batch)).sum())
                for batch in self._in_batches(keys.filter(both))
            )
            total += ChangeCounts(
                inserted=keys.column(BEFORE).null_count,
                updated=updated,
                deleted=keys.column(AFTER).null_count,
            )
        return total

    def keys(self) -> pa.Table:
        """The ids of all changed entities, sorted, with their row ids before and after."""
        found = []
        for keys in self._keys():
            changed = np.ones(keys.num_rows, bool)
            both = np.flatnonzero(_mask(_on_both_sides(keys)))
            for start in range(0, len(both), self._limits.batch_rows):
                cancellation.check()
                rows = both[start : start + self._limits.batch_rows]
                changed[rows] = ~self._equal_rows(keys.take(pa.array(rows)))
            found.append(keys.filter(pa.array(changed)))
        if not found:
            fields = [(_ID, pa.string()), (BEFORE, pa.uint64()), (AFTER, pa.uint64())]
            return pa.schema(fields).empty_table()
        return pa.concat_tables(found).sort_by(_ID)

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

    def _keys(self, after: str | None = None) -> Iterator[pa.Table]:
        """Yield the ids of unshared rows with the row ids of both sides, each id once, by id."""
        removed, added = self._diff.removed, self._diff.added
        parts = -(-(removed.count + added.count) // self._limits.keys_max)
        first = 0
        if after is not None and parts > 1:
            first = int(partitions_of([pa.array([after], pa.string())], parts)[0])
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
        changed = self._changed_columns(keys, before, after, ~inserted & ~deleted)
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

    def _equal_rows(self, keys: pa.Table) -> Mask:
        """Compare the images of entities that are on both sides."""
        before = self._rows(self._before, keys.column(BEFORE))
        after = self._rows(self._after, keys.column(AFTER))
        everywhere = np.ones(keys.num_rows, bool)
        unequal: Mask = np.any(self._changed_columns(keys, before, after, everywhere), axis=1)
        return ~unequal

    def _changed_columns(
        self, keys: pa.Table, before: pa.Table, after: pa.Table, rows: Mask
    ) -> npt.NDArray[np.bool_]:
        """Return for each entity and column whether an update changed it."""
        changed = np.zeros((keys.num_rows, len(self._columns)), bool)
        for number, name in enumerate(self._columns):
            same = equal_values(_column(before, name), _column(after, name))
            if name in self._blobs:
                same = self._equal_blobs(name, keys, same & rows)
            changed[:, number] = rows & ~same
        return changed

    def _equal_blobs(self, name: str, keys: pa.Table, same_size: Mask) -> Mask:
        """Compare blobs of equal size by their content, piece by piece."""
        same = same_size.copy()
        for row in np.flatnonzero(same_size).tolist():
            ids = (int(keys.column(side)[row].as_py()) for side in (BEFORE, AFTER))
            same[row] = _equal_blob(name, self._before, self._after, *ids)
        return same

    def _rows(self, table: Table, row_ids: pa.ChunkedArray) -> pa.Table:
        """Read rows by their row ids; a null gives a row of nulls."""
        there = row_ids.drop_null()
        if len(there):
            found = table.take(there.combine_chunks(), self._columns)
        else:
            found = pa.schema(map(self._field, self._columns)).empty_table()
        for name in self._blobs if len(there) else ():
            sizes = pa.chunked_array(map(_blob_sizes, found.column(name).chunks))
            place = found.schema.get_field_index(name)
            found = found.set_column(place, self._field(name), sizes)
        if row_ids.null_count == 0:
            return found
        places = np.cumsum(~_mask(row_ids.is_null())) - 1
        return found.take(pa.array(places, mask=_mask(row_ids.is_null())))

    def _image(self, kind: pa.StructType, rows: pa.Table, absent: Mask) -> pa.StructArray:
        """The images of entities as one column; null where the entity is not there."""
        arrays = [
            _column(rows, name).cast(field.type)
            for name, field in zip(self._columns, kind, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(absent))


def _blob_sizes(described: pa.StructArray) -> pa.StructArray:
    """The sizes of blobs, from what the store says of them."""
    size = described.field("size")
    return pa.StructArray.from_arrays([size], ["size"], mask=described.is_null())


def _keys_of(rows: RowSelection, name: str, part: int, parts: int) -> pa.Table:
    """The ids of one part of the selected rows, with their row ids."""
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


def _joined(before: pa.Table, after: pa.Table) -> pa.Table:
    """Join the ids of both sides, sorted."""
    old, new = (side.column(_ID).combine_chunks() for side in (before, after))
    match = pc.index_in(new, value_set=old)
    on_both = pc.is_in(old, value_set=new)
    alone = before.filter(pc.invert(on_both))
    joined = pa.table(
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
    return joined.take(pc.sort_indices(joined.column(_ID)))


def _on_both_sides(keys: pa.Table) -> pa.ChunkedArray:
    return pc.and_(keys.column(BEFORE).is_valid(), keys.column(AFTER).is_valid())


def _equal_blob(name: str, before: Table, after: Table, old: int, new: int) -> bool:
    start = 0
    while True:
        left = read_blob(before, name, old, offset=start, length=_BLOB_PIECE_BYTES)
        right = read_blob(after, name, new, offset=start, length=_BLOB_PIECE_BYTES)
        if left is None or right is None:
            return left is right
        if left.data != right.data:
            return False
        start += _BLOB_PIECE_BYTES
        if start >= left.size:
            return True


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
