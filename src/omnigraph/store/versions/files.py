"""The files that a write created, and making them durable.

Lance names its files by rules that guard tests pin; from its metadata this module finds exactly
what one write created, so that nothing else needs to be looked at. On object storage there is
nothing to name: an acknowledged object is stored.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from omnigraph.store.integrity.file_checksums import FileChecksums
from omnigraph.store.io.durability import Disk, unlink
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.root import Root

__all__ = ["Files", "manifest_name", "version_of"]

_LAST_VERSION: Final = (1 << 64) - 1


def manifest_name(version: int) -> str:
    """Return the file name of a version: counted down, so that a listing begins with the newest."""
    return f"{_LAST_VERSION - version:020d}.manifest"


def version_of(name: str) -> int:
    """Return the version whose file has this name."""
    return _LAST_VERSION - int(name.removesuffix(".manifest"))


class Files:
    """The files of the tables below one root. ``place`` is the folder of a table or fork."""

    def __init__(self, root: Root, *, durable: bool) -> None:
        self._base: Path | None = root.local_path if root.is_local else None
        self._disk = Disk(root.local_path) if root.is_local and durable else None
        self.checksums = FileChecksums(self._base)

    @property
    def is_durable(self) -> bool:
        """True if files are synced, or are kept by a store that syncs them itself."""
        return self._base is None or self._disk is not None

    @property
    def durable(self) -> bool:
        """True if files are made durable before a write returns."""
        return self._disk is not None

    def of_fragments(self, place: str, fragments: Iterable[Any]) -> tuple[str, ...]:
        """Name the data files of new fragments, with the blobs beside them."""
        folder = self._folder(place, "data")
        if folder is None:
            return ()
        names: list[str] = []
        for fragment in fragments:
            for file in fragment.files:
                path = folder / str(file.path)
                names.append(str(path))
                blobs = path.with_suffix("")
                if blobs.is_dir():
                    names.extend(str(blob) for blob in sorted(blobs.iterdir()))
        return tuple(names)

    def of_deletions(self, place: str, fragments: Iterable[Any]) -> tuple[str, ...]:
        """Name the deletion files of changed fragments."""
        folder = self._folder(place)
        if folder is None:
            return ()
        return tuple(
            str(folder / fragment.deletion_file.path(fragment.id))
            for fragment in fragments
            if fragment.deletion_file is not None and fragment.deletion_file.base_id is None
        )

    def of_index(self, place: str, uuid: str) -> tuple[str, ...]:
        """Name the files of an index segment."""
        folder = self._folder(place, "_indices", uuid)
        if folder is None:
            return ()
        return tuple(str(path) for path in sorted(folder.rglob("*")) if path.is_file())

    def of_commit(
        self, place: str, *, version: int, read_version: int, uuid: str
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Name the files that committing a version creates: of the transaction, of the version."""
        folder = self._folder(place)
        if folder is None:
            return (), ()
        return (
            (str(folder / "_transactions" / f"{read_version}-{uuid}.txn"),),
            (str(folder / "_versions" / manifest_name(version)),),
        )

    def of_fork(self, path: str, branch: str) -> tuple[str, ...]:
        """Name the record of a fork in its table."""
        folder = self._folder(path)
        return () if folder is None else (str(folder / _reference(branch)),)

    def sync(self, place: str, files: Sequence[str]) -> None:
        """Make files durable, if this root is to be."""
        disk = self._disk
        if disk is not None and files:
            paths = [Path(file) for file in files]
            storage_call(StorageCall.TABLE_SYNC, place, lambda: disk.sync(paths))

    def discard(self, files: Sequence[str]) -> None:
        """Remove files that are not needed, as far as that is cheap and works."""
        for file in files:
            with suppress(OSError):
                unlink(Path(file))

    def sync_contents(self, files: Sequence[Path]) -> None:
        """Make the content of files durable, but not their names."""
        if self._disk is not None:
            self._disk.sync_contents(files)

    def sync_names(self, files: Sequence[Path]) -> None:
        """Make the names of files durable whose content is."""
        if self._disk is not None:
            self._disk.sync_names(files)

    def forget(self, place: str) -> None:
        """Forget a folder that was removed with everything in it."""
        folder = self._folder(place)
        if self._disk is not None and folder is not None:
            self._disk.forget(folder)

    def _folder(self, *parts: str) -> Path | None:
        return None if self._base is None else self._base.joinpath(*parts)


def _reference(branch: str) -> str:
    return f"_refs/branches/{branch.replace('/', '%2F')}.json"
