"""The inventory of a table: every file below it, every version, and what each version refers to.

A file is classified by its path: the folder of the trunk or of a fork, then the kind of file. Lance
says which files the versions of a folder refer to, with one read per version. What it does not list
goes with what it belongs to: blobs with the data file beside them, a file of an index with its
folder.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store import tuning
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.forks.forks import Forks
from omnigraph.store.integrity.file_checksums import damage_of_file, is_checkable
from omnigraph.store.integrity.version_checksums import damage_of
from omnigraph.store.io.objects import Backend, ObjectInfo
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import ForkInfo
from omnigraph.store.versions.files import version_of
from omnigraph.store.versions.gateway import Gateway, tree_path
from omnigraph.store.versions.latest import NOTE

__all__ = ["Inventories", "StoredFile", "StoredVersion", "TableInventory"]

VERSIONS: Final = "_versions"
_TREE: Final = "tree"  # the folder of forks
_INDEXES: Final = "_indices"
_DATA: Final = "data"
_KINDS: Final = frozenset({VERSIONS, _INDEXES, _DATA, "_deletions", "_transactions"})
_RECORDS: Final = "_refs"
_MANIFEST: Final = ".manifest"


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """The file of one version: of the trunk, or of a fork."""

    branch: str | None
    version: int
    info: ObjectInfo


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file beside the versions, and the path by which a version would refer to it."""

    info: ObjectInfo
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInventory:
    """All that is stored of one table.

    Attributes:
        path: Its folder.
        forks: The forks that have a record.
        versions: The file of every version, of the trunk and of all forks.
        files: Every other file, whether a version refers to it or not.
        references: For the trunk and each fork a table of `version` and `path`.
    """

    path: str
    forks: Mapping[str, ForkInfo]
    versions: tuple[StoredVersion, ...]
    files: tuple[StoredFile, ...]
    references: Mapping[str | None, pa.Table] = field(default_factory=dict)

    def referenced(self, kept: Mapping[str | None, Iterable[int]]) -> frozenset[str]:
        """The files that some versions of the trunk and of forks refer to."""
        found: set[str] = set()
        for branch, numbers in kept.items():
            table = self.references.get(branch)
            if table is not None:
                wanted = pa.array(sorted(set(numbers)), pa.int64())
                chosen = table.filter(pc.is_in(table.column("version"), wanted))
                found.update(chosen.column("path").unique().to_pylist())
        return frozenset(found)

    def all_referenced(self) -> frozenset[str]:
        """The files that any version refers to."""
        return self.referenced({at: _numbers(self.versions, at) for at in self.references})


class Inventories:
    """Takes inventories of the tables of one root, and removes files."""

    def __init__(self, gateway: Gateway, backend: Backend, forks: Forks, root: str) -> None:
        self._gateway = gateway
        self._backend = backend
        self._forks = forks
        self._root = f"{root}/"
        self._is_local = "://" not in root

    def files(self, path: str) -> tuple[ObjectInfo, ...]:
        """List everything below a folder."""
        found = storage_call(StorageCall.OBJECT_LIST, path, lambda: self._backend.list(path))
        return tuple(sorted(found, key=lambda info: info.path))

    def versions(self, path: str) -> tuple[StoredVersion, ...]:
        """List the versions of a table and of its forks; nothing is read."""
        # Not the other files of the trunk: there are several for each version.
        found = self.files(f"{path}/{VERSIONS}")
        forks = self._forks.all(path)
        if forks:
            found += self.files(f"{path}/{_TREE}")
        return _sorted_out(path, forks, found)[0]

    def versions_of_forks(self, path: str, fork: str | None = None) -> tuple[StoredVersion, ...]:
        """List the versions in the folders of all forks, or of one, with and without a record."""
        tree = f"{path}/{_TREE}/"
        return tuple(
            StoredVersion(place.removesuffix(f"/{VERSIONS}"), version, info)
            for info in self.files(tree[:-1] if fork is None else f"{tree}{fork}/{VERSIONS}")
            for place, _, name in [info.path.removeprefix(tree).rpartition("/")]
            if place.endswith(f"/{VERSIONS}") and (version := _version(name)) is not None
        )

    def take(self, path: str) -> TableInventory:
        """Look at everything that is stored of a table."""
        # Forks last: whatever a fork that is made meanwhile stands on is then looked at, too.
        found = self.files(path)
        forks = self._forks.all(path)
        versions, others = _sorted_out(path, forks, found)
        places = {item.branch for item in versions}
        references = {at: self._references(path, at, versions) for at in sorted(places, key=str)}
        return TableInventory(
            path=path,
            forks=forks,
            versions=versions,
            files=others,
            references={at: table for at, table in references.items() if table is not None},
        )

    def _references(
        self, path: str, branch: str | None, versions: Iterable[StoredVersion]
    ) -> pa.Table | None:
        """The files of every version of the trunk or of a fork; None when it is gone."""
        place = tree_path(path, branch)

        def read() -> pa.Table:
            found = self._gateway.open(path, None, branch).tracked_files().read_all()
            bases = found.column("base_uri").combine_chunks().cast(pa.string())
            full = pc.binary_join_element_wise(bases, found.column("path").combine_chunks(), "/")
            coded = full.dictionary_encode()
            names = [self._owner(place, text) for text in coded.dictionary.to_pylist()]
            column = pa.DictionaryArray.from_arrays(coded.indices, pa.array(names, pa.string()))
            return pa.table({"version": found.column("version").combine_chunks(), "path": column})

        try:
            return storage_call(StorageCall.TABLE_OPEN, place, read)
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND and branch is not None:
                return None
            if failure.kind is FailureKind.CORRUPT:
                # One of the versions cannot be read: opening each alone shows which.
                for item in versions:
                    if item.branch == branch:
                        again = partial(self._gateway.open, path, item.version, branch)
                        storage_call(StorageCall.TABLE_OPEN, place, again)
            raise

    def _owner(self, place: str, uri: str) -> str:
        """The path of a file that a version refers to; of an index, that of its folder."""
        if not uri.startswith(self._root):
            text = f"a version refers to {uri!r}, which is not below this graph"
            raise StorageFailure(FailureKind.INVALID, StorageCall.TABLE_OPEN.value, place, text)
        path = uri.removeprefix(self._root)
        folder = path.rpartition("/")[0]
        return folder if folder.rpartition("/")[0].rpartition("/")[2] == _INDEXES else path

    def damage(self, path: str, size: int) -> str | None:
        """Read a file whole; return what is wrong with it, None if nothing is known.

        On local disk it is compared with its checksum, if it has one. Object storage has checksums
        of its own; there only the size is compared.
        """
        if not self._is_local:
            return None if size else "it is empty"
        place = f"{self._root}{path}"

        def read() -> str | None:
            with open(place, "rb") as file:
                while file.read(tuning.active.read_bytes):
                    pass
            if path.endswith(_MANIFEST):
                return damage_of(Path(place))
            return damage_of_file(place) if is_checkable(place) else None

        try:
            return storage_call(StorageCall.OBJECT_GET, path, read)
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None  # a clean-up has taken it since it was listed
            return f"it cannot be read: {failure.text}"

    def remove(self, paths: Iterable[str]) -> None:
        """Remove objects; those that are gone already are fine. Not synced: it can be repeated."""
        waiting = list(paths)
        for start in range(0, len(waiting), tuning.active.removed_files):
            some = waiting[start : start + tuning.active.removed_files]
            remove = partial(self._backend.delete_all, some)
            storage_call(StorageCall.OBJECT_DELETE, some[0], remove)

    def remove_table(self, path: str, files: Iterable[ObjectInfo]) -> None:
        """Remove all that is stored of a table, and its folder."""
        # Versions and records first: from then on there is no table.
        order = sorted(files, key=lambda info: f"/{_RECORDS}/" not in info.path)
        order.sort(key=lambda info: f"/{VERSIONS}/" not in info.path)
        self.remove(info.path for info in order)
        storage_call(StorageCall.OBJECT_DELETE, path, partial(self._backend.prune, path))


def _sorted_out(
    path: str, forks: Mapping[str, ForkInfo], found: Iterable[ObjectInfo]
) -> tuple[tuple[StoredVersion, ...], tuple[StoredFile, ...]]:
    """The versions of a table, and its other files; records and notes are neither."""
    versions: list[StoredVersion] = []
    others: list[StoredFile] = []
    for info in found:
        parts = info.path.removeprefix(f"{path}/").split("/")
        branch, at = _kind_at(parts, forks)
        kind = None if at is None else parts[at]
        if kind == _RECORDS or parts[-1] == NOTE:
            continue
        number = _version(parts[-1]) if kind == VERSIONS else None
        if number is not None:
            versions.append(StoredVersion(branch, number, info))
            continue
        others.append(StoredFile(info, info.path if at is None else _owner_of(info, parts, at)))
    return tuple(versions), tuple(others)


def _kind_at(parts: list[str], forks: Mapping[str, ForkInfo]) -> tuple[str | None, int | None]:
    """The fork of a file, and which part of its path has its kind; none for files of no fork."""
    if parts[0] != _TREE:
        return None, 0
    for end in range(len(parts) - 1, 1, -1):
        if parts[end] in _KINDS and (fork := "/".join(parts[1:end])) in forks:
            return fork, end
    return None, None


def _owner_of(info: ObjectInfo, parts: list[str], at: int) -> str:
    """Blobs belong to the data file beside their folder, files of an index to their folder."""
    below = len(parts) - at - 2
    if below <= 0 or parts[at] not in (_DATA, _INDEXES):
        return info.path
    folder = info.path.rsplit("/", below)[0]
    return f"{folder}.lance" if parts[at] == _DATA else folder


def _version(name: str) -> int | None:
    """The number of a version by the name of its file; None for drafts and unplaced ones."""
    stem = name.removesuffix(_MANIFEST)
    return version_of(name) if stem != name and stem.isdigit() else None


def _numbers(versions: Iterable[StoredVersion], branch: str | None) -> list[int]:
    return [item.version for item in versions if item.branch == branch]
