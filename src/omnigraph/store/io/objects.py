"""Small objects next to the tables: intents, the accepted schema, state records.

Seven verbs, the same on every backend, with create-only as the single compare-and-swap, because
that is what all of them have. Paths are relative to the root and made of plain segments. Whole
objects only: what is kept here fits in memory.
"""

import builtins
import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final, Protocol, TypeVar

from omnigraph.runtime.ids import UlidIds
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.durability import Disk, link, replace, unlink
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.root import Root

__all__ = [
    "Backend",
    "LocalBackend",
    "ObjectInfo",
    "ObjectStore",
    "bare_store",
    "checked_path",
    "open_backend",
    "open_objects",
]

T = TypeVar("T")
_TEMPORARY: Final = ".og-tmp-"
_FOLDERS_OF_FOLDERS: Final = frozenset({"data", "_indices"})
# What a file system answers that cannot link these two places.
_NO_LINKS: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as a listing shows it."""

    path: str
    size: int
    modified_us: int


class ObjectStore(Protocol):
    """Objects by path. Failures are ``StorageFailure``."""

    def put_new(self, path: str, data: bytes) -> None:
        """Create an object; EXISTS if it is there. Of racing callers exactly one wins.

        The content should be unlike that of any other writer (carry an identifier): when the
        reply is lost, it shows the winner.
        """
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace an object; readers see the old or the new content, never a part."""
        ...

    def get(self, path: str) -> bytes:
        """Return the content; NOT_FOUND."""
        ...

    def list(self, prefix: str) -> "list[ObjectInfo]":
        """List everything below a prefix (a whole path, not a part of a name), by path."""
        ...

    def children(self, prefix: str) -> builtins.list[str]:
        """List the names right below a prefix, of objects and folders alike, sorted."""
        ...

    def delete(self, path: str) -> None:
        """Remove an object; a missing one is fine."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether an object is there."""
        ...


class Backend(Protocol):
    """One kind of storage. It may raise errors of its own; ``_Objects`` translates them."""

    def put_new(self, path: str, data: bytes) -> None:
        """Create, or fail if it is there."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace."""
        ...

    def get(self, path: str) -> bytes:
        """Read everything."""
        ...

    def list(self, prefix: str) -> "list[ObjectInfo]":
        """List below a prefix, in any order."""
        ...

    def children(self, prefix: str) -> builtins.list[str]:
        """List the names right below a prefix, in any order."""
        ...

    def beginning(self, folder: str, text: str) -> builtins.list[str]:
        """List the names of the objects right in a folder that begin with a text, in any order."""
        ...

    def exists(self, path: str) -> bool:
        """True if it is there."""
        ...

    def delete(self, path: str) -> None:
        """Remove, or fail if it is missing."""
        ...

    def delete_all(self, paths: builtins.list[str]) -> None:
        """Remove several; missing ones are fine. A power cut may bring some of them back."""
        ...

    def prune(self, folder: str) -> None:
        """Remove a folder and those in it, as far as they are empty, where folders are things."""
        ...

    def copy(self, source: str, target: str) -> None:
        """Give an object that never changes a second name, without reading it."""
        ...


def open_objects(root: Root, durable: bool = True) -> ObjectStore:
    """Open the object store of a root.

    Args:
        root: The place.
        durable: On local disk, sync before returning from a write. Elsewhere it has no meaning:
            an object store that acknowledged has stored.
    """
    return _Objects(open_backend(root, durable=durable))


def open_backend(root: Root, *, durable: bool = True) -> Backend:
    """Open the bare storage of a root: nothing counted, nothing translated."""
    if root.is_local:
        return LocalBackend(root.local_path, durable=durable)
    return _memory(root) if root.is_memory else _s3(root)


def checked_path(verb: str, path: str, *, empty: bool = False) -> str:
    """Return the path if it is made of plain segments, else fail with INVALID."""
    segments = path.split("/") if path else []
    bad = (not segments and not empty) or any(
        not segment or segment in {".", ".."} or "\\" in segment or "\0" in segment
        for segment in segments
    )
    if bad:
        text = "a path is made of non-empty segments between slashes"
        raise StorageFailure(FailureKind.INVALID, verb, path, text)
    return path


class _Objects:
    """The verbs over a backend: paths checked, calls instrumented, lost replies settled."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def put_new(self, path: str, data: bytes) -> None:
        try:
            self._call(StorageCall.OBJECT_PUT_NEW, path, lambda: self._backend.put_new(path, data))
        except StorageFailure as failure:
            # The reply may be lost and the object in place. If it holds what we sent, we won.
            if failure.effect_free or not self._holds(path, data):
                raise

    def put(self, path: str, data: bytes) -> None:
        self._call(StorageCall.OBJECT_PUT, path, lambda: self._backend.put(path, data))

    def get(self, path: str) -> bytes:
        return self._call(StorageCall.OBJECT_GET, path, lambda: self._backend.get(path))

    def list(self, prefix: str) -> list[ObjectInfo]:
        place = checked_path(StorageCall.OBJECT_LIST.value, prefix.rstrip("/"), empty=True)
        found = storage_call(StorageCall.OBJECT_LIST, place, lambda: self._backend.list(place))
        return sorted(found, key=lambda info: info.path)

    # Named in full: inside this class, `list` is the verb.
    def children(self, prefix: str) -> builtins.list[str]:
        place = checked_path(StorageCall.OBJECT_LIST.value, prefix.rstrip("/"), empty=True)
        return sorted(
            storage_call(StorageCall.OBJECT_LIST, place, lambda: self._backend.children(place))
        )

    def delete(self, path: str) -> None:
        try:
            self._call(StorageCall.OBJECT_DELETE, path, lambda: self._backend.delete(path))
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise

    def exists(self, path: str) -> bool:
        return self._call(StorageCall.OBJECT_EXISTS, path, lambda: self._backend.exists(path))

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self.get(path) == data
        except StorageFailure:
            return False

    @staticmethod
    def _call(call: StorageCall, path: str, action: Callable[[], T]) -> T:
        return storage_call(call, checked_path(call.value, path), action)


class _ObstoreBackend:
    """S3 and memory, by way of obstore.

    ``once`` is the same store without retries, for creating: a retry after a lost reply would meet
    our own object and report a conflict although the write has succeeded.
    """

    def __init__(self, store: Any, once: Any) -> None:
        self._store = store
        self._once = once

    def put_new(self, path: str, data: bytes) -> None:
        self._once.put(path, data, mode="create", use_multipart=False)

    def put(self, path: str, data: bytes) -> None:
        self._store.put(path, data, use_multipart=False)

    def get(self, path: str) -> bytes:
        return bytes(self._store.get(path).bytes())

    def list(self, prefix: str) -> list[ObjectInfo]:
        return [
            ObjectInfo(meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1e6))
            for chunk in self._store.list(prefix or None)
            for meta in chunk
        ]

    def children(self, prefix: str) -> builtins.list[str]:
        found = self._store.list_with_delimiter(prefix or None)
        places = [*found["common_prefixes"], *(meta["path"] for meta in found["objects"])]
        # Some tools put an empty object in the place of a folder; it has no name of its own.
        names = {place.rstrip("/").rpartition("/")[2] for place in places if place != prefix}
        return [name for name in names if name]

    def beginning(self, folder: str, text: str) -> builtins.list[str]:
        start, found = f"{folder}/{text}", []
        # What lies before is not listed, and what lies behind is not asked for. The offset itself
        # is left out, and nothing is called like the beginning of a name.
        for chunk in self._store.list(folder, offset=start):
            paths = [meta["path"] for meta in chunk]
            found += [path for path in paths if path.startswith(start)]
            if any(path > start and not path.startswith(start) for path in paths):
                break
        names = [path.removeprefix(f"{folder}/") for path in found]
        return [name for name in names if "/" not in name]

    def exists(self, path: str) -> bool:
        try:
            self._store.head(path)
        except FileNotFoundError:
            return False
        return True

    def delete(self, path: str) -> None:
        self._store.delete(path)

    def delete_all(self, paths: builtins.list[str]) -> None:
        try:
            self._store.delete(paths)
        except FileNotFoundError:
            # Some stores mind one that is missing, and then leave the others.
            for path in paths:
                with suppress(FileNotFoundError):
                    self._store.delete(path)

    def prune(self, folder: str) -> None:
        pass  # a folder is there as long as it has objects

    def copy(self, source: str, target: str) -> None:
        self._store.copy(source, target)


_RETRIES: Final = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}
_NO_RETRIES: Final = {"max_retries": 0, "retry_timeout": timedelta(seconds=30)}
_memory_lock: Final = threading.Lock()
_memories: Final[dict[str, Any]] = {}


def bare_store(root: Root) -> Any:
    """Open the obstore store of a root that is not local, for objects too large for memory."""
    return _memory_store(root) if root.is_memory else _s3_store(root, _RETRIES)


def signed_address(root: Root, path: str, seconds: int) -> str:
    """A signed address, with which one object of a bucket can be read for some seconds."""
    import obstore  # noqa: PLC0415 - reached only by servers that keep exports in a bucket

    store = _s3_store(root, _RETRIES)
    return storage_call(
        StorageCall.OBJECT_EXISTS,
        checked_path("sign", path),
        lambda: str(obstore.sign(store, "GET", path, timedelta(seconds=seconds))),
    )


def _s3(root: Root) -> Backend:
    return _ObstoreBackend(_s3_store(root, _RETRIES), _s3_store(root, _NO_RETRIES))


def _s3_store(root: Root, retries: Mapping[str, Any]) -> Any:
    from obstore.store import S3Store  # noqa: PLC0415 - reached only by graphs that live there

    # Its types spell out every option; ours come from the user, and it checks them itself.
    construct: Any = S3Store
    return construct(
        root.bucket,
        prefix=root.prefix or None,
        config=root.s3_config(),
        client_options=root.client_options(),
        retry_config=dict(retries),
    )


def _memory(root: Root) -> Backend:
    store = _memory_store(root)
    return _ObstoreBackend(store, store)


def _memory_store(root: Root) -> Any:
    """Every opening of one name in one process sees the same memory."""
    from obstore.store import MemoryStore  # noqa: PLC0415

    with _memory_lock:
        return _memories.setdefault(root.uri, MemoryStore())


class LocalBackend:
    """The verbs of an object store on a directory.

    Written here and not left to obstore, for one reason: a name must never show a torn object after
    a power cut. The content is synced under a temporary name first and then gets its own, by a link
    that refuses to replace, or a rename that replaces.
    """

    def __init__(self, root: Path, *, durable: bool) -> None:
        self._root = root
        self._prefix = f"{root}{os.sep}"
        self._disk = Disk(root) if durable else None
        self._ids = UlidIds()

    def put_new(self, path: str, data: bytes) -> None:
        """Create, or fail if it is there."""
        target = self._root / path
        with self._written(target, data) as temporary:
            link(temporary, target)
        self._settle(target)

    def put(self, path: str, data: bytes) -> None:
        """Create or replace."""
        target = self._root / path
        with self._written(target, data) as temporary:
            replace(temporary, target)
        self._settle(target)

    def get(self, path: str) -> bytes:
        """Read everything."""
        # Opening a graph reads a record of every branch; joining paths the long way costs as much.
        with open(f"{self._prefix}{path}", "rb") as file:
            return file.read()

    def list(self, prefix: str) -> list[ObjectInfo]:
        """List below a prefix; what vanishes meanwhile is left out."""
        found: list[ObjectInfo] = []
        # Texts: a table has thousands of files, and joining paths the long way costs the most.
        start = len(self._prefix)
        for folder, _, names in os.walk(f"{self._prefix}{prefix}".rstrip(os.sep)):
            for name in names:
                if name.startswith(_TEMPORARY):
                    continue
                path = f"{folder}{os.sep}{name}"
                with suppress(FileNotFoundError):
                    stat = os.stat(path)
                    found.append(ObjectInfo(path[start:], stat.st_size, stat.st_mtime_ns // 1_000))
        return found

    def children(self, prefix: str) -> builtins.list[str]:
        """List the names right below a prefix."""
        try:
            names = os.listdir(self._root / prefix)
        except FileNotFoundError:
            return []
        return [name for name in names if not name.startswith(_TEMPORARY)]

    def beginning(self, folder: str, text: str) -> builtins.list[str]:
        """List the names in a folder that begin with a text."""
        return [name for name in self.children(folder) if name.startswith(text)]

    def exists(self, path: str) -> bool:
        """True if the file is there."""
        # Every reader looks before every query; joining paths the long way costs the most.
        try:
            return S_ISREG(os.stat(f"{self._prefix}{path}").st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def delete(self, path: str) -> None:
        """Remove, or fail if it is missing."""
        target = self._root / path
        unlink(target)
        if self._disk:
            self._disk.sync_directories([target.parent])

    def delete_all(self, paths: builtins.list[str]) -> None:
        """Remove several, and folders that are empty then; nothing is synced."""
        folders: set[str] = set()
        for path in paths:
            # Texts: a clean-up removes thousands of files.
            target = f"{self._prefix}{path}"
            folders.add(target.rpartition(os.sep)[0])
            with suppress(FileNotFoundError):
                unlink(target)
        for folder in map(Path, folders):
            # Folders of blobs and of index segments, which have names of their own.
            if folder.parent.name in _FOLDERS_OF_FOLDERS:
                with suppress(OSError):
                    folder.rmdir()

    def prune(self, folder: str) -> None:
        """Remove the empty folders of a tree, from its leaves up."""
        for place, _, _ in os.walk(self._root / folder, topdown=False):
            with suppress(OSError):
                os.rmdir(place)

    def copy(self, source: str, target: str) -> None:
        """Link a file that never changes to a second name; copy it where links cannot be made.

        The caller syncs it.
        """
        place = self._root / target
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            link(self._root / source, place)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copyfile(self._root / source, place)

    @contextmanager
    def _written(self, target: Path, data: bytes) -> Iterator[Path]:
        """Hold the content in a temporary file beside the target."""
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(_TEMPORARY + self._ids.new())
        try:
            # Never an existing file: after a crash one may still be linked to an object.
            with open(temporary, "xb") as file:
                file.write(data)
            if self._disk:
                self._disk.sync_contents([temporary])
            yield temporary
        finally:
            with suppress(FileNotFoundError):
                unlink(temporary)

    def _settle(self, target: Path) -> None:
        if self._disk:
            self._disk.sync_names([target])
