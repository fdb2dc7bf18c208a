"""Reading one large binary value, whole or a range of it."""

from dataclasses import dataclass

from omnigraph.store.calls import StorageCall, storage_call
from omnigraph.store.table import Table

__all__ = ["BlobRange", "read_blob"]


@dataclass(frozen=True, slots=True)
class BlobRange:
    """Some bytes of a value, and how many it has in all."""

    data: bytes
    size: int


def read_blob(
    table: Table, column: str, row_id: int, *, offset: int = 0, length: int | None = None
) -> BlobRange | None:
    """Return bytes of one cell; None when it is null. Reads no more than is asked for.

    A range that reaches beyond the end is cut there.
    """

    def read() -> BlobRange | None:
        (cell,) = table.dataset.take_blobs(column, ids=[row_id])
        if cell is None:
            return None
        size = int(cell.size())
        start = min(offset, size)
        end = size if length is None else min(start + length, size)
        data = bytes(cell.read_range(start, end - start)) if end > start else b""
        return BlobRange(data, size)

    return storage_call(StorageCall.TABLE_TAKE, table.pin.path, read)
