"""Texts as numbers of eight bytes, read straight from the buffers of a column.

Hashing and packing keys stand on it: a CRC-32 per text takes 13 times as long
(`python -m bench kernels`, processor time).
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers: TypeAlias = "npt.NDArray[np.uint64]"

WORD_BYTES: Final = 8
# How many bytes of a word belong to a text of 0 to 8 bytes.
_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(WORD_BYTES + 1)], np.uint64)


def bounds_of(column: pa.StringArray) -> npt.NDArray[np.int32]:
    """The start of each text in the buffer of the column, and the end of the last one."""
    count = len(column)
    offsets = column.buffers()[1]
    if not count or offsets is None:
        return np.zeros(1, np.int32)
    return np.frombuffer(offsets, np.int32)[column.offset : column.offset + count + 1]


class Words:
    """Eight bytes from any place of a buffer."""

    def __init__(self, data: pa.Buffer | None) -> None:
        """Read from the buffer of a column of texts."""
        raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        if len(raw) < WORD_BYTES:
            raw = np.concatenate([raw, np.zeros(WORD_BYTES - len(raw), np.uint8)])
        self._raw = raw
        self._last = len(raw) - WORD_BYTES
        self._words = np.ndarray((self._last + 1,), "<u8", raw, 0, (1,))

    def every(self, start: int, step: int, count: int) -> Numbers:
        """So many words at equal distances."""
        return np.ndarray((count,), "<u8", self._raw, start, (step,)).astype(np.uint64)

    def at(self, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64] | int) -> Numbers:
        """So many bytes from each start, as a number; a plain 8 needs no mask."""
        near = np.minimum(starts, self._last)
        found: Numbers = self._words[near]
        over = starts - near
        if over.any():
            # Too close to the end to read a word: read the last one and shift.
            found >>= np.minimum(over * 8, 63).astype(np.uint64)
        if not isinstance(lengths, int):
            found &= _MASKS[lengths]
        return found
