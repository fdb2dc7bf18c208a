"""Deleting rows of fragments: writing deletion files, which nothing refers to yet.

A fragment has one deletion file, so a new one lists again what the last one lists. That is known
where the last one was read or written before, and a file of this machine is then written without a
look at it. Elsewhere Lance reads the last one and writes the next one.
"""

import dataclasses
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.integrity.file_checksums import FileChecksums
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.reading.deletion_files import Offsets
from omnigraph.store.reading.row_addresses import (
    FRAGMENT_BITS,
    OFFSET_MASK,
    AddressedRows,
    Fragment,
)
from omnigraph.store.table import Table
from omnigraph.store.versions.gateway import tree_path

__all__ = ["DeletionWriter"]


class DeletionWriter:
    """Writes deletion files. Thread-safe."""

    def __init__(self, checksums: FileChecksums, rows: Callable[[Table], AddressedRows]) -> None:
        self._checksums = checksums
        self._rows = rows

    def write(self, table: Table, addresses: npt.NDArray[np.uint64]) -> tuple[list[Any], list[int]]:
        """Delete rows; return the fragments as they are then, and those with no row left."""
        changed: list[Any] = []
        removed: list[int] = []
        if not len(addresses):
            return changed, removed
        # What is deleted already is written again.
        table.check(StorageCall.TABLE_ERASE)
        rows, place = self._rows(table), tree_path(table.pin.path, table.pin.branch)
        ascending = np.sort(addresses.astype(np.uint64, copy=False))
        owners = (ascending >> np.uint64(FRAGMENT_BITS)).astype(np.int64)
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        parts = np.split((ascending & OFFSET_MASK).astype(np.uint32), starts[1:])
        for owner, offsets in zip(owners[starts].tolist(), parts, strict=True):
            fragment = rows.fragments.get(owner)
            if fragment is None or offsets[-1] >= fragment.rows + fragment.gone:
                raise _invalid(table, f"there is no row {int(offsets[-1])} in fragment {owner}")
            if self._checksums.is_local:
                dead = _joined(rows.deleted(fragment), offsets)
                write = partial(self._deletion_file, place, rows, fragment, dead)
            else:
                write = partial(fragment.handle.delete_rows, offsets.tolist())
            left = storage_call(StorageCall.TABLE_ERASE, place, write)
            if left is None:
                removed.append(owner)
            else:
                changed.append(left)
        return changed, removed

    def _deletion_file(
        self, place: str, rows: AddressedRows, fragment: Fragment, dead: Offsets
    ) -> Any | None:
        """The fragment with a deletion file that lists these rows; None when no row is left."""
        if len(dead) == fragment.rows + fragment.gone:
            return None
        file = self._checksums.write_deletions(
            place, fragment.id, rows.table.pin.version, _encoded(dead), len(dead)
        )
        rows.deletions.keep(f"{place}/{file.path(fragment.id)}", dead)
        return dataclasses.replace(fragment.handle.metadata, deletion_file=file)


def _joined(dead: Offsets, more: Offsets) -> Offsets:
    """Offsets of both, ascending, each once."""
    found = np.sort(np.concatenate([dead, more]))
    distinct: Offsets = found[np.append(True, found[1:] != found[:-1])]
    return distinct


def _encoded(offsets: Offsets) -> bytes:
    """The content of a deletion file, as a bitmap."""
    # Imported late: reading seldom needs it.
    from pyroaring import BitMap  # noqa: PLC0415

    found: bytes = BitMap(array("I", offsets.tobytes())).serialize()
    return found


def _invalid(table: Table, text: str) -> StorageFailure:
    return StorageFailure(FailureKind.INVALID, StorageCall.TABLE_ERASE.value, table.pin.path, text)
