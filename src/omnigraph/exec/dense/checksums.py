"""Checksums at the end of a file: of each block of its content, and of what the file is for.

A file that is mapped is believed byte by byte: an offset that leads out of it ends the process,
and any other change is a wrong answer. So nothing of it is used before all of it was checked.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa

__all__ = ["Damaged", "checked", "trailer"]

BLOCK_BYTES: Final = 4 << 20
# The length of the content, the checksum of the trailer itself and of the name, and the mark.
_END: Final = struct.Struct("<QI8s")
_MAGIC: Final = b"OGCHECK1"
_THREADS_MAX: Final = 8
# Below so many blocks, starting threads takes longer than they save.
_THREADED_BLOCKS: Final = 8


class Damaged(ValueError):
    """The content is not what was written, or not for this purpose."""


def trailer(content: BinaryIO, name: str) -> bytes:
    """Return what to append to a file.

    Args:
        content: The file as it is now, to be read from the beginning.
        name: What the file is for. Whoever reads it must expect the same.
    """
    sums: list[int] = []
    length = 0
    while block := content.read(BLOCK_BYTES):
        sums.append(zlib.crc32(block))
        length += len(block)
    packed = np.array(sums, "<u4").tobytes()
    return packed + _END.pack(length, _own_sum(packed, length, name), _MAGIC)


def checked(data: pa.Buffer, name: str) -> pa.Buffer:
    """Return the content of a mapped file without its trailer, after checking all of it.

    Raises:
        Damaged: It is not as it was written, or was written under another name.
    """
    view = memoryview(data)
    if len(view) < _END.size:
        raise Damaged("too short")
    length, own, magic = _END.unpack(view[-_END.size :])
    blocks = -(-length // BLOCK_BYTES)
    if magic != _MAGIC or len(view) != length + 4 * blocks + _END.size:
        raise Damaged("no trailer")
    packed = bytes(view[length : -_END.size])
    if own != _own_sum(packed, length, name):
        raise Damaged("the trailer is of another file")
    content = view[:length]
    expected = np.frombuffer(packed, "<u4").tolist()
    if any(found != wanted for found, wanted in zip(_sums(content), expected, strict=True)):
        raise Damaged("the content does not have its checksum")
    return data.slice(0, length)


def _own_sum(packed: bytes, length: int, name: str) -> int:
    return zlib.crc32(b"\0".join([packed, str(length).encode(), name.encode()]))


def _sums(content: memoryview) -> Iterator[int]:
    starts = range(0, len(content), BLOCK_BYTES)
    threads = min(_THREADS_MAX, os.cpu_count() or 1)
    if len(starts) < _THREADED_BLOCKS or threads == 1:
        yield from (zlib.crc32(content[start : start + BLOCK_BYTES]) for start in starts)
        return
    # The interpreter is let go while a block is summed, so threads do help.
    share = -(-len(starts) // threads)
    parts = [starts[first : first + share] for first in range(0, len(starts), share)]

    def sums(part: range) -> list[int]:
        return [zlib.crc32(content[start : start + BLOCK_BYTES]) for start in part]

    with ThreadPoolExecutor(len(parts), thread_name_prefix="omnigraph-checksum") as pool:
        yield from chain.from_iterable(pool.map(sums, parts))
