"""The files that a version of a table needs, wherever below the root they lie."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from omnigraph.store.integrity.index_checksums import INDEX_FOLDER
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.table import Table
from omnigraph.store.versions.base_paths import new_place
from omnigraph.store.versions.gateway import tree_path

__all__ = ["UsedFiles"]


@dataclass(frozen=True, slots=True)
class UsedFiles:
    """Files by their paths, and folders whose files are all needed."""

    paths: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def add(self, table: Table) -> None:
        """Take in what one version needs: data, the blobs beside it, deletions, indexes."""
        path = table.pin.path
        own = tree_path(path, table.pin.branch)
        bases = {
            number: new_place(base.path, path, "").lstrip("/")
            for number, base in table.dataset.base_paths().items()
        }
        for fragment in table.dataset.get_fragments():
            metadata = fragment.metadata
            for file in metadata.files:
                place = f"{_folder(bases, file.base_id, own)}/data/{file.path}"
                self.paths.add(place)
                self.folders.add(place.removesuffix(".lance"))
            deletions = metadata.deletion_file
            if deletions is not None:
                folder = _folder(bases, deletions.base_id, own)
                self.paths.add(f"{folder}/{deletions.path(metadata.id)}")
        indexes = storage_call(StorageCall.TABLE_INDEX, path, table.dataset.describe_indices)
        for folder in (own, *bases.values()):
            self.folders.update(
                f"{folder}/{INDEX_FOLDER}/{segment.uuid}"
                for index in indexes
                for segment in index.segments
            )

    def needs(self, path: str) -> bool:
        """Return whether a file is among them."""
        return path in self.paths or any(parent in self.folders for parent in _parents(path))


def _folder(bases: dict[int, str], base_id: int | None, own: str) -> str:
    return own if base_id is None else bases.get(base_id, own)


def _parents(path: str) -> Iterable[str]:
    while "/" in path:
        path, _, _ = path.rpartition("/")
        yield path
