"""Whole columns as one contiguous array: reading them, and picking values out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.storage_errors import storage_errors
from omnigraph.exec.large_text import joined
from omnigraph.exec.memory import QUERY_BYTES_MAX, too_large
from omnigraph.exec.view import Counts, Handles, Mask
from omnigraph.runtime.cancellation import checked


class StoredRows(Protocol):
    """The rows of one version of a table, as far as the dense view reads them."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    @property
    def data_bytes(self) -> int:
        """About how many bytes they have."""
        ...

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        row_id: bool = False,
        batch_rows: int = ...,
        batch_bytes: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream the rows in storage order."""
        ...

    def take(self, row_ids: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """Return rows by identity, in the order asked for."""
        ...


# A batch of long texts must not outgrow the 32-bit offsets in which it is read.
_BATCH_BYTES: Final = 64 << 20


def read_columns(
    table: StoredRows,
    columns: Sequence[str],
    *,
    row_id: bool = False,
    bytes_max: int = QUERY_BYTES_MAX,
) -> pa.Table:
    """All rows of a table in storage order: these columns, and the identity of each row.

    Raises:
        LimitExceeded: They have more than `bytes_max` bytes.
    """
    batches: list[pa.RecordBatch] = []
    size = 0
    with storage_errors():
        stream = table.scan(columns, row_id=row_id, batch_bytes=_BATCH_BYTES)
        for batch in checked(stream):
            size += batch.nbytes
            if size > bytes_max:
                raise too_large(size, bytes_max, f"reading {', '.join(columns) or 'the rows'}")
            batches.append(batch)
    return pa.Table.from_batches(batches, stream.schema)


def reordered(column: pa.ChunkedArray, order: Handles | Counts | None) -> pa.Array:
    """A column in another order, in one piece."""
    whole = joined(column)
    # In one piece first: chunks would be joined on the way, in a type that may be too small.
    return whole if order is None else whole.take(pa.array(order))


def as_matrix(column: pa.Array) -> tuple[npt.NDArray[np.float32], Mask]:
    """A column of vectors as a matrix without a copy, and which rows have one."""
    dim = column.type.list_size
    values = column.values
    valid: Mask = pc.is_valid(column).to_numpy(zero_copy_only=False)
    content = values.buffers()[1]
    if content is None:
        return np.empty((len(column), dim), np.float32), valid
    # Straight from the buffer: rows without a vector would force a copy otherwise.
    flat = np.frombuffer(content, np.float32)[values.offset : values.offset + len(values)]
    return flat.reshape(-1, dim)[column.offset : column.offset + len(column)], valid


class LoadedColumn:
    """A column in one piece, and a reader of single values that is made when first used."""

    __slots__ = ("_cells", "array")

    def __init__(self, array: pa.Array) -> None:
        """Take the values by handle."""
        self.array = array
        self._cells: Callable[[Sequence[int]], list[Any]] | None = None

    def cells(self, handles: Sequence[int]) -> list[Any]:
        """Some values as Python has them, null for -1."""
        if self._cells is None:
            self._cells = _reader(self.array)
        return self._cells(handles)


def _reader(column: pa.Array) -> Callable[[Sequence[int]], list[Any]]:
    # For a few values this is many times faster than making an array of them first.
    if not column.null_count:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            return _texts(column)
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            return _plain(column)
    return partial(_any_cells, column)


def _texts(column: pa.Array) -> Callable[[Sequence[int]], list[Any]]:
    offsets, data = text_buffers(column)
    places, content = offsets.data, data.data

    def read(handles: Sequence[int]) -> list[Any]:
        return [
            None if at < 0 else str(content[places[at] : places[at + 1]], "utf-8") for at in handles
        ]

    return read


def _plain(column: pa.Array) -> Callable[[Sequence[int]], list[Any]]:
    view = column.to_numpy(zero_copy_only=True).data

    def read(handles: Sequence[int]) -> list[Any]:
        return [None if at < 0 else view[at] for at in handles]

    return read


def _any_cells(column: pa.Array, handles: Sequence[int]) -> list[Any]:
    return [None if at < 0 else column[at].as_py() for at in handles]


def text_buffers(
    texts: pa.Array,
) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """The offsets and bytes of a text array. The offsets point into the bytes."""
    wide = pa.types.is_large_string(texts.type)
    _, places, content = texts.buffers()
    if places is None or not len(texts):
        return np.zeros(1, np.int64 if wide else np.int32), np.zeros(0, np.uint8)
    offsets = np.frombuffer(places, np.int64 if wide else np.int32)
    data = np.frombuffer(content, np.uint8) if content is not None else np.zeros(0, np.uint8)
    part = offsets[texts.offset : texts.offset + len(texts) + 1]
    return part, data[: int(part[-1])]
