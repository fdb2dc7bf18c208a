"""Staging: where the tasks of one operation put what other tasks will need.

Nothing of it is ever part of the graph. Everything that one operation stages lies below one name,
which carries the time, and goes when the operation ends, however it ends; what a killed process
left can be told by its age.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from omnigraph.core.layout import STAGING
from omnigraph.runtime import telemetry
from omnigraph.runtime.ids import UlidIds, is_ulid, time_ms
from omnigraph.store.failures import StorageFailure
from omnigraph.store.objects import ObjectStore, open_objects
from omnigraph.store.root import Root

Content: TypeAlias = Mapping[str, pa.Table]

MEMORY_BYTES: Final = 128 << 20
_SHARED_BYTES: Final = 1 << 20
_SIZE_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Some tables that were staged together, by name.

    Attributes:
        rows: How many rows each has.
        place: Where they are stored; None: they are in memory.
        content: The tables, if they are in memory.
        prefix: What their names begin with there: small parcels share a place.
    """

    rows: Mapping[str, int]
    place: str | None = None
    content: Content | None = None
    prefix: str = ""


class Staging(Protocol):
    """Takes parcels and gives them back. Thread-safe."""

    def put(self, content: Content) -> Parcel:
        """Stage some tables; empty ones are left out."""
        ...

    def put_all(self, contents: Sequence[Content]) -> list[Parcel]:
        """Stage several parcels, which may have tables of the same names."""
        ...

    def get(self, parcel: Parcel, names: Collection[str] | None = None) -> Content:
        """The tables of a parcel, or those of them that have one of some names."""
        ...

    @property
    def address(self) -> str:
        """A folder for whatever else the operation has to put aside; it need not exist."""
        ...

    @property
    def storage_options(self) -> Mapping[str, str]:
        """How to reach that folder."""
        ...

    def remove(self) -> None:
        """Remove everything that was staged. Never fails; removing twice is fine."""
        ...


class LocalStaging:
    """Staging for the tasks of one process: in memory, beyond a budget in files of this machine."""

    def __init__(self, root: Root, name: str, *, memory_bytes: int = MEMORY_BYTES) -> None:
        """Keep files beside a graph of this machine, else in the folder for temporary files."""
        if root.is_local:
            self._folder = root.local_path / STAGING / name
        else:
            self._folder = Path(tempfile.gettempdir(), f"omnigraph-{name}")
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

    def put(self, content: Content) -> Parcel:
        """Keep tables in memory while there is room, else write them to a file."""
        kept = {name: table for name, table in content.items() if table.num_rows}
        rows = {name: table.num_rows for name, table in kept.items()}
        size = sum(table.nbytes for table in kept.values())
        with self._lock:
            fits = size <= self._left
            self._left -= size if fits else 0
            self._count += 1
            path = self._folder / f"{self._count}.arrow"
        if fits:
            return Parcel(rows=rows, content=kept)
        self._folder.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(path), "wb") as sink:
            _write(sink, kept)
        return Parcel(rows=rows, place=str(path))

    def put_all(self, contents: Sequence[Content]) -> list[Parcel]:
        """Keep several parcels."""
        return [self.put(content) for content in contents]

    def get(self, parcel: Parcel, names: Collection[str] | None = None) -> Content:
        """The tables; those in files are mapped, not read."""
        if parcel.content is not None:
            return _named(parcel.content, names)
        with pa.memory_map(str(parcel.place)) as file:
            return _read(file.read_buffer(), "", names)

    def remove(self) -> None:
        """Remove the files; tables that somebody still holds stay readable."""
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
        """How to reach it."""
        return self._root.storage_options

    def put(self, content: Content) -> Parcel:
        """Store tables under a name that no other attempt of the task uses."""
        kept = {name: table for name, table in content.items() if table.num_rows}
        sink = pa.BufferOutputStream()
        _write(sink, kept)
        place = f"{STAGING}/{self._name}/{_ids().new()}.arrow"
        _objects(self._root).put(place, sink.getvalue().to_pybytes())
        return Parcel(rows={name: table.num_rows for name, table in kept.items()}, place=place)

    def put_all(self, contents: Sequence[Content]) -> list[Parcel]:
        """Store small parcels as one object: a call costs more than what is read in vain."""
        size = sum(table.nbytes for content in contents for table in content.values())
        if size > _SHARED_BYTES or len(contents) <= 1:
            return [self.put(content) for content in contents]
        prefixes = [f"{number}/" for number in range(len(contents))]
        whole = self.put(
            {
                f"{prefix}{name}": table
                for prefix, content in zip(prefixes, contents, strict=True)
                for name, table in content.items()
            }
        )
        return [
            Parcel(
                rows={name: table.num_rows for name, table in content.items() if table.num_rows},
                place=whole.place,
                prefix=prefix,
            )
            for prefix, content in zip(prefixes, contents, strict=True)
        ]

    def get(self, parcel: Parcel, names: Collection[str] | None = None) -> Content:
        """Read the object of a parcel."""
        if parcel.prefix:
            data = _shared(self._root.uri, _options(self._root), str(parcel.place))
        else:
            data = _objects(self._root).get(str(parcel.place))
        return _read(pa.py_buffer(data), parcel.prefix, names)

    def remove(self) -> None:
        """Remove every object, those that no receipt names included."""
        if self._root.is_local:
            _remove_folder(self._root.local_path / STAGING / self._name)
        else:
            _remove_objects(_objects(self._root), f"{STAGING}/{self._name}")


def reclaim(objects: ObjectStore, before_ms: int) -> int:
    """Remove what operations that began before a time left staged; tell how many objects."""
    old = {
        name
        for info in objects.list(STAGING)
        if is_ulid(name := info.path.split("/")[1]) and time_ms(name) < before_ms
    }
    return sum(_remove_objects(objects, f"{STAGING}/{name}") for name in sorted(old))


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
    # Not the folder around it: somebody else may be about to make one in there.
    shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=8)
def _opened(uri: str, options: tuple[tuple[str, str], ...]) -> ObjectStore:
    # Not durable: what is staged is worth nothing after a power cut.
    return open_objects(Root(uri, dict(options)), durable=False)


def _options(root: Root) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(root.storage_options.items()))


def _objects(root: Root) -> ObjectStore:
    return _opened(root.uri, _options(root))


@lru_cache(maxsize=32)
def _shared(uri: str, options: tuple[tuple[str, str], ...], place: str) -> bytes:
    """A small object that holds several parcels, which are usually wanted one after the other."""
    return _opened(uri, options).get(place)


@lru_cache(maxsize=1)
def _ids() -> UlidIds:
    return UlidIds()


# -- the form of a file: streams of Arrow IPC one after another, then where each begins and ends ---


def _write(sink: pa.NativeFile, content: Content) -> None:
    index: dict[str, tuple[int, int]] = {}
    for name, table in content.items():
        start = sink.tell()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        index[name] = (start, sink.tell())
    text = json.dumps(index).encode()
    sink.write(text)
    sink.write(len(text).to_bytes(_SIZE_BYTES, "little"))


def _read(data: pa.Buffer, prefix: str, names: Collection[str] | None) -> Content:
    end = data.size - _SIZE_BYTES
    size = int.from_bytes(data.slice(end, _SIZE_BYTES).to_pybytes(), "little")
    index = json.loads(data.slice(end - size, size).to_pybytes())
    return {
        name: pa.ipc.open_stream(data.slice(start, stop - start)).read_all()
        for full, (start, stop) in index.items()
        if full.startswith(prefix)
        and (names is None or full.removeprefix(prefix) in names)
        and (name := full.removeprefix(prefix))
    }


def _named(content: Content, names: Collection[str] | None) -> Content:
    if names is None:
        return content
    return {name: table for name, table in content.items() if name in names}
