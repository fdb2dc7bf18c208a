"""Version files of forks with the places that they name replaced: see ``base_paths``.

A fork of a table names the table's own folder, or that of another of its forks, under the root at
which it was made. So the new place of each is known from the old one, whatever root that was. Every
file is replaced as a whole, by one that says the same: doing it again changes nothing, and a
run that stops half-way leaves files that are either done or to be done.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.integrity.torn_files import Condition, condition_of_manifest
from omnigraph.store.integrity.version_checksums import (
    damage_in,
    has_checksum,
    joined_version,
    split_version,
)
from omnigraph.store.io.objects import ObjectStore
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.versions.base_paths import new_place, root_of
from omnigraph.store.versions.protobuf import BYTES, Entry, encoded, entries

__all__ = ["RelocatedFile", "VersionFiles", "relocated", "version_file_table"]

# Of a message of Lance's: the entry of a base, and in it that of its path.
_BASES: Final = 18
_PATH: Final = 4
_OF_FORKS: Final = re.compile(r"(.+?)/tree/.+/_versions/[^/]+\.manifest")


def version_file_table(path: str) -> str | None:
    """Return the table whose fork a version file belongs to; None for any other file."""
    found = _OF_FORKS.fullmatch(path)
    return found[1] if found else None


def relocated(
    data: bytes, table: str, root: str, is_root: Callable[[str], bool]
) -> tuple[bytes, frozenset[str]]:
    """Return a version file of a fork that names places under a root, and the roots it named.

    Args:
        data: The file.
        table: The path of the table below the root.
        root: The place of the graph now.
        is_root: True if a recorded root is that place, however it is spelled.

    Raises:
        ValueError: It is not a version file.
    """
    parts = split_version(data)
    if parts is None:
        raise ValueError("it is not laid out as a version file")
    before, message, footer = parts
    others: set[str] = set()

    def change(recorded: str) -> str:
        if is_root(root_of(recorded, table)):
            return recorded
        others.add(root_of(recorded, table))
        return new_place(recorded, table, root)

    changed = encoded([_rebased(entry, change) for entry in entries(message)])
    if not others:
        return data, frozenset()
    return joined_version(before, changed, footer, checked=has_checksum(data)), frozenset(others)


def _rebased(entry: Entry, change: Callable[[str], str]) -> Entry:
    number, kind, content = entry
    if number != _BASES or kind != BYTES or not isinstance(content, bytes):
        return entry
    inner = [
        (each, wire, change(value.decode()).encode())
        if each == _PATH and isinstance(value, bytes)
        else (each, wire, value)
        for each, wire, value in entries(content)
    ]
    return number, kind, encoded(inner)


@dataclass(frozen=True, slots=True)
class RelocatedFile:
    """One version file that was looked at, and the other places that it named."""

    path: str
    roots: frozenset[str]


class VersionFiles:
    """The version files of the forks of one root."""

    def __init__(self, objects: ObjectStore, root: str, is_root: Callable[[str], bool]) -> None:
        self._objects = objects
        self._root = root
        self._is_root = is_root

    def of(self, table: str) -> list[str]:
        """List the version files of all forks of a table."""
        found = [info.path for info in self._objects.list(f"{table}/tree")]
        return [path for path in found if version_file_table(path) == table]

    def relocate(self, table: str, path: str, *, dry_run: bool = False) -> RelocatedFile:
        """Replace the places in one file by those below this root; torn files stay as they are."""
        try:
            data = self._objects.get(path)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            return RelocatedFile(path, frozenset())  # dropped since it was listed
        if condition_of_manifest(data) is Condition.TORN:
            return RelocatedFile(path, frozenset())
        reason = damage_in(data)
        try:
            if reason is not None:
                raise ValueError(reason)
            changed, roots = relocated(data, table, self._root, self._is_root)
        except ValueError as error:
            verb = StorageCall.TABLE_OPEN
            raise StorageFailure(FailureKind.CORRUPT, verb.value, path, str(error)) from error
        if roots and not dry_run:
            self._objects.put(path, changed)
        return RelocatedFile(path, roots)
