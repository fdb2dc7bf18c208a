"""Which partition a value belongs to: a cheap hash of whole columns, the same in every process.

It spreads keys, it does not tell them apart. Values that are equal have equal hashes. Of a very
long text it looks at the beginning and the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes: TypeAlias = "npt.NDArray[np.uint64]"

_WORD: Final = 8
_WORDS_MAX: Final = 64
_BLOCK: Final = 1 << 14
_FACTORS: Final = tuple(
    np.uint64(factor)
    for factor in (
        0x9E3779B97F4A7C15,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0xFF51AFD7ED558CCD,
    )
)
_HALF: Final = np.uint64(32)
_THIRD: Final = np.uint64(29)
# How many bytes of a word belong to a text of 0 to 8 bytes.
_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(_WORD + 1)], np.uint64)


def partitions_of(columns: Sequence[pa.Array], count: int) -> npt.NDArray[np.uint16]:
    """The partition of each row, given the columns of its key; nulls belong somewhere, too."""
    rows = len(columns[0])
    found = np.empty(rows, np.uint16)
    # Piece by piece: the arrays in between stay in the cache of the processor.
    for start in range(0, rows, _BLOCK):
        piece = [column.slice(start, _BLOCK) for column in columns]
        found[start : start + _BLOCK] = _partitions(piece, count)
    return found


def _partitions(columns: Sequence[pa.Array], count: int) -> Hashes:
    hashes = _hashes(columns[0])
    for column in columns[1:]:
        hashes = hashes * _FACTORS[0] + _hashes(column)
    hashes = _mixed(hashes)
    # The upper half scaled to the count: no division.
    hashes >>= _HALF
    hashes *= np.uint64(count)
    hashes >>= _HALF
    return hashes


def _mixed(hashes: Hashes) -> Hashes:
    hashes = hashes ^ (hashes >> _THIRD)
    hashes *= _FACTORS[3]
    hashes ^= hashes >> _HALF
    return hashes


def _hashes(column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_string(kind):
        return _texts(column)
    if pa.types.is_floating(kind):
        # The two zeros are one value, but not one pattern of bits.
        plain = pc.add(column.cast(pa.float64()), 0.0).fill_null(0.0)
        return np.asarray(plain).view(np.uint64) * _FACTORS[1]
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    numbers = np.asarray(column.fill_null(0))
    wide = numbers.astype(np.int64 if numbers.dtype.kind == "i" else np.uint64)
    return wide.view(np.uint64) * _FACTORS[1]


def _texts(column: pa.StringArray) -> Hashes:
    """Hashes of texts, straight from the buffers of the column."""
    _, offsets, data = column.buffers()
    count = len(column)
    if not count:
        return np.empty(0, np.uint64)
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + count + 1]
    lengths = np.diff(bounds).astype(np.int64)
    words = _Words(data)
    length = int(lengths[0])
    if length >= _WORD and length <= _WORD * _WORDS_MAX and (lengths == length).all():
        return _even_texts(words, int(bounds[0]), length, count)
    starts = bounds[:-1].astype(np.int64)
    hashes: Hashes = words.at(starts, np.minimum(lengths, _WORD))
    hashes += lengths.astype(np.uint64) * _FACTORS[1]
    hashes *= _FACTORS[0]
    for place in range(1, _WORDS_MAX):
        rows = np.flatnonzero(lengths > place * _WORD)
        if not len(rows):
            break
        # The word that begins here; for the last one of a text, the last eight bytes.
        steps = np.minimum(place * _WORD, lengths[rows] - _WORD)
        if place == _WORDS_MAX - 1:
            steps = lengths[rows] - _WORD
        found = words.at(starts[rows] + steps, _WORD)
        found += hashes[rows]
        found *= _FACTORS[2]
        found ^= found >> _THIRD
        hashes[rows] = found
    return hashes


def _even_texts(words: _Words, start: int, length: int, count: int) -> Hashes:
    """The same for texts of one length, which follow each other at equal distances."""
    hashes = words.every(start, length, count)
    hashes += np.array([length], np.uint64) * _FACTORS[1]
    hashes *= _FACTORS[0]
    for place in range(1, -(-length // _WORD)):
        found = words.every(start + min(place * _WORD, length - _WORD), length, count)
        found += hashes
        found *= _FACTORS[2]
        found ^= found >> _THIRD
        hashes = found
    return hashes


class _Words:
    """Eight bytes from any place of a buffer."""

    def __init__(self, data: pa.Buffer | None) -> None:
        raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        if len(raw) < _WORD:
            raw = np.concatenate([raw, np.zeros(_WORD - len(raw), np.uint8)])
        self._raw = raw
        self._last = len(raw) - _WORD
        self._words = np.ndarray((self._last + 1,), "<u8", raw, 0, (1,))

    def every(self, start: int, step: int, count: int) -> Hashes:
        """So many words at equal distances."""
        return np.ndarray((count,), "<u8", self._raw, start, (step,)).astype(np.uint64)

    def at(self, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64] | int) -> Hashes:
        """So many bytes from each start, as a number."""
        near = np.minimum(starts, self._last)
        found: Hashes = self._words[near]
        over = starts - near
        if over.any():
            # Too close to the end to read a word: read the last one and shift.
            found >>= np.minimum(over * 8, 63).astype(np.uint64)
        if not isinstance(lengths, int):
            found &= _MASKS[lengths]
        return found
