"""Reading large binary values: one of them, whole or a range of it, or many cells of a column."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.table import Table

__all__ = ["BlobRange", "blob_bytes", "blob_sizes", "read_blob", "read_blobs"]


@dataclass(frozen=True, slots=True)
class BlobRange:
    """Some bytes of a value, and how many it has in all."""

    data: bytes
    size: int


def read_blob(
    table: Table,
    column: str,
    row: int,
    *,
    offset: int = 0,
    length: int | None = None,
    by_address: bool = False,
) -> BlobRange | None:
    """Return bytes of one cell; None when it is null. Reads no more than is asked for.

    The row is given by its row id, or by its address. A range that reaches beyond the end is cut
    there.
    """
    which = "addresses" if by_address else "ids"

    def read() -> BlobRange | None:
        (cell,) = table.dataset.take_blobs(column, **{which: [row]})
        if cell is None:
            return None
        size = int(cell.size())
        start = min(offset, size)
        end = size if length is None else min(start + length, size)
        data = bytes(cell.read_range(start, end - start)) if end > start else b""
        return BlobRange(data, size)

    return storage_call(StorageCall.TABLE_TAKE, table.pin.path, read)


def blob_bytes(table: Table, columns: Sequence[str], row_ids: Sequence[int]) -> int:
    """Return how many bytes some cells have together, without reading them."""
    return sum(blob_sizes(table, columns, row_ids))


def blob_sizes(table: Table, columns: Sequence[str], row_ids: Sequence[int]) -> list[int]:
    """Return, for each row, how many bytes its cells have together, without reading them."""
    if not columns or not row_ids:
        return [0] * len(row_ids)
    described = table.take(row_ids, columns)
    sizes = [pc.struct_field(described.column(name), "size").to_pylist() for name in columns]
    return [sum(size or 0 for size in row) for row in zip(*sizes, strict=True)]


def read_blobs(
    table: Table, column: str, rows: Sequence[int], *, by_address: bool = False
) -> pa.Array:
    """Return cells in the order asked for; null where there is no value.

    The rows are given by their row ids, or by their addresses.
    """
    wanted = list(rows)
    which = "addresses" if by_address else "ids"

    def read() -> pa.Array:
        found = table.dataset.read_blobs(column, **{which: wanted}, preserve_order=True)
        return pa.array([data for _, data in found], pa.large_binary())

    if not wanted:
        return pa.array([], pa.large_binary())
    return storage_call(StorageCall.TABLE_TAKE, table.pin.path, read)
