"""Staging: storage for what the tasks of one operation hand to others.

Nothing of it is ever part of the graph. Everything that one operation stages lies in its staging
area (`core.journal.staging_areas`) and goes when the operation ends, however it ends.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from omnigraph.core.journal.staging_areas import note_path, record_path
from omnigraph.core.layout import STAGING
from omnigraph.dataplane import tuning
from omnigraph.errors import Busy, Code
from omnigraph.runtime import telemetry
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.failures import StorageFailure
from omnigraph.store.io.objects import ObjectStore, open_objects
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.io.streams import open_input
from omnigraph.store.root import Root

Content: TypeAlias = Mapping[str, pa.Table]

# Counters: what tasks of other processes stage, and what they read of it.
STAGED_BYTES: Final = "staging.staged_bytes"
READ_BYTES: Final = "staging.read_bytes"
_BUFFER_BYTES: Final = 1 << 20
_MAPPED_BYTES: Final = 1 << 18
_SIZE_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedPart:
    """A part of what an operation staged: some tables by name.

    Attributes:
        rows: How many rows each has.
        content: The tables, if they are in memory.
        place: Where they are stored, if they are not.
        span: From which byte up to which; others may lie before and after.
        size: How many bytes there are in that place.
    """

    rows: Mapping[str, int]
    content: Content | None = None
    place: str = ""
    span: tuple[int, int] = (0, 0)
    size: int = 0

    @property
    def bytes(self) -> int:
        """The number of bytes that fetching it reads; none if it is in memory."""
        return self.span[1] - self.span[0]


class Staging(Protocol):
    """Stores parts and reads them. Thread-safe."""

    def put(self, content: Content) -> StagedPart:
        """Stage some tables; empty ones are left out."""
        ...

    def put_all(self, contents: Sequence[Content]) -> list[StagedPart]:
        """Stage several parts, which may have tables of the same names."""
        ...

    def get(self, part: StagedPart, names: Collection[str] | None = None) -> Content:
        """The tables of a part, or those of them that have one of some names."""
        ...

    def get_all(self, parts: Sequence[StagedPart]) -> list[Content]:
        """The tables of several parts."""
        ...

    @property
    def address(self) -> str:
        """A folder for other temporary data of the operation; it need not exist."""
        ...

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The options for access to that folder."""
        ...

    def note(self, paths: Sequence[str]) -> None:
        """Note files that a task wrote beside a table and whose names do not name the operation."""
        ...

    def check(self) -> None:
        """Stop a task whose operation was taken for dead.

        Raises:
            Busy: Its staging area was swept.
        """
        ...

    def remove(self) -> None:
        """Remove everything that was staged. Never fails; removing twice is fine."""
        ...


class LocalStaging:
    """Staging for the tasks of one process: in memory, beyond a budget in files of this machine."""

    def __init__(
        self, root: Root, name: str, *, memory_bytes: int = tuning.active.staged_memory_bytes
    ) -> None:
        """Keep files beside a graph of this machine, else in the folder for temporary files."""
        if root.is_local:
            self._folder = root.local_path / STAGING / name
        else:
            self._folder = Path(tempfile.gettempdir(), f"omnigraph-{name}")
        self._root, self._name = root, name
        self._left = memory_bytes
        self._count = 0
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """The folder of the files."""
        return str(self._folder)

    @property
    def storage_options(self) -> Mapping[str, str]:
        """None: it is a folder of this machine."""
        return {}

    def put(self, content: Content) -> StagedPart:
        """Keep tables in memory while there is room, else write them to a file."""
        return self.put_all([content])[0]

    def put_all(self, contents: Sequence[Content]) -> list[StagedPart]:
        """Keep several parts in memory, or write them to one file."""
        kept = [_filled(content) for content in contents]
        size = sum(table.nbytes for content in kept for table in content.values())
        with self._lock:
            fits = size <= self._left
            self._left -= size if fits else 0
            self._count += 1
            path = str(self._folder / f"{self._count}.arrow")
        if fits:
            return [StagedPart(rows=_rows(content), content=content) for content in kept]
        return _parcels(kept, _write_file(path, kept), path)

    def get(self, part: StagedPart, names: Collection[str] | None = None) -> Content:
        """The tables; large ones in files are mapped, not read."""
        if part.content is not None:
            return _named(part.content, names)
        return _read(_read_file(part.place, part.span), names)

    def get_all(self, parts: Sequence[StagedPart]) -> list[Content]:
        """The tables of several parts."""
        return [self.get(part) for part in parts]

    def note(self, paths: Sequence[str]) -> None:
        """Note files beside a table."""
        _note(self._root, self._name, paths)

    def check(self) -> None:
        """Tasks of the process that owns the area need not ask."""

    def remove(self) -> None:
        """Remove the files; tables in use stay readable."""
        _remove_folder(self._folder)


class SharedStaging:
    """Staging for tasks of several processes: objects of the graph's own storage. Picklable."""

    def __init__(self, root: Root, name: str) -> None:
        """Keep objects below this name."""
        self._root = root
        self._name = name

    @property
    def address(self) -> str:
        """The place of the objects."""
        return self._root.join(f"{STAGING}/{self._name}")

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The options for access to that folder."""
        return self._root.storage_options

    def put(self, content: Content) -> StagedPart:
        """Store tables under a name that no other attempt of the task uses."""
        return self.put_all([content])[0]

    def put_all(self, contents: Sequence[Content]) -> list[StagedPart]:
        """Store several parts as one object."""
        kept = [_filled(content) for content in contents]
        place = f"{STAGING}/{self._name}/{_ids().new()}.arrow"
        if self._root.is_local:
            spans = _write_file(str(self._root.local_path / place), kept)
        else:
            sink = pa.BufferOutputStream()
            spans = [_write(sink, content) for content in kept]
            _objects(self._root).put(place, sink.getvalue().to_pybytes())
        telemetry.count(STAGED_BYTES, sum(stop - start for start, stop in spans))
        return _parcels(kept, spans, place)

    def get(self, part: StagedPart, names: Collection[str] | None = None) -> Content:
        """Read a part, and nothing else of the object."""
        telemetry.count(READ_BYTES, part.bytes)
        return _read(self._fetch(part.place, part.size, part.span), names)

    def get_all(self, parts: Sequence[StagedPart]) -> list[Content]:
        """Read several parts: neighbours in an object together; from afar, some at a time."""
        ranges = _ranges(parts)
        telemetry.count(READ_BYTES, sum(each.stop - each.start for each in ranges))

        def fetch(each: _Range) -> pa.Buffer:
            return self._fetch(each.place, each.size, (each.start, each.stop))

        if self._root.is_local or len(ranges) <= 1:
            buffers = [fetch(each) for each in ranges]
        else:
            with ThreadPoolExecutor(tuning.active.staged_requests_max, "omnigraph-staged") as pool:
                buffers = list(pool.map(fetch, ranges))
        found: dict[int, Content] = {}
        for each, buffer in zip(ranges, buffers, strict=True):
            for number in each.parts:
                start, stop = parts[number].span
                found[number] = _read(buffer.slice(start - each.start, stop - start), None)
        return [found[number] for number in range(len(parts))]

    def _fetch(self, place: str, size: int, span: tuple[int, int]) -> pa.Buffer:
        """A part of an object."""
        start, stop = span
        if self._root.is_local:
            return _read_file(str(self._root.local_path / place), span)
        if (start, stop) == (0, size):
            return pa.py_buffer(_objects(self._root).get(place))
        address = self._root.join(place)
        with open_input(address, self._root.storage_options, size=size) as file:
            file.seek(start)
            return file.read_buffer(stop - start)

    def note(self, paths: Sequence[str]) -> None:
        """Note files beside a table."""
        _note(self._root, self._name, paths)

    def check(self) -> None:
        """Look whether the staging area still has its record."""
        if not _objects(self._root).exists(record_path(self._name)):
            text = "this load was silent for so long that its files were removed; try again"
            raise Busy(Code.BUSY, text, operation_id=self._name)

    def remove(self) -> None:
        """Remove every object, those that no receipt names included."""
        if self._root.is_local:
            _remove_folder(self._root.local_path / STAGING / self._name)
        else:
            _remove_objects(_objects(self._root), f"{STAGING}/{self._name}")


def _remove_objects(objects: ObjectStore, prefix: str) -> int:
    try:
        found = objects.list(prefix)
        for info in found:
            objects.delete(info.path)
    except StorageFailure as failure:
        telemetry.count("staging.left")
        telemetry.logger.warning(
            "staged objects below %s could not be removed: %s", prefix, failure
        )
        return 0
    return len(found)


def _remove_folder(folder: Path) -> None:
    # Not the folder around it: another process may be about to make one in there.
    shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=8)
def _opened(uri: str, options: tuple[tuple[str, str], ...]) -> ObjectStore:
    # Not durable: what is staged is worth nothing after a power cut.
    return open_objects(Root(uri, dict(options)), durable=False)


def _options(root: Root) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(root.storage_options.items()))


def _objects(root: Root) -> ObjectStore:
    return _opened(root.uri, _options(root))


def _note(root: Root, name: str, paths: Sequence[str]) -> None:
    if paths:
        data = json.dumps(list(paths)).encode()
        _objects(root).put(note_path(name, _ids().new()), data)


@lru_cache(maxsize=1)
def _ids() -> UlidIds:
    return UlidIds()


@dataclass(frozen=True, slots=True)
class _Range:
    """A part of an object that several parts fill, by their numbers."""

    place: str
    size: int
    start: int
    stop: int
    parts: tuple[int, ...]


def _ranges(parts: Sequence[StagedPart]) -> list[_Range]:
    """The ranges to read for some parts; parts that follow each other share one."""
    found: list[_Range] = []
    order = sorted(range(len(parts)), key=lambda n: (parts[n].place, parts[n].span))
    for number in order:
        part = parts[number]
        start, stop = part.span
        last = found[-1] if found else None
        if last is not None and (last.place, last.stop) == (part.place, start):
            members = (*last.parts, number)
            found[-1] = _Range(part.place, part.size, last.start, stop, members)
        else:
            found.append(_Range(part.place, part.size, start, stop, (number,)))
    return found


def _parcels(
    contents: Sequence[Content], spans: Sequence[tuple[int, int]], place: str
) -> list[StagedPart]:
    size = spans[-1][1] if spans else 0
    return [
        StagedPart(rows=_rows(content), place=place, span=span, size=size)
        for content, span in zip(contents, spans, strict=True)
    ]


def _rows(content: Content) -> Mapping[str, int]:
    return {name: table.num_rows for name, table in content.items()}


def _filled(content: Content) -> Content:
    return {name: table for name, table in content.items() if table.num_rows}


def _named(content: Content, names: Collection[str] | None) -> Content:
    if names is None:
        return content
    return {name: table for name, table in content.items() if name in names}


# -- files of this machine -------------------------------------------------------------------------


def _write_file(path: str, contents: Sequence[Content]) -> list[tuple[int, int]]:
    """Write parts to a file; return the place of each."""

    def write() -> list[tuple[int, int]]:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(path, "wb") as file, pa.BufferedOutputStream(file, _BUFFER_BYTES) as sink:
            return [_write(sink, content) for content in contents]

    return storage_call(StorageCall.OBJECT_PUT, path, write)


def _read_file(path: str, span: tuple[int, int]) -> pa.Buffer:
    """A part of a file, mapped if it is large: the number of mappings of a process is bounded."""
    start, stop = span

    def read() -> pa.Buffer:
        is_large = stop - start > _MAPPED_BYTES
        with pa.memory_map(path) if is_large else pa.OSFile(path) as file:
            # Not the whole: Arrow makes the system fetch what it is asked for.
            file.seek(start)
            return file.read_buffer(stop - start)

    return storage_call(StorageCall.OBJECT_GET, path, read)


# -- the form of a part: streams of Arrow IPC one after another, then where each begins and ends -


def _write(sink: pa.NativeFile, content: Content) -> tuple[int, int]:
    """Write a part; return its place."""
    first = sink.tell()
    index: dict[str, tuple[int, int]] = {}
    for name, table in content.items():
        start = sink.tell() - first
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        index[name] = (start, sink.tell() - first)
    text = json.dumps(index).encode()
    # What comes next begins at an alignment for Arrow.
    text += b" " * (-len(text) % _SIZE_BYTES)
    sink.write(text)
    sink.write(len(text).to_bytes(_SIZE_BYTES, "little"))
    return first, sink.tell()


def _read(data: pa.Buffer, names: Collection[str] | None) -> Content:
    end = data.size - _SIZE_BYTES
    size = int.from_bytes(data.slice(end, _SIZE_BYTES).to_pybytes(), "little")
    index = json.loads(data.slice(end - size, size).to_pybytes())
    return {
        name: pa.ipc.open_stream(data.slice(start, stop - start)).read_all()
        for name, (start, stop) in index.items()
        if names is None or name in names
    }
