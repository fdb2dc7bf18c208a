"""Rows of one type as a file: NDJSON in the load format, Arrow IPC or Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.core.layout import table_key
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.dataplane.export.cells import NULL, EncodedCells, cells, glued
from omnigraph.dataplane.export.small_numbers import SmallNumbers
from omnigraph.dataplane.source.model import Compression, Format
from omnigraph.dataplane.source.naming import TYPE_KEY
from omnigraph.lang.catalog.identity import END_NAMES
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.values import Base, ValueType
from omnigraph.store.io.streams import Output

_GROUP_ROWS: Final = 128 << 10
_GROUP_BYTES: Final = 64 << 20
_GZIP_LEVEL: Final = 6  # as the command; Arrow would take the slowest

Wrote = Callable[[int], None]
_TEXT: Final = ValueType(Base.STRING)


def encoder(entity: EntityType, compression: Compression) -> Callable[[pa.RecordBatch], memoryview]:
    """Turns a batch of rows into a piece of an NDJSON file.

    Each piece is packed by itself: files of gzip and zstd may consist of several, one after
    another, and so threads can share the work.
    """
    lines = LineEncoder(entity)
    if compression is Compression.NONE:
        return lines.encode
    level = _GZIP_LEVEL if compression is Compression.GZIP else None

    def packed(rows: pa.RecordBatch) -> memoryview:
        # One each time: threads cannot share it.
        codec = pa.Codec(compression.value, compression_level=level)
        return memoryview(codec.compress(lines.encode(rows)))

    return packed


def file_schema(entity: EntityType) -> pa.Schema:
    """The columns of a type in files of Arrow and Parquet: `id`, `from`, `to`, properties."""
    fields = [
        # Blobs are marked inside of the graph only.
        pa.field(END_NAMES.get(item.name, item.name), item.type, item.nullable)
        for item in table_schema(entity)
    ]
    return pa.schema(fields, metadata={TYPE_KEY: table_key(entity.kind, entity.name).encode()})


def write_columns(
    output: Output,
    batches: Iterable[pa.RecordBatch],
    entity: EntityType,
    format: Format,
    compression: Compression,
    wrote: Wrote,
) -> None:
    """Write a whole file of Arrow or Parquet; `wrote` is called with numbers of rows."""
    schema = file_schema(entity)
    renamed = (_renamed(batch, schema) for batch in batches)
    if format is Format.ARROW:
        _write_arrow(output, renamed, schema, compression, wrote)
    else:
        _write_parquet(output, renamed, schema, compression, wrote)


def _renamed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _write_arrow(
    output: Output,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    compression: Compression,
    wrote: Wrote,
) -> None:
    packing = None if compression is Compression.NONE else compression.value
    options = pa.ipc.IpcWriteOptions(compression=packing)
    with pa.ipc.new_file(output, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            wrote(batch.num_rows)


def _write_parquet(
    output: Output,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    compression: Compression,
    wrote: Wrote,
) -> None:
    with pq.ParquetWriter(output, schema, compression=compression.value) as writer:
        for table in _groups(batches, schema):
            writer.write_table(table, row_group_size=table.num_rows)
            wrote(table.num_rows)


def _groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Gather batches into tables that are worth a row group."""
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        gathered.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(gathered, schema)
            gathered, rows, size = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered, schema)


class LineEncoder:
    """Spells rows of one type. Threads may share it."""

    def __init__(self, entity: EntityType) -> None:
        """Spell rows of this type."""
        self._fields = _fields(entity)
        self._small = SmallNumbers()
        label = "type" if entity.kind == "node" else "edge"
        self._head = f'{{"{label}":{json.dumps(entity.name)},'

    def encode(self, rows: pa.RecordBatch) -> memoryview:
        """One line per row, each with its newline.

        Args:
            rows: `id`, `src` and `dst` for edges, and every property, as the table stores them.
        """
        if not rows.num_rows:
            return memoryview(b"")
        joined = glued(self._pieces(rows), NULL)
        _, starts, content = joined.buffers()
        kind = np.int64 if pa.types.is_large_string(joined.type) else np.int32
        # The texts lie one after another: together they are the output.
        return memoryview(content)[: int(np.frombuffer(starts, kind)[len(joined)])]

    def _pieces(self, rows: pa.RecordBatch) -> list[pa.Array | str]:
        """The parts of a line: columns, and texts that all lines share."""
        pieces: list[pa.Array | str] = []
        pending = self._head
        for label, name, kind in self._fields:
            column = rows.column(name)
            small = self._small.spelled(pending + label, column, kind)
            if small is not None:
                pieces.append(small)
                pending = ""
                continue
            spelled = cells(column, kind)
            # Only without nulls can all lines share what stands around the values.
            shown = EncodedCells(spelled.whole()) if spelled.text.null_count else spelled
            pieces += [pending + label + shown.before, shown.text]
            pending = shown.after
        return [*pieces, pending + "}}\n"]


def _fields(entity: EntityType) -> list[tuple[str, str, ValueType]]:
    """The values of a line in their order: what stands before each, its column and its type."""
    properties = [
        (f",{json.dumps(item.name)}:", item.name, item.type) for item in entity.properties
    ]
    if entity.kind == "node":
        return [('"data":{"id":', "id", _TEXT), *properties]
    ends = [('"from":', "src", _TEXT), (',"to":', "dst", _TEXT)]
    return [*ends, (',"data":{"id":', "id", _TEXT), *properties]
