"""Reading the rows of a pinned table in pieces that fit into memory, whatever they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import pyarrow as pa

from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane import tuning
from omnigraph.lang.catalog.model import EntityType, Property
from omnigraph.lang.values import Base
from omnigraph.runtime.cancellation import checked
from omnigraph.store.reading.blob_values import blob_sizes, read_blobs
from omnigraph.store.table import ROW_ID, Table

# About how many characters a value takes.
_CELL_CHARS_BY_TYPE: Final = {Base.STRING: 32, Base.F64: 20, Base.BLOB: 1 << 10}
_CELL_CHARS: Final = 12
_LIST_ITEMS: Final = 4


def text_width(entity: EntityType) -> int:
    """About how many characters an entity takes as text; what rows are counted out by."""
    fixed = 64 if entity.kind == "node" else 128
    return fixed + sum(len(item.name) + _value_width(item) for item in entity.properties)


def _value_width(item: Property) -> int:
    width = _CELL_CHARS_BY_TYPE.get(item.type.base, _CELL_CHARS)
    return width * max(1, item.type.dim, _LIST_ITEMS if item.type.is_list else 1)


def read_rows(
    table: Table, entity: EntityType, fragments: Collection[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a type in storage order: `id`, `src` and `dst` of edges, then the properties.

    The same pin gives the same batches every time. Blobs come as their bytes.

    Args:
        table: The pinned table.
        entity: Its type.
        fragments: Only the rows of these fragments; None for all.
    """
    ends = ["src", "dst"] if entity.kind == "edge" else []
    blobs = [item.name for item in entity.properties if item.type.base is Base.BLOB]
    names = ["id", *ends, *(item.name for item in entity.properties)]
    with storage_errors():
        batches = table.scan(
            [name for name in names if name not in blobs],
            row_id=bool(blobs),
            batch_rows=min(
                tuning.active.batch_rows,
                max(1, tuning.active.batch_text_bytes // text_width(entity)),
            ),
            batch_bytes=tuning.active.batch_bytes,
            fragments=fragments,
            fragments_ahead=tuning.active.fragments_ahead,
        )
        for batch in checked(batches):
            if not blobs:
                yield batch
                continue
            for piece in _with_blobs(table, batch, blobs):
                yield piece.select(names)


def _with_blobs(
    table: Table, batch: pa.RecordBatch, blobs: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The batch in pieces, each with its blobs: a scan would hold those of all rows at once."""
    row_ids = batch.column(ROW_ID).to_pylist()
    start = 0
    for count in _runs(blob_sizes(table, blobs, row_ids)):
        piece = batch.slice(start, count)
        for name in blobs:
            values = read_blobs(table, name, row_ids[start : start + count])
            piece = piece.append_column(name, values)
        yield piece
        start += count


def _runs(sizes: Sequence[int]) -> Iterator[int]:
    """Cut rows into runs of bounded size; a row that is larger has a run of its own."""
    count = total = 0
    for size in sizes:
        if count and total + size > tuning.active.batch_bytes:
            yield count
            count = total = 0
        count += 1
        total += size
    if count:
        yield count
