"""The partition of a value: a cheap hash of whole columns, the same in every process.

Equal values have equal hashes; different values may have equal ones, too. Of a very long text it
looks at the beginning and the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.load.words import WORD_BYTES, Numbers, Words, bounds_of

_WORDS_MAX: Final = 64
_BLOCK_ROWS: Final = 1 << 14
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


def partitions_of(columns: Sequence[pa.Array], count: int) -> npt.NDArray[np.uint16]:
    """The partition of each row, given the columns of its key; nulls have one, too."""
    rows = len(columns[0])
    found = np.empty(rows, np.uint16)
    # Piece by piece: the arrays in between stay in the cache of the processor.
    for start in range(0, rows, _BLOCK_ROWS):
        piece = [column.slice(start, _BLOCK_ROWS) for column in columns]
        found[start : start + _BLOCK_ROWS] = _partitions(piece, count)
    return found


def _partitions(columns: Sequence[pa.Array], count: int) -> Numbers:
    hashes = _hashes(columns[0])
    for column in columns[1:]:
        hashes = hashes * _FACTORS[0] + _hashes(column)
    hashes = _mixed(hashes)
    # The upper half scaled to the count: no division.
    hashes >>= _HALF
    hashes *= np.uint64(count)
    hashes >>= _HALF
    return hashes


def _mixed(hashes: Numbers) -> Numbers:
    hashes = hashes ^ (hashes >> _THIRD)
    hashes *= _FACTORS[3]
    hashes ^= hashes >> _HALF
    return hashes


def _hashes(column: pa.Array) -> Numbers:
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


def _texts(column: pa.StringArray) -> Numbers:
    """Hashes of texts, straight from the buffers of the column."""
    count = len(column)
    if not count:
        return np.empty(0, np.uint64)
    bounds = bounds_of(column)
    lengths = np.diff(bounds).astype(np.int64)
    words = Words(column.buffers()[2])
    length = int(lengths[0])
    if length >= WORD_BYTES and length <= WORD_BYTES * _WORDS_MAX and (lengths == length).all():
        return _even_texts(words, int(bounds[0]), length, count)
    starts = bounds[:-1].astype(np.int64)
    hashes: Numbers = words.at(starts, np.minimum(lengths, WORD_BYTES))
    hashes += lengths.astype(np.uint64) * _FACTORS[1]
    hashes *= _FACTORS[0]
    for place in range(1, _WORDS_MAX):
        rows = np.flatnonzero(lengths > place * WORD_BYTES)
        if not len(rows):
            break
        # The word that begins here; for the last one of a text, the last eight bytes.
        steps = np.minimum(place * WORD_BYTES, lengths[rows] - WORD_BYTES)
        if place == _WORDS_MAX - 1:
            steps = lengths[rows] - WORD_BYTES
        found = words.at(starts[rows] + steps, WORD_BYTES)
        found += hashes[rows]
        found *= _FACTORS[2]
        found ^= found >> _THIRD
        hashes[rows] = found
    return hashes


def _even_texts(words: Words, start: int, length: int, count: int) -> Numbers:
    """The same for texts of one length, which follow each other at equal distances."""
    hashes = words.every(start, length, count)
    hashes += np.array([length], np.uint64) * _FACTORS[1]
    hashes *= _FACTORS[0]
    for place in range(1, -(-length // WORD_BYTES)):
        found = words.every(start + min(place * WORD_BYTES, length - WORD_BYTES), length, count)
        found += hashes
        found *= _FACTORS[2]
        found ^= found >> _THIRD
        hashes = found
    return hashes
