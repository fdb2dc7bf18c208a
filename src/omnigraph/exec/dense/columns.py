"""Columns as one contiguous array, and picking values out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.dense.texts import roomy, text_buffers
from omnigraph.exec.world import Counts, Handles, Mask


def contiguous(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece; texts that are too long for that get wide offsets."""
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = roomy(column, column.nbytes).combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # what cannot be one piece within its type
        raise OverflowError(f"a column of type {column.type} is too large for one piece")
    return whole


def reordered(column: pa.ChunkedArray, order: Handles | Counts | None) -> pa.Array:
    """A column in another order, in one piece."""
    return contiguous(column if order is None else column.take(pa.array(order)))


def picked(column: pa.Array, handles: Handles) -> pa.Array:
    """The values at some handles, null for -1."""
    if handles.size and handles.min() < 0:
        return column.take(pa.array(handles, mask=handles < 0))
    return column.take(pa.array(handles))


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


class Column:
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
