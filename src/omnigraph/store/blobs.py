"""Columns of large binary values, which Lance keeps apart from the others.

Outside this layer such a column is ``large_binary`` with a mark on its field. Inside it is Lance's
blob type, so that a scan which does not name the column never reads a byte of it.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

import lance
import pyarrow as pa

__all__ = ["blob_field", "logical", "marked", "stored"]

_MARK: Final = b"omnigraph:blob"
_EXTENSION: Final = "lance.blob.v2"
_TYPE: Final[Any] = lance.blob_field("blob").type


def blob_field(name: str) -> pa.Field:
    """Describe a column of large binary values, for the schema of a new table."""
    return pa.field(name, pa.large_binary(), metadata={_MARK: b"true"})


def marked(schema: pa.Schema) -> frozenset[str]:
    """Name the columns that are such, in a schema of either side."""
    return frozenset(
        field.name
        for field in schema
        if _MARK in (field.metadata or {})
        or getattr(field.type, "extension_name", None) == _EXTENSION
    )


def logical(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a table as the other layers see it."""
    for name in marked(schema):
        schema = schema.set(schema.get_field_index(name), blob_field(name))
    return schema


def stored(
    rows: pa.Table | pa.RecordBatchReader, blobs: Collection[str]
) -> pa.Table | pa.RecordBatchReader:
    """Return rows as Lance takes them: the named columns in its blob type."""
    if not blobs:
        return rows
    if isinstance(rows, pa.Table):
        return pa.Table.from_batches(
            [_batch(batch, blobs) for batch in rows.to_batches()], _schema(rows.schema, blobs)
        )

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            yield _batch(batch, blobs)

    return pa.RecordBatchReader.from_batches(_schema(rows.schema, blobs), batches())


def _schema(schema: pa.Schema, blobs: Collection[str]) -> pa.Schema:
    for name in blobs:
        position = schema.get_field_index(name)
        if position >= 0:
            schema = schema.set(position, pa.field(name, _TYPE))
    return schema


def _batch(batch: pa.RecordBatch, blobs: Collection[str]) -> pa.RecordBatch:
    schema = _schema(batch.schema, blobs)
    columns = [
        _values(column) if field.name in blobs else column
        for field, column in zip(schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _values(column: pa.Array) -> pa.Array:
    if isinstance(column.type, pa.ExtensionType):
        return column
    data = column.cast(pa.large_binary())
    storage: pa.StructType = _TYPE.storage_type
    # A value is given as data; the other parts are for values that lie elsewhere.
    parts = [data, *(pa.nulls(len(data), field.type) for field in list(storage)[1:])]
    struct = pa.StructArray.from_arrays(parts, fields=list(storage), mask=data.is_null())
    return pa.ExtensionArray.from_storage(_TYPE, struct)
