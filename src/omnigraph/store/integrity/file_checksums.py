"""Checksums of data and deletion files, kept in their names.

Lance's files have none. A flipped byte in one may change a value, or make Lance ask for more
memory than there is. So a file gets its name when it is written, and the name ends with the
checksum of the content: it costs no file and no read, and the metadata of the version holds
it. That of a small file is compared once per process, before Lance reads the file for the
first time; that of a larger one is compared by verification.

A deletion file is named by two numbers. Those of ours are chance and the version that it was
written for, so that no two writers share a file, and a mark and the checksum.

Of files without a checksum, and of larger ones when they are read, the numbers in the footer are
compared with the size. Only on local disk: object storage has checksums of its own.
"""

import copy
import dataclasses
import os
import re
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from lance.fragment import DeletionFile

from omnigraph.runtime.ids import Ids, UlidIds
from omnigraph.store import tuning
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.integrity.index_checksums import IndexChecksums
from omnigraph.store.io.durability import replace

__all__ = ["FileChecksums", "damage_of_file", "deleted_from", "is_checkable"]

_CHECKSUM_IN_NAME: Final = re.compile(r"_([0-9a-f]{8})\.lance")
_DELETIONS: Final = re.compile(r"/_deletions/\d+-\d+-(\d+)\.\w+$")
_SUFFIX: Final = ".lance"
# The upper half of the number of a deletion file whose lower half is its checksum.
_MARK: Final = 0x6F676372
_HALF_BITS: Final = 32
# The places of column metadata, of the tables of columns and global buffers; how many of both.
_FOOTER: Final = struct.Struct("<QQQIIHH4s")
_MAGIC: Final = b"LANC"
_ENTRY_BYTES: Final = 16


class FileChecksums:
    """Checksums of files of one root. Thread-safe. ``place`` is the folder of a table or fork."""

    def __init__(self, base: Path | None) -> None:
        self._base = base
        self._lock = threading.Lock()
        self._checked: set[str] = set()
        self._ids: Ids = UlidIds()
        self.indexes = IndexChecksums(base)

    def add_to_names(self, place: str, fragments: Iterable[Any]) -> list[Any]:
        """Rename the small files of fragments that nothing refers to; return the fragments."""
        if self._base is None:
            return list(fragments)
        folder = self._base / place / "data"
        return [
            dataclasses.replace(each, files=[_with_checksum(folder, file) for file in each.files])
            for each in fragments
        ]

    def move_in(self, source: Path, place: str, name: str) -> str:
        """Move a data file that is whole to its table; return its name.

        The name of a small file has its checksum.
        """
        assert self._base is not None
        folder = self._base / place / "data"
        folder.mkdir(parents=True, exist_ok=True)
        if os.path.getsize(source) <= tuning.active.checksum_file_bytes_max:
            checksum = zlib.crc32(source.read_bytes())
            name = f"{name.removesuffix(_SUFFIX)}_{checksum:08x}{_SUFFIX}"
        replace(source, folder / name)
        return name

    @property
    def is_local(self) -> bool:
        """True if the files lie on this machine."""
        return self._base is not None

    def write_deletions(
        self, place: str, fragment: int, version: int, content: bytes, count: int
    ) -> DeletionFile:
        """Write a deletion file, a bitmap, of a fragment that nothing refers to; describe it.

        Args:
            place: The folder of the table or fork.
            fragment: The number of the fragment.
            version: The version that the rows are deleted from.
            content: The bitmap.
            count: The number of rows that it lists.
        """
        assert self._base is not None, "elsewhere Lance writes them"
        number = _MARK << _HALF_BITS | zlib.crc32(content)
        # Another writer may delete the same rows of the same version, and remove its file again.
        chance = zlib.crc32(self._ids.new().encode()) >> 1
        found = DeletionFile(chance << _HALF_BITS | version, number, "bitmap", count, None)
        target = os.path.join(self._base, place, found.path(fragment))
        try:
            _write(target, content)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _write(target, content)
        return found

    def check(self, verb: str, place: str, dataset: Any, fragments: Iterable[Any]) -> None:
        """Compare the files of fragments with their checksums, unless that was done before.

        Raises:
            StorageFailure: CORRUPT, about the file that is damaged.
        """
        if self._base is None:
            return
        own = os.path.join(self._base, place)
        bases: dict[int, str] | None = None
        for base_id, name in _names(fragments):
            folder = own
            if base_id is not None:
                if bases is None:
                    bases = {key: str(base.path) for key, base in dataset.base_paths().items()}
                folder = bases.get(base_id, own)
            path = os.path.join(folder, name)
            if path not in self._checked:
                reason = damage_of_file(path, tuning.active.compared_bytes_max) or _loss(
                    path, own, int(dataset.version)
                )
                if reason is not None:
                    where = os.path.relpath(path, self._base)
                    raise StorageFailure(FailureKind.CORRUPT, verb, where, reason)
                with self._lock:
                    self._checked.add(path)


def _write(path: str, content: bytes) -> None:
    """Write a file with as few calls as can be: a change of a large table writes many."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def _loss(path: str, own: str, version: int) -> str | None:
    """Report that a file is missing, if the version that refers to it exists.

    A clean-up takes versions before their files. So where both are gone, it is history that went.
    """
    if os.path.exists(path):
        return None
    # Spelled as `manifest_name` does, which stands above this module.
    name = f"{(1 << 64) - 1 - version:020d}.manifest"
    if not os.path.exists(os.path.join(own, "_versions", name)):
        return None
    return f"it is missing, and version {version} refers to it"


def checksum_suffix(name: str) -> str:
    """Return the end of the name of a data file: its checksum, if it has one, and its kind."""
    found = _CHECKSUM_IN_NAME.search(name)
    return found[0] if found else _SUFFIX


def _names(fragments: Iterable[Any]) -> Iterator[tuple[int | None, str]]:
    """Yield the files of fragments, each by its base and its path there."""
    for fragment in fragments:
        for file in fragment.files:
            yield file.base_id, f"data/{file._path}"
        deletions = fragment.deletion_file
        if deletions is not None and deletions.id >> _HALF_BITS == _MARK:
            yield deletions.base_id, deletions.path(fragment.id)


def _with_checksum(folder: Path, file: Any) -> Any:
    """Give a file its name; a large one, or one that others are named after, keeps its own."""
    name = str(file._path)
    path = folder / name
    if file.base_id is not None or _CHECKSUM_IN_NAME.search(name) or path.with_suffix("").is_dir():
        return file
    if os.path.getsize(path) > tuning.active.checksum_file_bytes_max:
        return file
    found = copy.copy(file)
    found._path = f"{name.removesuffix(_SUFFIX)}_{zlib.crc32(path.read_bytes()):08x}{_SUFFIX}"
    replace(path, folder / found._path)
    return found


def is_checkable(path: str) -> bool:
    """Return whether anything is known about the content of a file of a table, by its path."""
    number = _DELETIONS.search(path)
    if number is not None:
        return int(number[1]) >> _HALF_BITS == _MARK
    folder = path.rpartition("/")[0]
    return path.endswith(_SUFFIX) and ("/_indices/" in path or folder.endswith("/data"))


def deleted_from(read_version: int) -> int:
    """Return the version that a deletion file was written for, given the first of its numbers."""
    return read_version & ((1 << _HALF_BITS) - 1)


def damage_of_file(path: str, bytes_max: int | None = None) -> str | None:
    """Return what is wrong with a file; None if nothing is known. One that is missing is Lance's.

    Args:
        path: The file.
        bytes_max: The size up to which its content is compared; None: whatever its size.
    """
    checksum = _checksum(path)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if checksum is not None and (bytes_max is None or size <= bytes_max):
                if zlib.crc32(file.read()) != checksum:
                    return "its content does not have the checksum that its name says"
                return None
            file.seek(max(0, size - _FOOTER.size))
            return _footer_damage(file.read(), size)
    except OSError:
        return None


def _checksum(path: str) -> int | None:
    """Return the checksum that a name says."""
    if found := _CHECKSUM_IN_NAME.search(path):
        return int(found[1], 16)
    number = _DELETIONS.search(path)
    return None if number is None else int(number[1]) & ((1 << _HALF_BITS) - 1)


def _footer_damage(footer: bytes, size: int) -> str | None:
    if len(footer) < _FOOTER.size:
        return f"it has only {size} bytes"
    metadata, columns, buffers, buffer_count, column_count, _, _, magic = _FOOTER.unpack(footer)
    if magic != _MAGIC:
        return "it does not end as a data file does"
    body = size - _FOOTER.size
    if not metadata <= columns <= buffers <= body:
        return "its footer points out of it"
    if columns + column_count * _ENTRY_BYTES > body or buffers + buffer_count * _ENTRY_BYTES > body:
        return f"its footer promises more than its {size} bytes hold"
    return None
