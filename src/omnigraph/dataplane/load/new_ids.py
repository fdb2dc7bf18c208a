"""Ids for entities that come without one: ULIDs, made column by column.

An id is made of the time and the chance of the load's own ULID, the number of the split and the
number of the line. So a task that runs again gives the same ids, no two lines share one, and the
order of ids is the order of the input.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.runtime.ids import decode, encode

_ID_CHARS: Final = 26
_LINE_BITS: Final = 35
_SPLIT_BITS_MIN: Final = 20
_CHANCE_BITS: Final = 80
_PAIR_BITS: Final = 10
_PAIRS: Final = 4  # pairs of characters that depend on the line
_CHARS: Final = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)
# Two characters for each number of ten bits.
_SPELLED: Final = np.stack(np.divmod(np.arange(1 << _PAIR_BITS), 32), axis=1)
_PAIR_OF: Final = np.ascontiguousarray(_CHARS[_SPELLED]).view(np.uint16).ravel()


def new_ids(load_id: str, split: int, lines: npt.NDArray[np.int64]) -> pa.StringArray:
    """One id for each line of a split; the lines ascend."""
    count = len(lines)
    if count and int(lines[-1]) >> _LINE_BITS:
        raise ValueError(f"a split has fewer than 2**{_LINE_BITS} lines")
    first = _first(load_id, split)
    text = np.empty((count, _ID_CHARS // 2), np.uint16)
    text[:] = np.frombuffer(encode(first).encode(), np.uint16)
    low = lines + (first & ((1 << _PAIRS * _PAIR_BITS) - 1))
    for place in range(_PAIRS):
        digits = low >> (place * _PAIR_BITS)
        if count and digits[0] == digits[-1]:
            digits = digits[:1]  # the same in all ids
        text[:, -1 - place] = _PAIR_OF[digits & ((1 << _PAIR_BITS) - 1)]
    offsets = np.arange(0, (count + 1) * _ID_CHARS, _ID_CHARS, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _first(load_id: str, split: int) -> int:
    """The number that the ids of a split count on from."""
    bits = max(_SPLIT_BITS_MIN, split.bit_length())
    room = _CHANCE_BITS - _LINE_BITS
    seed = decode(load_id)
    time, chance = seed >> _CHANCE_BITS, seed & ((1 << room - bits) - 1)
    return (time << room | chance << bits | split) << _LINE_BITS
