"""Texts that do not fit into one Arrow array with 32-bit offsets.

A column or a gather of more than 2 GiB of text gets 64-bit offsets inside of the executor. What
users are given always has the type that the schema says: there it comes in several chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.exec import tuning
from omnigraph.exec.memory import UNBOUNDED, too_large

_WIDE: Final = {
    pa.string(): pa.large_string(),
    pa.binary(): pa.large_binary(),
    pa.list_(pa.string()): pa.list_(pa.large_string()),
}
_NARROW: Final = {wide: narrow for narrow, wide in _WIDE.items() if narrow != pa.binary()}

_LONG_BYTES: Final = 256  # on average

Positions = npt.NDArray[Any]


def with_wide_offsets(
    column: pa.Array | pa.ChunkedArray, nbytes: int
) -> pa.Array | pa.ChunkedArray:
    """A column that can be one piece of this many bytes: with wide offsets if need be."""
    wide = _WIDE.get(_plain(column.type)) if nbytes > tuning.active.narrow_text_bytes_max else None
    return column if wide is None else column.cast(wide)


def joined(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = with_wide_offsets(column, column.nbytes).combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # what cannot be one piece within its type
        raise OverflowError(f"a column of type {column.type} is too large for one piece")
    return whole


def concatenated(arrays: Sequence[pa.Array]) -> pa.Array:
    """Arrays of one type as one array."""
    nbytes = sum(array.nbytes for array in arrays)
    return pa.concat_arrays([with_wide_offsets(array, nbytes) for array in arrays])


def taken(
    column: pa.Array, places: npt.NDArray[np.integer[Any]], bytes_max: int = UNBOUNDED
) -> pa.Array:
    """The values at some places, any number of times each; null for places below 0.

    Raises:
        LimitExceeded: They have more than `bytes_max` bytes.
    """
    missing = bool(places.size) and int(places.min()) < 0
    index = pa.array(places, mask=places < 0 if missing else None)
    return with_room_for(column, places, bytes_max).take(index)


def with_room_for(
    column: pa.Array, places: npt.NDArray[np.integer[Any]], bytes_max: int = UNBOUNDED
) -> pa.Array:
    """The column, with wide offsets if the values at these places need them together.

    Raises:
        LimitExceeded: They have more than `bytes_max` bytes.
    """
    size = taken_bytes(column, places, min(tuning.active.narrow_text_bytes_max, bytes_max))
    if size > bytes_max:
        raise too_large(size, bytes_max, f"taking {len(places)} values")
    wide = _WIDE.get(_plain(column.type))
    return (
        column if wide is None or size <= tuning.active.narrow_text_bytes_max else column.cast(wide)
    )


def taken_bytes(column: pa.Array, places: npt.NDArray[np.integer[Any]], enough: int) -> int:
    """The bytes of the values at some places, or a larger number up to `enough`."""
    if not is_text(column.type):
        width = column.type.bit_width // 8 if _is_flat(column.type) else _mean_width(column)
        return len(places) * width
    ends = _positions(column)
    bound = len(places) * int(ends[-1] - ends[0])
    if bound <= enough:
        return bound
    there = places[places >= 0] if places.size and int(places.min()) < 0 else places
    return int((ends[there + 1] - ends[there]).sum(dtype=np.int64))


def is_long(column: pa.Array) -> bool:
    """True if a column holds texts so long that a copy of them is worth avoiding."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return False
    ends = _positions(column)
    return bool(int(ends[-1] - ends[0]) > _LONG_BYTES * len(column))


def is_text(kind: pa.DataType) -> bool:
    """True if values of a type are texts or lists of texts."""
    return _plain(kind) in _WIDE or _plain(kind) in _NARROW


def narrowed(array: pa.Array) -> pa.ChunkedArray:
    """An array in chunks whose type has 32-bit offsets. The texts are not copied."""
    leaves = list(_wide_leaves(array))
    if not leaves:
        return pa.chunked_array([array])
    pieces: list[pa.Array] = []
    start = 0
    while start < len(array) or not pieces:
        stop = len(array)
        for ends in leaves:
            limit = int(ends[start]) + tuning.active.narrow_text_bytes_max
            stop = min(stop, int(np.searchsorted(ends, limit, side="right")) - 1)
        stop = max(stop, min(start + 1, len(array)))
        pieces.append(_narrow(array.slice(start, stop - start)))
        start = stop
    return pa.chunked_array(pieces)


# -- inside ----------------------------------------------------------------------------------------


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of a list without the name of its items, which says nothing."""
    return pa.list_(kind.value_type) if pa.types.is_list(kind) else kind


def _is_flat(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind))


def _mean_width(column: pa.Array) -> int:
    return -(-int(column.nbytes) // max(len(column), 1))


def _positions(column: pa.Array) -> Positions:
    """The offset of the bytes of each row, and the end of the last ones."""
    if pa.types.is_list(column.type):
        bounds: Positions = _positions(column.values)[column.offsets.to_numpy()]
        return bounds
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    places = column.buffers()[1]
    if places is None or not len(column):
        return np.zeros(len(column) + 1, np.int64)
    found = np.frombuffer(places, np.int64 if wide else np.int32)
    return found[column.offset : column.offset + len(column) + 1]


def _wide_leaves(array: pa.Array) -> Iterator[Positions]:
    if pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _wide_leaves(part)
    elif _plain(array.type) in _NARROW:
        yield _positions(array)


def _narrow(piece: pa.Array) -> pa.Array:
    """A piece that fits, with 32-bit offsets."""
    if pa.types.is_struct(piece.type):
        parts = [_narrow(part) for part in piece.flatten()]
        names = [field.name for field in piece.type]
        return pa.StructArray.from_arrays(parts, names, mask=piece.is_null())
    if _plain(piece.type) not in _NARROW:
        return piece
    if pa.types.is_list(piece.type):
        ends = piece.offsets.to_numpy()
        items = piece.values.slice(int(ends[0]), int(ends[-1] - ends[0]))
        offsets = pa.array(ends - ends[0], pa.int32())
        return pa.ListArray.from_arrays(offsets, _narrow(items), mask=piece.is_null())
    ends = _positions(piece)
    first, last = int(ends[0]), int(ends[-1])
    content = piece.buffers()[2]
    data = pa.py_buffer(b"") if content is None else content.slice(first, last - first)
    valid = piece.is_valid().buffers()[1] if piece.null_count else None
    offsets32 = pa.py_buffer((ends - first).astype(np.int32))
    return pa.Array.from_buffers(pa.string(), len(piece), [valid, offsets32, data])
