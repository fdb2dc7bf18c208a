"""Obstacles to altering the table of a type, and rows that are written as new ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from omnigraph.core.schema.alignment import altered_columns
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.values import Base
from omnigraph.runtime import cancellation
from omnigraph.store.reading.altered_columns import AlteredColumn
from omnigraph.store.reading.blob_values import read_blobs
from omnigraph.store.table import ROW_ADDRESS
from omnigraph.store.tables import Table

# The rows whose blobs are held at once.
_BLOB_ROWS: Final = 64


def blob_in_the_way(old: EntityType, new: EntityType) -> str | None:
    """A blob property that takes over the name of another one, which no table can do at once."""
    before = table_schema(old)
    for column in altered_columns(old, new):
        name = str(column.field.name)
        item = new.property_by_name.get(name)
        is_blob = item is not None and item.type.base is Base.BLOB
        if is_blob and name in before.names and column.source != name:
            return name
    return None


def rows_with_blobs(
    table: Table, columns: Sequence[AlteredColumn], blobs: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """All rows of a table as they will be, blobs included."""
    schema = pa.schema([column.field for column in columns])
    plain = sorted(
        {
            column.source
            for column in columns
            if column.source is not None and column.field.name not in blobs
        }
    )
    for batch in table.scan(plain, row_address=True, batch_rows=_BLOB_ROWS):
        cancellation.check()
        places = batch.column(ROW_ADDRESS).to_pylist()
        arrays = []
        for column in columns:
            if column.field.name not in blobs:
                arrays.append(column.values(batch))
            elif column.source is None:
                arrays.append(pa.nulls(batch.num_rows, column.field.type))
            else:
                cells = read_blobs(table, column.source, places, by_address=True)
                arrays.append(cells.cast(column.field.type))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
