"""The bytes of a piece of a file, in chunks of some megabytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from omnigraph.dataplane import tuning
from omnigraph.dataplane.decode.model import DecodeStats
from omnigraph.dataplane.source.model import Compression
from omnigraph.store.failures import object_errors
from omnigraph.store.io.storage_calls import StorageCall

_NEWLINE: Final = b"\n"


@dataclass(slots=True)
class Damage:
    """The fault of a file that cannot be read to its end; None if there is none."""

    text: str | None = None


def is_damage(error: Exception) -> bool:
    """True if an error of Arrow means the content, and not the disk or the memory."""
    if isinstance(error, MemoryError):
        return False
    return isinstance(error, pa.ArrowException) or (
        isinstance(error, OSError) and error.errno is None
    )


def range_chunks(
    file: pa.NativeFile, name: str, start: int, stop: int | None, stats: DecodeStats
) -> Iterator[bytes]:
    """The lines that begin at a byte from `start` up to, and without, `stop`.

    Of lines that begin elsewhere, as little is read as possible: a file that is one enormous line
    is still read only once by all of its tasks together.
    """
    read = _FileReader(file, name)
    position = start
    if start:
        first, position = _first_line(read, start, stop)
        if first is None:
            return
        stats.bytes += len(first)
        if first:
            yield first
    is_ended = True
    while stop is None or position < stop:
        wanted = (
            tuning.active.chunk_bytes
            if stop is None
            else min(tuning.active.chunk_bytes, stop - position)
        )
        chunk = read(position, wanted)
        if not chunk:
            return
        position += len(chunk)
        stats.bytes += len(chunk)
        is_ended = chunk.endswith(_NEWLINE)
        yield chunk
    while not is_ended and (tail := read(position, tuning.active.line_tail_bytes)):
        position += len(tail)
        end = tail.find(_NEWLINE) + 1
        is_ended = end > 0
        tail = tail[:end] if is_ended else tail
        stats.bytes += len(tail)
        yield tail


class _FileReader:
    """Reads a file, and translates failures of storage."""

    def __init__(self, file: pa.NativeFile, name: str) -> None:
        self._file = file
        self._name = name

    def __call__(self, position: int, size: int) -> bytes:
        with object_errors(StorageCall.OBJECT_GET.value, self._name):
            if self._file.tell() != position:
                self._file.seek(position)
            data: bytes = self._file.read(size)
            return data


def _first_line(read: _FileReader, start: int, stop: int | None) -> tuple[bytes | None, int]:
    """The bytes after the first line end from before `start` on, and the position to go on from.

    None if no line begins before `stop`: then its line end would be at `stop - 2` at the latest.
    """
    position = start - 1
    while stop is None or position < stop - 1:
        wanted = (
            tuning.active.chunk_bytes
            if stop is None
            else min(tuning.active.chunk_bytes, stop - 1 - position)
        )
        chunk = read(position, wanted)
        if not chunk:
            break
        position += len(chunk)
        found = chunk.find(_NEWLINE)
        if found >= 0:
            return chunk[found + 1 :], position
    return None, position


def unpacked_chunks(
    file: pa.NativeFile,
    compression: Compression,
    line_bytes_max: int,
    stats: DecodeStats,
    damage: Damage,
) -> Iterator[bytes]:
    """The bytes of a packed file, whole lines each, unless a line is longer than the bound.

    Where the file is damaged or cut off, the chunks end with the last line that is whole, and
    `damage` tells.
    """
    stream = pa.CompressedInputStream(file, compression.value)
    carry = b""  # the beginning of a line that has not ended yet
    seen = 0
    while True:
        # Zeros, so that an error shows what was written into it.
        buffer = bytearray(
            max(tuning.active.chunk_bytes, len(carry) + tuning.active.line_tail_bytes)
        )
        buffer[: len(carry)] = carry
        view = memoryview(buffer)
        try:
            count = stream.readinto(view[len(carry) :])
        except (pa.ArrowException, OSError) as error:
            if not is_damage(error):
                raise
            damage.text = f"{compression.value}: {error}"
            stats.bytes += file.tell() - seen
            yield from _whole_lines(bytes(view).rstrip(b"\0"))
            return
        stats.bytes += file.tell() - seen
        seen = file.tell()
        if not count:
            if carry:
                yield carry
            return
        filled = len(carry) + count
        cut = buffer.rfind(_NEWLINE, 0, filled) + 1
        if not cut and filled > line_bytes_max:
            cut = filled
        carry = bytes(view[cut:filled])
        if cut:
            yield bytes(view[:cut])


def _whole_lines(data: bytes) -> Iterator[bytes]:
    cut = data.rfind(_NEWLINE) + 1
    if cut:
        yield data[:cut]
