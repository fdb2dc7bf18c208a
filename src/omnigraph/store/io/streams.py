"""Files and objects of any size, read and written as streams.

What users hand in and take out lies anywhere: on local disk, in a bucket, seldom below the root of
a graph. An address is a path or a URI. Reading seeks freely; writing shows nothing under its name
before everything is there, and nothing at all when it fails.
"""

import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

import pyarrow as pa

from omnigraph.runtime.ids import UlidIds
from omnigraph.store import tuning
from omnigraph.store.failures import FailureKind, StorageFailure, object_errors
from omnigraph.store.io.durability import Disk
from omnigraph.store.io.objects import bare_store
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.root import Root

__all__ = [
    "Output",
    "StreamInfo",
    "delete_stream",
    "exists",
    "list_inputs",
    "open_input",
    "open_output",
    "read_stream",
    "stream_size",
]

_TEMPORARY: Final = ".og-tmp-"
_ids: Final = UlidIds()


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A file or object as a listing shows it.

    Attributes:
        uri: Its address.
        size: How many bytes it has.
        modified_ns: When it was last changed, in nanoseconds; None for objects, and for pipes and
            devices, whose size means nothing.
    """

    uri: str
    size: int
    modified_ns: int | None = field(default=None, compare=False)


class Output(Protocol):
    """A stream to write to. `close` does nothing: the end of the block completes the stream."""

    @property
    def closed(self) -> bool:
        """True once the block has ended."""
        ...

    def write(self, data: Any, /) -> int:
        """Write bytes, or anything that has a buffer of them."""
        ...

    def flush(self) -> None:
        """Do nothing: it is part of the interface of files."""
        ...

    def close(self) -> None:
        """Do nothing: it is part of the interface of files."""
        ...

    def tell(self) -> int:
        """The number of bytes written."""
        ...


def open_input(
    uri: str, storage_options: Mapping[str, str] | None = None, *, size: int | None = None
) -> pa.NativeFile:
    """Open a file or object for reading, from anywhere in it; NOT_FOUND.

    Args:
        uri: The address.
        storage_options: How to reach it.
        size: Its size, where that is known; saves asking.
    """
    place = _place(uri, storage_options)
    if place.path is not None:
        path = str(place.path)
        return storage_call(StorageCall.OBJECT_GET, uri, lambda: pa.OSFile(path, "rb"))
    known = stream_size(uri, storage_options) if size is None else size
    return pa.PythonFile(_ObjectReader(place, known), mode="r")


def read_stream(
    uri: str, storage_options: Mapping[str, str] | None = None, *, size: int
) -> tuple[bytes, int | None]:
    """Read a small file or object as a whole; NOT_FOUND.

    Args:
        uri: The address.
        storage_options: How to reach it.
        size: How many bytes it should have. If it has more by now, one more is read.

    Returns:
        Its bytes, and when it was last changed, in nanoseconds, if it is a file of this machine.
    """
    # There may be many of them: what is a path already is not taken apart.
    if os.path.isabs(uri):
        return storage_call(StorageCall.OBJECT_GET, uri, lambda: _read_file(uri, size))
    place = _place(uri, storage_options)
    path = place.path

    def read() -> tuple[bytes, int | None]:
        if path is not None:
            return _read_file(path, size)
        return bytes(place.store.get(place.key).bytes()), None

    return storage_call(StorageCall.OBJECT_GET, uri, read)


def _read_file(path: str | Path, size: int) -> tuple[bytes, int]:
    file = os.open(path, os.O_RDONLY)
    try:
        data = os.read(file, size + 1)
        while len(data) < size and (more := os.read(file, size + 1 - len(data))):
            data += more
        return data, os.fstat(file).st_mtime_ns
    finally:
        os.close(file)


def stream_size(uri: str, storage_options: Mapping[str, str] | None = None) -> int:
    """Return how many bytes a file or object has; NOT_FOUND."""
    place = _place(uri, storage_options)

    def ask() -> int:
        if place.path is not None:
            return os.stat(place.path).st_size
        return int(place.store.head(place.key)["size"])

    return storage_call(StorageCall.OBJECT_GET, uri, ask)


def exists(uri: str, storage_options: Mapping[str, str] | None = None) -> bool:
    """Return whether there is a file or object of this name; a folder is none."""
    place = _place(uri, storage_options)

    def look() -> bool:
        try:
            if place.path is not None:
                return not stat.S_ISDIR(os.stat(place.path).st_mode)
            place.store.head(place.key)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    if place.path is None and not place.key:
        return False
    return storage_call(StorageCall.OBJECT_EXISTS, uri, look)


def list_inputs(
    uri: str, storage_options: Mapping[str, str] | None = None
) -> tuple[StreamInfo, ...]:
    """List every file or object below a folder, sorted by address. None is fine."""
    place = _place(uri, storage_options)
    path = place.path

    def find() -> list[StreamInfo]:
        return list(_objects(place) if path is None else _local_files(path))

    found = storage_call(StorageCall.OBJECT_LIST, uri, find)
    return tuple(sorted(found, key=attrgetter("uri")))


def delete_stream(uri: str, storage_options: Mapping[str, str] | None = None) -> None:
    """Remove a file or object; a missing one is fine."""
    place = _place(uri, storage_options)

    def remove() -> None:
        try:
            if place.path is not None:
                os.unlink(place.path)
            else:
                place.store.delete(place.key)
        except FileNotFoundError:
            return

    storage_call(StorageCall.OBJECT_DELETE, uri, remove)


def open_output(
    uri: str, storage_options: Mapping[str, str] | None = None, *, durable: bool = True
) -> AbstractContextManager[Output]:
    """Open a file or object for writing; one of the same name is replaced at the end.

    Args:
        uri: The address. A device or a pipe is written to as it is.
        storage_options: How to reach it.
        durable: On local disk, sync before the name appears.
    """
    place = _place(uri, storage_options)
    if place.path is None:
        return _object_output(uri, place)
    return _local_output(uri, place.path, durable)


# -- addresses -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """An address, taken apart: a local path, or a key in a store."""

    path: Path | None
    key: str = ""
    store: Any = None
    base: str = ""  # what turns a key back into an address


def _place(uri: str, storage_options: Mapping[str, str] | None) -> _Place:
    scheme, separator, rest = uri.partition("://")
    if separator and scheme.lower() == "memory":
        name, _, key = rest.strip("/").partition("/")
        base = f"memory:///{name}"
        return _Place(None, key, bare_store(Root.parse(base)), base)
    if separator and scheme.lower() != "file":
        # Taken apart by hand: a key may hold what would begin a query or a fragment.
        bucket, _, key = rest.partition("/")
        options = tuple(sorted((storage_options or {}).items()))
        base = f"{scheme.lower()}://{bucket}"
        return _Place(None, key.strip("/"), _store(base, options), base)
    return _Place(Root.parse(uri).local_path)


@lru_cache(maxsize=32)
def _store(base: str, options: tuple[tuple[str, str], ...]) -> Any:
    """One client per bucket and way to reach it: it keeps connections."""
    root = Root.parse(base, dict(options))
    with object_errors(StorageCall.OBJECT_GET.value, base):
        return bare_store(root)


def _local_files(folder: Path | str) -> Iterator[StreamInfo]:
    """The files below a folder; links to folders are not followed."""
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if entry.is_dir():
                if not entry.is_symlink():
                    yield from _local_files(entry.path)
                continue
            try:
                found = entry.stat()
            except FileNotFoundError:  # gone meanwhile, or a link to nothing
                continue
            if not entry.name.startswith(_TEMPORARY):
                is_regular = stat.S_ISREG(found.st_mode)
                yield StreamInfo(
                    entry.path, found.st_size, found.st_mtime_ns if is_regular else None
                )


def _objects(place: _Place) -> Iterator[StreamInfo]:
    for chunk in place.store.list(place.key or None):
        for meta in chunk:
            # Some tools mark a folder by an empty object with its name.
            if not meta["path"].endswith("/"):
                yield StreamInfo(f"{place.base}/{meta['path']}", meta["size"])


# -- reading ---------------------------------------------------------------------------------------


class _ObjectReader(io.RawIOBase):
    """An object as a file. Every read is one request for exactly what is wanted."""

    def __init__(self, place: _Place, size: int) -> None:
        super().__init__()
        self._place = place
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1, /) -> Any:
        left = max(0, self._size - self._position)
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        place, start = self._place, self._position
        uri = f"{place.base}/{place.key}"
        data = storage_call(
            StorageCall.OBJECT_GET,
            uri,
            lambda: place.store.get_range(place.key, start=start, length=wanted),
        )
        if len(data) != wanted:
            text = "it became shorter while it was read"
            raise StorageFailure(FailureKind.UNKNOWN, StorageCall.OBJECT_GET.value, uri, text)
        self._position += wanted
        return data


# -- writing ---------------------------------------------------------------------------------------


class _Output:
    """Counts and hands on, and translates what goes wrong."""

    def __init__(self, uri: str, target: Any) -> None:
        self._uri = uri
        self._target = target
        self._written = 0
        self.closed = False

    def write(self, data: Any, /) -> int:
        # Unsigned, because obstore takes nothing else, and Arrow's buffers are not.
        view = memoryview(data).cast("B")
        with object_errors(StorageCall.OBJECT_PUT.value, self._uri):
            self._target.write(view)
        self._written += len(view)
        return len(view)

    def flush(self) -> None:
        return

    def close(self) -> None:
        return

    def tell(self) -> int:
        return self._written


@contextmanager
def _object_output(uri: str, place: _Place) -> Iterator[Output]:
    import obstore  # noqa: PLC0415 - reached only by writes to a bucket

    with object_errors(StorageCall.OBJECT_PUT.value, uri):
        writer: Any = obstore.open_writer(
            place.store,
            place.key,
            buffer_size=tuning.active.upload_part_bytes,
            max_concurrency=tuning.active.upload_parts_max,
        )
    output = _Output(uri, writer)
    try:
        yield output
        storage_call(StorageCall.OBJECT_PUT, uri, writer.close)
    except BaseException as error:
        # After an error it aborts the upload, and nothing of it stays; if even that fails, the
        # first error is still the one to raise.
        with suppress(Exception):
            writer.__exit__(type(error), error, error.__traceback__)
        raise
    finally:
        output.closed = True


@contextmanager
def _local_output(uri: str, path: Path, durable: bool) -> Iterator[Output]:
    target = Path(os.path.realpath(path))
    is_device = target.exists() and not target.is_file() and not target.is_dir()
    temporary = target if is_device else target.with_name(_TEMPORARY + _ids.new())
    with object_errors(StorageCall.OBJECT_PUT.value, uri):
        file = _created(temporary, target)
    output = _Output(uri, file)

    def settle() -> None:
        file.flush()
        if not is_device:
            _settle(file, temporary, target, durable)

    try:
        yield output
        storage_call(StorageCall.OBJECT_PUT, uri, settle)
    finally:
        output.closed = True
        with suppress(OSError):  # what could not be flushed has been reported already
            file.close()
        if not is_device:
            temporary.unlink(missing_ok=True)


def _created(path: Path, target: Path) -> BinaryIO:
    if path == target:
        return open(path, "wb", buffering=tuning.active.buffer_bytes)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    return open(path, "xb", buffering=tuning.active.buffer_bytes)


def _settle(file: BinaryIO, temporary: Path, target: Path, durable: bool) -> None:
    if durable:
        os.fsync(file.fileno())
    os.replace(temporary, target)
    if durable:
        Disk(target.parent).sync_names([target])
