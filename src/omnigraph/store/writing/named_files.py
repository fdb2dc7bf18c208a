"""Data files whose names begin with the operation that writes them.

Lance names data files at random, and on local disk it writes them under other random names first.
So the writer of a file that no version refers to is not known. A load writes many of them long
before its commit; its files are called after it, and what it leaves behind is found by the name.

Tables with blobs are written by Lance itself: their bytes lie in further files.
"""

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from lance import FragmentMetadata
from lance.file import LanceFileWriter
from lance.fragment import DataFile

from omnigraph.runtime.ids import Ids, UlidIds
from omnigraph.store import tuning
from omnigraph.store.integrity.file_checksums import FileChecksums
from omnigraph.store.io.streams import stream_size
from omnigraph.store.model import WrittenBy
from omnigraph.store.reading.data_files import field_ids
from omnigraph.store.root import Root
from omnigraph.store.versions.gateway import STORAGE_VERSION

__all__ = ["NamedFiles"]

_BATCH_ROWS: Final = 1 << 16
_MAJOR, _MINOR = map(int, STORAGE_VERSION.split("."))


class NamedFiles:
    """Writes data files of tables below one root. Thread-safe."""

    def __init__(self, root: Root, checksums: FileChecksums) -> None:
        self._root = root
        self._checksums = checksums
        self._ids: Ids = UlidIds()
        self._options = dict(root.storage_options) or None

    def write(self, dataset: Any, place: str, rows: pa.Table, by: WrittenBy) -> list[Any]:
        """Write rows into new fragments. Nothing refers to them yet."""
        # With what Lance keeps on fields, such as how to encode them.
        rows = rows.cast(dataset.schema)
        fields = field_ids(dataset.lance_schema.fields(), leaves_only=True)
        found = []
        for start in range(0, rows.num_rows, tuning.active.file_rows_max):
            part = rows.slice(start, tuning.active.file_rows_max)
            name, size = self._file(place, part, by)
            file = DataFile(name, fields, list(range(len(fields))), _MAJOR, _MINOR, size)
            found.append(FragmentMetadata(0, [file], part.num_rows))
        return found

    def _file(self, place: str, rows: pa.Table, by: WrittenBy) -> tuple[str, int]:
        """Write one file; return its name and size."""
        name = f"{by.operation}-{self._ids.new()}.lance"
        if not self._root.is_local:
            address = self._root.join(f"{place}/data/{name}")
            self._fill(address, rows)
            return name, stream_size(address, self._root.storage_options)
        path = self._root.local_path / by.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fill(str(path), rows)
        size = path.stat().st_size
        return self._checksums.move_in(Path(path), place, name), size

    def _fill(self, address: str, rows: pa.Table) -> None:
        with LanceFileWriter(
            address, rows.schema, version=STORAGE_VERSION, storage_options=self._options
        ) as writer:
            for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
                writer.write_batch(batch)
