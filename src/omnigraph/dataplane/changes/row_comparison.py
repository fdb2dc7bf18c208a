"""Comparing rows of two versions of a table by their content.

Reading scattered rows of the older version is what costs: a block of a data file is decoded for
each of them and each column. One column in which a row differs is enough to know that it has
changed. So a few rows are compared as a whole first, and the others in the column that they show
as changed; only rows that are equal in it are read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.dataplane.changes.equality import Mask, equal_values
from omnigraph.runtime import cancellation
from omnigraph.store.reading.blob_values import BlobRange, read_blob
from omnigraph.store.reading.row_addresses import AddressedRows, Addresses

# The rows that are compared as a whole to find a column that changes.
_SAMPLE_ROWS: Final = 16
# About the most bytes and rows that are held at once.
_BATCH_BYTES: Final = 64 << 20
_BATCH_ROWS_MAX: Final = 1 << 17
# The size of the pieces in which two blobs are compared.
_BLOB_PIECE_BYTES: Final = 1 << 20


class RowComparison:
    """Compares rows that stand for the same entities in two versions of a table."""

    def __init__(
        self,
        before: AddressedRows,
        after: AddressedRows,
        columns: Sequence[str],
        blobs: frozenset[str],
    ) -> None:
        """Compare these columns; those among them that hold blobs are compared by content."""
        self.before = before
        self.after = after
        self.columns = list(columns)
        self.blobs = blobs

    def unequal(self, before: Addresses, after: Addresses) -> Mask:
        """Return, for each pair of rows, whether it differs."""
        found = np.zeros(len(before), bool)
        if not self.columns or not len(before):
            return found
        # In the order of the older version, neighbours share blocks.
        order = np.argsort(before)
        sample, rest = order[:_SAMPLE_ROWS], order[_SAMPLE_ROWS:]
        cells, width = self._sampled(before[sample], after[sample])
        found[sample] = cells.any(axis=1)
        column = self._column_of_most_changes(cells)
        if column is not None:
            for rows in _batches(rest, width):
                found[rows] = self._differ(column, before[rows], after[rows])
            rest = rest[~found[rest]]
        for rows in _batches(rest, width):
            found[rows] = self._cells(before[rows], after[rows], column).any(axis=1)
        return found

    def changed_columns(
        self, old: pa.Table, new: pa.Table, before: pa.Array, after: pa.Array, rows: Mask
    ) -> npt.NDArray[np.bool_]:
        """Return whether each column of each pair of images differs; only where `rows` is set."""
        changed = np.zeros((len(rows), len(self.columns)), bool)
        for number, name in enumerate(self.columns):
            same = equal_values(_column(old, name), _column(new, name))
            if name in self.blobs:
                same = self._equal_blobs(name, before, after, same & rows)
            changed[:, number] = rows & ~same
        return changed

    def _sampled(self, before: Addresses, after: Addresses) -> tuple[Any, float]:
        """The cells in which some rows differ, and about how many bytes a pair of rows has."""
        old, new = self._take(before, after, self.columns)
        everywhere = np.ones(len(before), bool)
        cells = self.changed_columns(old, new, pa.array(before), pa.array(after), everywhere)
        return cells, (old.nbytes + new.nbytes) / len(before)

    def _column_of_most_changes(self, cells: npt.NDArray[np.bool_]) -> str | None:
        """The column in which most rows differ; None when it is less than half of them."""
        hits = cells.sum(axis=0)
        schema = self.after.schema

        def rank(place: int) -> tuple[int, bool]:
            kind = schema.field(self.columns[place]).type
            return int(hits[place]), pa.types.is_primitive(kind)

        places = [place for place, name in enumerate(self.columns) if name not in self.blobs]
        best = max(places, key=rank, default=None)
        if best is None or 2 * hits[best] < len(cells):
            return None
        return self.columns[best]

    def _differ(self, column: str, before: Addresses, after: Addresses) -> Mask:
        old, new = self._take(before, after, [column])
        return ~equal_values(_column(old, column), _column(new, column))

    def _cells(self, before: Addresses, after: Addresses, known: str | None) -> Any:
        """The cells in which rows differ that are equal in a column."""
        if not len(before):
            return np.zeros((0, len(self.columns)), bool)
        names = [name for name in self.columns if name != known]
        part = RowComparison(self.before, self.after, names, self.blobs)
        return part._sampled(before, after)[0]

    def _take(
        self, before: Addresses, after: Addresses, columns: Sequence[str]
    ) -> tuple[pa.Table, pa.Table]:
        found = []
        for side, addresses in ((self.before, before), (self.after, after)):
            rows = side.take(addresses, columns)
            found.append(blob_sizes(rows, self.blobs.intersection(columns)))
        return found[0], found[1]

    def _equal_blobs(self, name: str, before: pa.Array, after: pa.Array, same_size: Mask) -> Mask:
        """Compare blobs of equal size by their content, piece by piece."""
        same = same_size.copy()
        for row in np.flatnonzero(same_size).tolist():
            same[row] = self._equal_blob(name, int(before[row].as_py()), int(after[row].as_py()))
        return same

    def _equal_blob(self, name: str, before: int, after: int) -> bool:
        start = 0
        while True:
            left, right = (
                _blob_piece(side, name, address, start)
                for side, address in ((self.before, before), (self.after, after))
            )
            if left is None or right is None:
                return left is right
            if left.data != right.data:
                return False
            start += _BLOB_PIECE_BYTES
            if start >= left.size:
                return True


def _blob_piece(rows: AddressedRows, name: str, address: int, start: int) -> BlobRange | None:
    source = rows.stored_name(name)
    if source is None:
        return None
    return read_blob(
        rows.table, source, address, offset=start, length=_BLOB_PIECE_BYTES, by_address=True
    )


def blob_sizes(rows: pa.Table, blobs: frozenset[str]) -> pa.Table:
    """Put the sizes of blobs, as structs, in the place of their descriptions."""
    for name in blobs:
        place = rows.schema.get_field_index(name)
        sizes = [
            pa.StructArray.from_arrays([chunk.field("size")], ["size"], mask=chunk.is_null())
            for chunk in rows.column(name).chunks
        ]
        kind = pa.struct([pa.field("size", pa.uint64())])
        rows = rows.set_column(place, pa.field(name, kind), pa.chunked_array(sizes, kind))
    return rows


def _batches(rows: npt.NDArray[np.int64], width: float) -> Iterator[npt.NDArray[np.int64]]:
    count = min(_BATCH_ROWS_MAX, max(_SAMPLE_ROWS, int(_BATCH_BYTES / max(width, 1.0))))
    for start in range(0, len(rows), count):
        cancellation.check()
        yield rows[start : start + count]


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
