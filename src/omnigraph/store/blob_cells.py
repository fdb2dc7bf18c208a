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
