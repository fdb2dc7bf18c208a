"""Files that an operation wrote beside a table and that no version refers to."""

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from lance import FragmentMetadata
from lance.fragment import DeletionFile

from omnigraph.runtime.ids import is_ulid
from omnigraph.store import tuning
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import Backend
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import DeletionReceipt, FragmentReceipt, Pin
from omnigraph.store.table import Table
from omnigraph.store.versions.gateway import tree_path

__all__ = ["OrphanFiles", "data_paths", "deletion_paths"]

_SUFFIX: Final = ".lance"


class OrphanFiles:
    """The files below one root. Paths are relative to it."""

    def __init__(self, backend: Backend, open_table: Callable[[Pin], Table]) -> None:
        self._backend = backend
        self._open = open_table

    def written_by(self, operation: str, path: str, branch: str | None) -> list[str]:
        """Name the data files of a table that an operation wrote, whether they are used or not."""
        folder = f"{tree_path(path, branch)}/data"
        names = storage_call(
            StorageCall.OBJECT_LIST, folder, lambda: self._backend.beginning(folder, operation)
        )
        return sorted(f"{folder}/{name}" for name in names)

    def referenced(self, base: Pin, head: int) -> frozenset[str] | None:
        """The files of the versions of a table after a base; None when they are unknown."""
        if head - base.version > tuning.active.searched_versions_max:
            return None
        found: set[str] = set()
        for version in range(base.version + 1, head + 1):
            pin = Pin(base.path, version, base.branch)
            try:
                found |= self.files_of(self._open(pin))
            except StorageFailure as failure:
                if failure.kind is FailureKind.NOT_FOUND:
                    return None
                raise
        return frozenset(found)

    @staticmethod
    def files_of(table: Table) -> frozenset[str]:
        """Name the files that a version of a table refers to in its own folder."""
        place = tree_path(table.pin.path, table.pin.branch)
        found: set[str] = set()
        for fragment in table.dataset.get_fragments():
            metadata = fragment.metadata
            found |= {
                f"{place}/data/{each.path}" for each in metadata.files if each.base_id is None
            }
            deletions = metadata.deletion_file
            if deletions is not None and deletions.base_id is None:
                found.add(f"{place}/{deletions.path(metadata.id)}")
        return frozenset(found)

    def remove(self, paths: Iterable[str]) -> int:
        """Remove files, with the blobs beside them; return how many."""
        count = 0
        for path in paths:
            for each in (*self._blobs(path), path):
                self._remove(each)
                count += 1
        return count

    def _blobs(self, path: str) -> list[str]:
        """The files of a table with blobs have names that Lance gave them; see `named_files`."""
        folder, _, name = path.rpartition("/")
        if not name.endswith(_SUFFIX) or is_ulid(name.partition("-")[0]):
            return []
        place = f"{folder}/{name.removesuffix(_SUFFIX)}"
        found = storage_call(StorageCall.OBJECT_LIST, place, lambda: self._backend.list(place))
        return [info.path for info in found]

    def _remove(self, path: str) -> None:
        try:
            storage_call(StorageCall.OBJECT_DELETE, path, lambda: self._backend.delete(path))
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise


def data_paths(table: Table, receipts: Iterable[FragmentReceipt]) -> list[str]:
    """Name the data files of new fragments of a table."""
    place = tree_path(table.pin.path, table.pin.branch)
    fragments = [FragmentMetadata.from_json(receipt.fragment) for receipt in receipts]
    return [f"{place}/data/{file.path}" for each in fragments for file in each.files]


def deletion_paths(table: Table, receipt: DeletionReceipt) -> list[str]:
    """Name the deletion files that were written for a table."""
    place = tree_path(table.pin.path, table.pin.branch)
    return [
        f"{place}/{DeletionFile(version, file, cast('Any', kind), count, None).path(number)}"
        for number, version, file, kind, count in receipt.deletions
    ]
