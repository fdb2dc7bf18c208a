"""Uncommitted changes of one table, and the table as it reads with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.direct.lookup import Keys, RowLookup, having
from omnigraph.exec.mutate.delta import TypeDelta
from omnigraph.store.table import ROW_ID, Table

RowNumbers = npt.NDArray[np.int64]
# Rows that are not stored yet have identities above all that are.
_FIRST_NEW_ROW_ID: Final = 1 << 62
_BATCH_ROWS: Final = 8_192


@dataclass(frozen=True, slots=True, eq=False)
class TableOverlay:
    """Uncommitted changes of one table.

    Attributes:
        images: The rows that are new or replace others, with all columns.
        image_rows: The identity of each of them.
        removed_rows: The identities of the committed rows that are gone.
        touched: The ids of all of them.
        row_count: How many rows the table has with them.
    """

    images: pa.Table
    image_rows: RowNumbers
    removed_rows: RowNumbers
    touched: pa.Array
    row_count: int

    @classmethod
    def of(cls, delta: TypeDelta) -> TableOverlay:
        """The changes of a type, as a reader sees them."""
        committed, schema = delta.committed, delta.committed.table.schema
        images = committed.schema.empty_table() if delta.images is None else delta.images
        known = images.column(ROW_ID)
        new = np.flatnonzero(known.is_null().to_numpy())
        rows = known.fill_null(0).to_numpy().astype(np.int64)
        rows[new] = _FIRST_NEW_ROW_ID + np.arange(len(new))
        ids = [images.column("id")]
        removed = np.empty(0, np.int64)
        if delta.removed is not None:
            ids.append(delta.removed.column("id"))
            removed = delta.removed.column(ROW_ID).to_numpy().astype(np.int64)
        return cls(
            images=images.select(schema.names).cast(schema).combine_chunks(),
            image_rows=rows,
            removed_rows=removed,
            touched=pa.concat_arrays([each.combine_chunks() for each in ids]),
            row_count=committed.pin.row_count + len(new) - len(removed),
        )

    @property
    def count(self) -> int:
        """The number of rows that differ."""
        return len(self.image_rows) + len(self.removed_rows)


class OverlaidTable:
    """A table with uncommitted changes: the committed rows that stay, then the images."""

    def __init__(self, table: Table, overlay: TableOverlay) -> None:
        """Lay changes over a pinned table."""
        self._table = table
        self._overlay = overlay

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._table.schema

    @property
    def data_bytes(self) -> int:
        """Roughly how many bytes the rows have."""
        return self._table.data_bytes + int(self._overlay.images.nbytes)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        row_id: bool = False,
        batch_rows: int = _BATCH_ROWS,
        batch_bytes: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream the rows; those that are not committed come last."""
        names = list(self.schema.names if columns is None else columns)
        stored = self._table.scan(
            names, row_id=True, batch_rows=batch_rows, batch_bytes=batch_bytes
        )
        kept = [*names, ROW_ID] if row_id else names
        schema = pa.schema([stored.schema.field(name) for name in kept])
        return pa.RecordBatchReader.from_batches(schema, self._batches(stored, schema))

    def _batches(self, stored: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        gone = np.concatenate([self._overlay.image_rows, self._overlay.removed_rows])
        for batch in stored:
            stays = ~np.isin(batch.column(ROW_ID).to_numpy().astype(np.int64), gone)
            yield batch.filter(pa.array(stays)).select(schema.names)
        images = self._overlay.images.append_column(
            pa.field(ROW_ID, pa.uint64()), pa.array(self._overlay.image_rows.astype(np.uint64))
        )
        yield from images.select(schema.names).cast(schema).to_batches()

    @cached_property
    def _by_row(self) -> tuple[RowNumbers, RowNumbers]:
        """The identities of images in ascending order, and the image of each."""
        order = np.argsort(self._overlay.image_rows)
        return self._overlay.image_rows[order], order.astype(np.int64)

    def take(self, row_ids: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return rows by identity, in the order asked for."""
        wanted = np.array(row_ids, np.int64)
        ranked, order = self._by_row
        images = self._overlay.images.select(list(columns))
        if not len(ranked):
            return self._table.take(row_ids, columns)
        near = np.minimum(np.searchsorted(ranked, wanted), len(ranked) - 1)
        mine = ranked[near] == wanted
        stored = self._table.take(wanted[~mine].tolist(), columns)
        # Stored rows first, then images: each wanted one is picked from there.
        places = np.empty(len(wanted), np.int64)
        places[~mine] = np.arange(stored.num_rows)
        places[mine] = stored.num_rows + np.arange(int(mine.sum()))
        chosen = images.take(pa.array(order[near[mine]]))
        whole = pa.concat_tables([stored, chosen.cast(stored.schema)])
        return whole.combine_chunks().take(pa.array(places))


class OverlaidLookup:
    """A table with uncommitted changes, found by key."""

    __slots__ = ("_overlay", "_stored")

    def __init__(self, stored: RowLookup, overlay: TableOverlay) -> None:
        """Lay changes over a table."""
        self._stored = stored
        self._overlay = overlay

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self._overlay.row_count

    def rows(self, columns: Sequence[str], keys: Keys) -> pa.Table:
        """The rows in which every column of `keys` has one of its values."""
        images = self._overlay.images
        for name, values in keys.items():
            images = having(images, name, values)
        return self._with(self._stored.rows(_with_id(columns), keys), images, columns)

    def everything(self, columns: Sequence[str]) -> pa.Table:
        """All rows."""
        stored = self._stored.everything(_with_id(columns))
        return self._with(stored, self._overlay.images, columns)

    def _with(self, stored: pa.Table, images: pa.Table, columns: Sequence[str]) -> pa.Table:
        known = pc.is_in(stored.column("id"), value_set=self._overlay.touched)
        left = stored.filter(pc.invert(known)).select(list(columns))
        return pa.concat_tables([left, images.select(list(columns)).cast(left.schema)])


def _with_id(columns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(["id", *columns]))
