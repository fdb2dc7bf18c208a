"""Blocks of whole lines, and the lines of a block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

BLOCK_BYTES: Final = 4 << 20  # what a processor keeps close; larger ones are slower

Places: TypeAlias = npt.NDArray[np.int64]

_NEWLINE: Final = b"\n"
_LF, _CR = 10, 13
# A byte order mark and a carriage return are no part of a line: one that is longer than the bound
# by no more than them is measured when it is there as a whole.
_SLACK_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that is longer than the bound; its bytes are dropped."""


def blocks(
    chunks: Iterable[bytes | pa.Buffer], line_bytes_max: int, block_bytes: int = BLOCK_BYTES
) -> Iterator[bytes | TooLong]:
    """Cut a stream into blocks of whole lines, each line with its newline.

    A block has about `block_bytes`, and more only where one line has. A line that is far longer
    than the bound never comes whole, however long it is: `TooLong` takes its place.
    """
    held: list[bytes] = []  # what has come since the last block
    size = 0
    tail = 0  # how much of it belongs to a line that has not ended yet
    is_skipping = False
    for piece in _pieces(chunks, block_bytes):
        start = 0
        if is_skipping:
            start = piece.find(_NEWLINE) + 1
            if not start:
                continue
            is_skipping = False
        last = piece.rfind(_NEWLINE, start)
        held.append(piece[start:] if start else piece)
        size += len(held[-1])
        tail = len(piece) - max(last + 1, start) + (tail if last < start else 0)
        if tail > line_bytes_max + _SLACK_BYTES:
            block, _ = _cut(held, tail)
            if block:
                yield block
            yield TooLong()
            held, size, tail, is_skipping = [], 0, 0, True
        elif size >= block_bytes and tail < size:
            block, rest = _cut(held, tail)
            yield block
            held, size = [rest], tail
    if size:
        yield b"".join(held) + (_NEWLINE if tail else b"")


def _pieces(chunks: Iterable[bytes | pa.Buffer], block_bytes: int) -> Iterator[bytes]:
    """The chunks, none of them empty or larger than a block."""
    for chunk in chunks:
        view = memoryview(chunk)
        if isinstance(chunk, bytes) and 0 < len(chunk) <= block_bytes:
            yield chunk
            continue
        for start in range(0, len(view), block_bytes):
            yield bytes(view[start : start + block_bytes])


def _cut(held: list[bytes], tail: int) -> tuple[bytes, bytes]:
    """The whole lines, and the beginning of the next one."""
    *before, last = held
    if tail > len(last):  # the next line has begun in an earlier piece
        before, last = [], b"".join(held)
    end = len(last) - tail
    return b"".join([*before, memoryview(last)[:end]]), last[end:]


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a block, without the blank ones.

    Attributes:
        data: The block.
        starts: Where each line begins.
        ends: Where it ends; its line end, of one byte or two, is not part of it.
        numbers: Its number in the split, from 1.
    """

    data: bytes
    starts: Places
    ends: Places
    numbers: Places

    def __len__(self) -> int:
        return len(self.starts)

    def line(self, place: int) -> bytes:
        """One line."""
        return self.data[int(self.starts[place]) : int(self.ends[place])]

    def gather(self, places: Places) -> bytes:
        """Some lines, each with its line end, one after the other; ascending places."""
        first, last = int(places[0]), int(places[-1])
        if last - first + 1 == len(places):
            if len(places) == len(self):
                return self.data
            return self.data[int(self.starts[first]) : self._stop(last)]
        found = self.texts(places)
        data: bytes = found.buffers()[2].to_pybytes()
        return data

    def texts(self, places: Places) -> pa.LargeBinaryArray:
        """Some lines as an array; blank lines may follow a line."""
        offsets = np.append(self.starts, self._stop(len(self) - 1))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers).take(pa.array(places))

    def _stop(self, place: int) -> int:
        following = place + 1
        return int(self.starts[following]) if following < len(self) else len(self.data)


def find_lines(data: bytes, first: int) -> tuple[Lines, int]:
    """The lines of a block whose first line has a number, and how many they are with blank ones.

    Every line of the block has its newline.
    """
    view = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(view == _LF)
    starts = np.empty_like(ends)
    starts[:1] = 0
    starts[1:] = ends[:-1] + 1
    count = len(ends)
    numbers = np.arange(first, first + count)
    ends = ends - ((ends > starts) & (view[ends - 1] == _CR))
    kept = ends > starts
    if not kept.all():
        starts, ends, numbers = starts[kept], ends[kept], numbers[kept]
    return Lines(data, starts, ends, numbers), count
