"""Checksums of index files, kept in the name of their folder.

The files of an index segment lie in a folder that is named by the segment's UUID. Before anything
refers to it, the segment gets a UUID of version 8, the one that is free to mean something, and a
part of it is the checksum of the names, sizes and contents of its files. It costs no file, and
the metadata of the version holds it. It is compared once per process, before the segment is
used for the first time. A segment with any other UUID was built by another program and is accepted.

An index is derived. One that is damaged is not used: answers come from the rows themselves, a
warning says so, and `ensure_indices` or `optimize` builds it anew. The same becomes of one that
Lance cannot read, on object storage, too, where no checksum is compared.
"""

import dataclasses
import threading
import uuid
import zlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

from omnigraph.runtime.telemetry import logger
from omnigraph.store import tuning
from omnigraph.store.io.durability import replace

__all__ = ["INDEX_FOLDER", "IndexChecksums"]

INDEX_FOLDER: Final = "_indices"
# The mark in the second group of a UUID, and its version.
_MARK: Final = 0x6F67
_VERSION: Final = 8


class IndexChecksums:
    """The index segments below one root. Thread-safe. ``place`` is the folder of a table."""

    def __init__(self, base: Path | None) -> None:
        self._base = base
        self._lock = threading.Lock()
        self._sound: set[str] = set()
        self._damaged: set[str] = set()

    def add_to_name(self, place: str, segment: Any) -> Any:
        """Rename the folder of a segment that nothing refers to; return the segment."""
        if self._base is None:
            return segment
        folder = self._base / place / INDEX_FOLDER
        name = _with_checksum(segment.uuid, _checksum(folder / segment.uuid))
        replace(folder / segment.uuid, folder / name)
        return dataclasses.replace(segment, uuid=name)

    def damaged(self, place: str, dataset: Any, segments: Iterable[Any]) -> frozenset[str]:
        """Return the UUIDs of those segments that must not be used.

        Args:
            place: The table.
            dataset: Lance's handle of a version of it.
            segments: Segments of that version, as Lance describes them.
        """
        found = set()
        for segment in segments:
            name = str(segment.uuid)
            if name not in self._sound and name not in self._damaged:
                self._compare(place, dataset, segment)
            if name in self._damaged:
                found.add(name)
        return frozenset(found)

    def condemn(self, place: str, uuids: Collection[str], reason: str) -> None:
        """Note that segments cannot be used, and log a warning."""
        with self._lock:
            fresh = sorted(set(uuids) - self._damaged)
            self._damaged.update(fresh)
        for name in fresh:
            logger.warning(
                "an index of %r is damaged and is not used (%s/%s: %s); answers are right but "
                "slower until `ensure_indices` builds it anew",
                place,
                INDEX_FOLDER,
                name,
                reason,
            )

    def _compare(self, place: str, dataset: Any, segment: Any) -> None:
        name = str(segment.uuid)
        reason = self._damage(place, dataset, segment)
        if reason is not None:
            self.condemn(place, [name], reason)
            return
        with self._lock:
            self._sound.add(name)

    def _damage(self, place: str, dataset: Any, segment: Any) -> str | None:
        """Return what is wrong with the files of a segment; None if nothing is known."""
        expected = _expected(segment.uuid)
        if self._base is None or expected is None:
            return None
        folder = self._base / place
        if segment.base_id is not None and (base := dataset.base_paths().get(segment.base_id)):
            folder = Path(base.path)
        try:
            found = _checksum(folder / INDEX_FOLDER / segment.uuid)
        except OSError as error:
            return str(error)
        if found == expected:
            return None
        return "its files do not have the checksum that its name says"


def _with_checksum(name: str, checksum: int) -> str:
    """Return a UUID that says a checksum; what is left of it is as random as the one given."""
    rest = uuid.UUID(name)
    low = rest.time_hi_version & 0x0FFF | _VERSION << 12
    fields = (checksum, _MARK, low, rest.clock_seq_hi_variant, rest.clock_seq_low, rest.node)
    return str(uuid.UUID(fields=fields))


def _expected(name: str) -> int | None:
    """Return the checksum that a UUID says."""
    found = uuid.UUID(name)
    has_checksum = found.time_mid == _MARK and found.time_hi_version >> 12 == _VERSION
    return found.time_low if has_checksum else None


def _checksum(folder: Path) -> int:
    """Return the checksum of what is in a folder."""
    total = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        size = path.stat().st_size
        head = f"{path.relative_to(folder).as_posix()}\0{size}\0"
        total = zlib.crc32(head.encode(), total)
        with path.open("rb") as file:
            if size > tuning.active.whole_index_bytes_max:
                file.seek(size - tuning.active.compared_block_bytes)
            while block := file.read(tuning.active.compared_block_bytes):
                total = zlib.crc32(block, total)
    return total
