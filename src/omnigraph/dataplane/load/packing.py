"""Keys in a short form: those that begin alike and differ in their last seven bytes, as numbers.

Most keys are like that (`person-0000017`). Equal numbers of one form are equal texts, and nothing
else: the upper byte of a number is how many of the seven a text has. Texts take 1.2 times as long
to be told apart (`python -m bench kernels`), and an overwrite takes 1.3 times as long with them
(decision 0021; processor time).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.dataplane.load.words import WORD_BYTES, Numbers, Words, bounds_of

_NAME: Final = "omnigraph.packed"
_TAIL_BYTES: Final = 7
_PREFIX_BYTES_MAX: Final = 256
_LENGTH_BIT: Final = np.uint64(56)
_BYTE: Final = np.uint64(8)
_BYTES_MAX: Final = (1 << 31) - 1  # that a column of texts can hold
_NONE: Final = np.empty(0, np.int32)


class PackedText(pa.ExtensionType):  # type: ignore[misc]  # Arrow has no types
    """Texts that all have the same beginning, each as the number of what follows."""

    def __init__(self, prefix: bytes) -> None:
        """Name what they begin with; it may end within a character."""
        self.prefix = prefix
        super().__init__(pa.uint64(), _NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return self.prefix

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> PackedText:
        return cls(serialized)

    # Arrow would take all of them for one type, and put numbers of different meaning together.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedText) and other.prefix == self.prefix

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.prefix)


# Where modules are loaded anew, the type of the old one would come out of staging.
with suppress(KeyError):
    pa.unregister_extension_type(_NAME)
pa.register_extension_type(PackedText(b""))


def packed(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Columns of texts in their short form, if there is one for all of them; else as they are."""
    found: list[pa.Array] = []
    for column in columns:
        short = _packed(column)
        if short is None or (found and short.type != found[0].type):
            return list(columns)
        found.append(short)
    return found


def unpacked(column: pa.Array) -> pa.Array:
    """A column in the form of texts."""
    if not isinstance(column.type, PackedText):
        return column
    prefix = column.type.prefix
    numbers = column.storage.to_numpy()
    lengths = (numbers >> _LENGTH_BIT).astype(np.int32)
    if int(lengths.sum(dtype=np.int64)) + len(prefix) * len(lengths) > _BYTES_MAX:
        raise pa.ArrowCapacityError("keys of one partition take more than 2 GiB")
    cells = np.empty((len(numbers), len(prefix) + _TAIL_BYTES), np.uint8)
    cells[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    tails = np.ascontiguousarray(numbers, "<u8").view(np.uint8).reshape(-1, WORD_BYTES)
    cells[:, len(prefix) :] = tails[:, :_TAIL_BYTES]
    offsets = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(lengths + np.int32(len(prefix)), out=offsets[1:])
    if not (lengths == _TAIL_BYTES).all():
        ends = lengths[:, None] + len(prefix)
        cells = cells[np.arange(cells.shape[1])[None, :] < ends]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(cells))]
    return pa.Array.from_buffers(pa.string(), len(numbers), buffers)


def numbered(chunks: Sequence[pa.Array]) -> tuple[list[npt.NDArray[np.int32]], pa.Array]:
    """Give each distinct text a number, in the order of first occurrence.

    Returns:
        The numbers, chunk by chunk, and the distinct texts, in the form that all chunks have.
    """
    form = chunks[0].type if chunks else pa.string()
    is_short = isinstance(form, PackedText) and all(chunk.type == form for chunk in chunks)
    plain = [chunk.storage if is_short else unpacked(chunk) for chunk in chunks]
    # Arrow leaves empty chunks out.
    filled = [chunk for chunk in plain if len(chunk)]
    if not filled:
        return [_NONE for _ in chunks], pa.array([], pa.string())
    coded = pa.chunked_array(filled).dictionary_encode().chunks
    distinct = coded[0].dictionary
    found = iter(coded)
    numbers = [next(found).indices.to_numpy() if len(chunk) else _NONE for chunk in plain]
    return numbers, pa.ExtensionArray.from_storage(form, distinct) if is_short else distinct


def _packed(column: pa.Array) -> pa.Array | None:
    if not len(column) or column.null_count or not pa.types.is_string(column.type):
        return None
    bounds = bounds_of(column)
    lengths = np.diff(bounds)
    shortest, longest = int(lengths.min()), int(lengths.max())
    size = max(0, longest - _TAIL_BYTES)
    if shortest < size or size > _PREFIX_BYTES_MAX:
        return None
    data = column.buffers()[2]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    starts = bounds[:-1]
    prefix = raw[starts[0] : starts[0] + size]
    is_even = shortest == longest >= WORD_BYTES
    if not _all_begin(raw, starts, prefix, longest if is_even else None):
        return None
    words = Words(data)
    if is_even:
        # They follow each other: the last eight bytes of each, and of those the last seven.
        numbers = words.every(int(starts[0]) + longest - WORD_BYTES, longest, len(column)) >> _BYTE
        numbers |= np.uint64(_TAIL_BYTES) << _LENGTH_BIT
    else:
        numbers = _uneven(words, starts.astype(np.int64) + size, lengths.astype(np.int64) - size)
    return pa.ExtensionArray.from_storage(PackedText(prefix.tobytes()), pa.array(numbers))


def _uneven(words: Words, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Numbers:
    return words.at(starts, lengths) | (lengths.astype(np.uint64) << _LENGTH_BIT)


def _all_begin(
    raw: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int32],
    prefix: npt.NDArray[np.uint8],
    step: int | None,
) -> bool:
    """True if all texts begin with these bytes; with a step, they lie at equal distances."""

    def column(place: int) -> npt.NDArray[np.uint8]:
        if step is None:
            return raw[starts + place]
        return np.ndarray((len(starts),), np.uint8, raw, int(starts[0]) + place, (step,))

    # A few of them first: keys that do not fit usually show it at once.
    some = starts[:: max(1, len(starts) // 16)]
    expected = list(enumerate(prefix.tolist()))
    if any((raw[some + place] != byte).any() for place, byte in expected):
        return False
    return all((column(place) == byte).all() for place, byte in expected)
