"""A fingerprint of rows that depends neither on their order nor on how they were divided.

Every row has a digest of 128 bits over the values of all columns, with their lengths and nulls. The
fingerprint of some rows is the sum of their digests, so the fingerprints of pieces that different
tasks have read add up to that of the whole. Equal rows count as often as they occur.

It tells contents apart that differ by chance or by design of their author; it is no defence against
an attacker who looks for two contents of one fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.decode.model import Decoded
from omnigraph.dataplane.load.words import WORD_BYTES, Numbers, Words
from omnigraph.rules.report import joined

Offsets: TypeAlias = "npt.NDArray[np.int64]"
Fingerprint: TypeAlias = tuple[int, int]  # of 64 bits each

NOTHING: Final[Fingerprint] = (0, 0)  # of no rows
_BLOCK_ROWS: Final = 1 << 14
_MODULUS: Final = 1 << 64
# Different beginnings of the two halves of a digest.
_SEEDS: Final = (0x243F6A8885A308D3, 0x13198A2E03707344)
_PART: Final = 0x9E3779B97F4A7C15
_PLACE: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_FIRST: Final = np.uint64(0xFF51AFD7ED558CCD)
_SECOND: Final = np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT: Final = np.uint64(33)


def fingerprint(decoded: Decoded) -> Fingerprint:
    """The sum of the digests of some rows; which properties a row names is part of its digest."""
    # Piece by piece: the arrays in between stay in the cache of the processor.
    starts = range(0, decoded.rows.num_rows, _BLOCK_ROWS)
    return total(_of_block(decoded, start) for start in starts)


def _of_block(decoded: Decoded, start: int) -> Fingerprint:
    rows = decoded.rows.slice(start, _BLOCK_ROWS)
    parts: list[_Part] = []
    for name in rows.schema.names:
        absent = decoded.absent.get(name)
        named = (
            pa.repeat(False, rows.num_rows) if absent is None else absent.slice(start, _BLOCK_ROWS)
        )
        parts += _parts(named)
        parts += _parts(joined(rows.column(name)))
    first, second = (_half(parts, rows.num_rows, seed) for seed in _SEEDS)
    return first, second


def total(fingerprints: Iterable[Fingerprint]) -> Fingerprint:
    """The fingerprint of a whole, given those of its pieces."""
    first = second = 0
    for one, other in fingerprints:
        first, second = (first + one) % _MODULUS, (second + other) % _MODULUS
    return first, second


def spelled(value: Fingerprint) -> str:
    """A fingerprint as text."""
    return f"{value[0]:016x}{value[1]:016x}"


@dataclass(frozen=True, slots=True)
class _Part:
    """Some words of every row: those between its offset and the next one."""

    words: Numbers
    offsets: Offsets

    @property
    def places(self) -> Numbers:
        """The number of each word within its row."""
        firsts = np.repeat(self.offsets[:-1], np.diff(self.offsets))
        return (np.arange(len(self.words)) - firsts).astype(np.uint64)

    def summed(self, hashes: Numbers) -> Numbers:
        """Per row, the sum of some numbers that belong to its words."""
        ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])
        found: Numbers = ends[self.offsets[1:]] - ends[self.offsets[:-1]]
        return found


def _half(parts: list[_Part], rows: int, seed: int) -> int:
    """The sum of one half of the digests."""
    digests = np.full(rows, seed, np.uint64)
    for number, part in enumerate(parts, 1):
        salt = np.uint64((seed + number * _PART) % _MODULUS)
        # What a word says depends on its place, so the sum over a row knows the order of its words.
        hashes = _mixed(part.words ^ _mixed(part.places * _PLACE + salt))
        digests += part.summed(hashes)
    return int(_mixed(digests).sum(dtype=np.uint64))


def _mixed(numbers: Numbers) -> Numbers:
    """Every bit of the result depends on every bit of a number."""
    numbers = numbers ^ (numbers >> _SHIFT)
    numbers *= _FIRST
    numbers ^= numbers >> _SHIFT
    numbers *= _SECOND
    numbers ^= numbers >> _SHIFT
    return numbers


def _parts(column: pa.Array) -> Iterator[_Part]:
    """The parts of the digests of rows for one column: nulls, lengths, values."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    yield _numbers(column.is_valid().cast(pa.uint8()))
    kind = column.type
    if pa.types.is_null(kind):
        return
    if pa.types.is_struct(kind):
        for child in column.flatten():
            yield from _parts(child)
    elif _is_list(kind):
        lengths = pc.list_value_length(column).fill_null(0)
        yield _numbers(lengths)
        at = _offsets(lengths)
        for part in _parts(column.flatten()):
            yield _Part(part.words, part.offsets[at])
    elif _is_bytes(kind):
        lengths = pc.binary_length(column).fill_null(0)
        yield _numbers(lengths)
        yield _texts(column.drop_null(), _offsets(lengths))
    else:
        yield _numbers(_plain(column))


def _is_list(kind: pa.DataType) -> bool:
    fixed = pa.types.is_fixed_size_list(kind)
    return bool(fixed or pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return bool(large or pa.types.is_string(kind) or pa.types.is_binary(kind))


def _plain(column: pa.Array) -> pa.Array:
    """Values of a fixed width as numbers; a null is a zero, and marked elsewhere."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64())
    return column.fill_null(0)


def _numbers(column: pa.Array) -> _Part:
    """One word per row: the bits of its number."""
    values = column.to_numpy(zero_copy_only=False)
    words = values.view(f"u{values.dtype.itemsize}").astype(np.uint64)
    return _Part(words, np.arange(len(words) + 1))


def _offsets(lengths: pa.Array) -> Offsets:
    return np.concatenate([[0], np.cumsum(lengths.to_numpy(), dtype=np.int64)])


def _texts(column: pa.Array, offsets: Offsets) -> _Part:
    """The bytes of texts without nulls, as words, the last one of each filled up with zeros."""
    lengths = np.diff(offsets)
    at = np.concatenate([[0], np.cumsum(-(-lengths // WORD_BYTES))])
    if not len(column):
        return _Part(np.empty(0, np.uint64), at)
    _, bounds, data = column.buffers()
    is_large = column.type in (pa.large_string(), pa.large_binary())
    first = int(np.frombuffer(bounds, np.int64 if is_large else np.int32)[column.offset])
    counts = np.diff(at)
    begun = (np.arange(at[-1]) - np.repeat(at[:-1], counts)) * WORD_BYTES
    left = np.minimum(np.repeat(lengths, counts) - begun, WORD_BYTES)
    return _Part(Words(data).at(first + np.repeat(offsets[:-1], counts) + begun, left), at)
