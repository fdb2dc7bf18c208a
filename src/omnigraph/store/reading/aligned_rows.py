"""Rows of one version of a table, as the columns of another schema show them.

Columns are renamed, cast and filled while rows are read: what `Alterer` would make of the stored
rows, without writing anything.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from omnigraph.store.blobs import marked
from omnigraph.store.reading.altered_columns import AlteredColumn, fitted
from omnigraph.store.reading.row_addresses import AddressedRows, Addresses
from omnigraph.store.table import BATCH_ROWS, ROW_ADDRESS, ROW_ID

__all__ = ["AlignedRows"]

# The form in which a blob is described.
_BLOB_SIZE = pa.struct([pa.field("size", pa.uint64())])


class AlignedRows(AddressedRows):
    """The rows of one version of a table, with other columns than it stores."""

    def __init__(self, rows: AddressedRows, columns: Sequence[AlteredColumn]) -> None:
        """Show rows with these columns; fragments and addresses are those of `rows`."""
        super().__init__(rows.table, rows.read_file, rows.deletions)
        self._columns = {str(column.field.name): column for column in columns}
        self._blobs = marked(pa.schema([column.field for column in columns]))
        self._shape = pa.schema([column.field for column in columns])

    @property
    def alteration(self) -> tuple[AlteredColumn, ...]:
        """The columns that are shown in the place of the stored ones."""
        return tuple(self._columns.values())

    @property
    def schema(self) -> pa.Schema:
        """The columns that are shown."""
        return self._shape

    def stored_name(self, column: str) -> str | None:
        """The stored column that a column is read from; None when no row has a value of its own."""
        return self._columns[column].source

    def scan(
        self,
        columns: Sequence[str],
        *,
        fragments: Sequence[int] | None = None,
        row_id: bool = False,
        row_address: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows, whole fragments at a time; not for blobs."""
        found = super().scan(
            self._sources(columns),
            fragments=fragments,
            row_id=row_id,
            row_address=row_address,
            batch_rows=batch_rows,
        )
        for batch in found:
            arrays = [self._columns[name].values(batch) for name in columns]
            fields = [self._shape.field(name) for name in columns]
            places = [ROW_ID] * row_id + [ROW_ADDRESS] * row_address
            arrays += [batch.column(name) for name in places]
            fields += [batch.schema.field(name) for name in places]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _stored(self, wanted: Addresses, names: list[str]) -> pa.Table:
        sources = self._sources(names)
        rows = super()._stored(wanted, sources) if sources else None
        found = {}
        for name in names:
            column = self._columns[name]
            if column.source is None or rows is None:
                kind = _BLOB_SIZE if name in self._blobs else column.field.type
                value = pa.scalar(None, kind) if column.fill is None else column.fill
                found[name] = pa.chunked_array([pa.repeat(value, len(wanted))])
                continue
            values = rows.column(column.source)
            plain = name in self._blobs or values.type == column.field.type
            found[name] = values if plain else fitted(values, column.field.type)
        fields = [self._shape.field(name).with_type(found[name].type) for name in names]
        return pa.table(found, schema=pa.schema(fields))

    def _sources(self, names: Sequence[str]) -> list[str]:
        found = (self._columns[name].source for name in names)
        return list(dict.fromkeys(source for source in found if source is not None))
