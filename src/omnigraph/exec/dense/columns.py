"""Columns as one contiguous array, and picking values out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.dense.texts import text_buffers
from omnigraph.exec.large_text import joined
from omnigraph.exec.view import Counts, Handles, Mask


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
