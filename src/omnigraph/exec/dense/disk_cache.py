"""A disk cache of structures for the next process: files that are mapped, not read.

A file holds the arrays of one structure and is named by what it was made from, so it is never out
of date. It is written under another name and gets its own when it is complete and on disk. It ends
with checksums, of each block of its content and of what the file is for. Files are safe to lose;
one that cannot be used is removed and taken for missing.

A mapped file is used as it is: an offset that leads out of it would end the process, and any other
change would be a wrong answer. So all of it is checked before any of it is used.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.runtime import telemetry
from omnigraph.runtime.ids import UlidIds

T = TypeVar("T")
Arrays: TypeAlias = Mapping[str, pa.Array]

_FORMAT: Final = {b"omnigraph:dense": b"2"}
_SUFFIX: Final = ".arrow"
_PART: Final = ".part-"
_BYTES_MAX: Final = 32 << 30
BLOCK_BYTES: Final = 4 << 20
# The length of the content, the checksum of the trailer itself and of the name, and the mark.
_END: Final = struct.Struct("<QI8s")
_MAGIC: Final = b"OGCHECK1"
_THREADS_MAX: Final = 8
# Below so many blocks, starting threads takes longer than they save.
_THREADED_BLOCKS: Final = 8


class DiskCache:
    """A folder of structures. Thread-safe; several processes may share it."""

    def __init__(self, folder: Path, *, bytes_max: int = _BYTES_MAX) -> None:
        """Use a folder, made when the first structure is saved."""
        self._folder = folder
        self._bytes_max = bytes_max
        self._ids = UlidIds()
        self._lock = threading.Lock()
        self._writer: ThreadPoolExecutor | None = None
        self._pending: set[Future[None]] = set()

    def load(self, place: str, decode: Callable[[Arrays], T | None]) -> T | None:
        """Returns what was saved there, decoded; None when there is nothing or it is damaged."""
        path = self._path(place)
        found = None
        try:
            found = decode(_read(path, place))
        except (FileNotFoundError, PermissionError):
            pass
        except (OSError, pa.ArrowException, ValueError, LookupError, TypeError):
            telemetry.count("dense.disk_cache_damaged")
            with suppress(OSError):
                path.unlink()  # what is made instead is saved in its place
        else:
            with suppress(OSError):  # the folder of another user can be read all the same
                os.utime(path)  # what was used last is removed last
        telemetry.count("dense.disk_cache_miss" if found is None else "dense.disk_cache_hit")
        return found

    def has(self, place: str) -> bool:
        """True if there is something to load."""
        return self._path(place).is_file()

    def folders(self, place: str) -> list[str]:
        """The names of the folders at a place."""
        with suppress(OSError):
            return sorted(entry.name for entry in os.scandir(self._folder / place))
        return []

    def save(self, place: str, arrays: Callable[[], Arrays]) -> None:
        """Write arrays to disk, a little later and in the background."""
        with self._lock:
            if self._writer is None:
                self._writer = ThreadPoolExecutor(1, thread_name_prefix="omnigraph-disk-cache")
            future = self._writer.submit(self._save, place, arrays)
            self._pending.add(future)
        future.add_done_callback(self._pending.discard)

    def flush(self) -> None:
        """Wait until everything is on disk."""
        for future in list(self._pending):
            future.result()

    def _save(self, place: str, arrays: Callable[[], Arrays]) -> None:
        path = self._path(place)
        part = path.with_name(_PART + self._ids.new())
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(part, arrays(), place)
            os.replace(part, path)
            self._prune(keep=path)
        except (OSError, pa.ArrowException):
            # A full or read-only disk costs speed, nothing else.
            telemetry.count("dense.disk_cache_unwritten")
            with suppress(OSError):
                part.unlink()

    def _prune(self, *, keep: Path) -> None:
        """Remove what was used longest ago until the rest fits."""
        found = sorted(_files(self._folder), key=lambda entry: entry[1])
        total = sum(size for _, _, size in found)
        for path, _, size in found:
            if total <= self._bytes_max:
                return
            if path != keep:
                with suppress(OSError):
                    path.unlink()
                total -= size

    def _path(self, place: str) -> Path:
        return self._folder / (place + _SUFFIX)


def numbers(array: pa.Array) -> np.ndarray[Any, Any]:
    """A saved array of numbers, without a copy and read-only."""
    found: np.ndarray[Any, Any] = array.to_numpy(zero_copy_only=True)
    return found


def _write(path: Path, arrays: Arrays, place: str) -> None:
    # One row of lists: arrays of any lengths and types side by side, whole when mapped.
    columns = [
        pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), array)
        for array in arrays.values()
    ]
    names = list(arrays)
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=_FORMAT))
    with open(path, "x+b") as file:
        with pa.ipc.new_file(file, batch.schema) as writer:
            writer.write_batch(batch)
        file.seek(0)
        file.write(trailer(file, place))
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path, place: str) -> Arrays:
    with pa.memory_map(str(path)) as source:
        content = checked(source.read_buffer(), place)
    with pa.ipc.open_file(content) as reader:
        if (reader.schema.metadata or {}) != _FORMAT or reader.num_record_batches != 1:
            raise ValueError("not a structure")
        batch = reader.get_batch(0)
        batch.validate()
        return {name: batch.column(name).values for name in reader.schema.names}


def _files(folder: Path) -> Iterator[tuple[Path, float, int]]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            with suppress(OSError):
                stat = path.stat()
                yield path, stat.st_mtime, stat.st_size


class Damaged(ValueError):
    """The content is not what was written, or not for this purpose."""


def trailer(content: BinaryIO, name: str) -> bytes:
    """Return what to append to a file.

    Args:
        content: The file as it is now, to be read from the beginning.
        name: What the file is for. It is read under the same name.
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
