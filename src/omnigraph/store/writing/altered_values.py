"""The values that stored rows get when their table is altered: one more data file per fragment.

The files that a fragment has stay as they are, and fragments are independent of each other, so a
worker writes those of some of them. A file has a value for every place of its fragment, also for
rows that are deleted.

Where all rows get the same values, fragments with as many rows get files with the same content; it
is made once. It is tiny, whatever the number of rows.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from lance import FragmentMetadata
from lance.file import LanceFileWriter
from lance.fragment import DataFile

from omnigraph.runtime import cancellation
from omnigraph.runtime.ids import Ids, UlidIds
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.io.streams import stream_size
from omnigraph.store.reading.altered_columns import AlteredColumn
from omnigraph.store.root import Root
from omnigraph.store.table import Table
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import STORAGE_VERSION, tree_path

__all__ = ["ValuesReceipt", "WrittenColumns", "write_values"]

_BATCH_ROWS: Final = 1 << 18
_MAJOR, _MINOR = map(int, STORAGE_VERSION.split("."))


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """The columns in which stored rows get values, for workers. Picklable.

    Attributes:
        columns: The columns.
        fields: The same, as files have them.
        numbers: The numbers of those of their fields that have values, in the altered table.
    """

    columns: tuple[AlteredColumn, ...]
    fields: pa.Schema
    numbers: tuple[int, ...]

    @property
    def sources(self) -> list[str]:
        """The columns that their values are made from."""
        return sorted({column.source for column in self.columns if column.source is not None})


@dataclass(frozen=True, slots=True)
class ValuesReceipt:
    """The file that a worker wrote for a fragment: its description, and what to sync."""

    fragment: int
    added: str
    files: tuple[str, ...] = ()

    @property
    def added_files(self) -> list[Any]:
        """The file as Lance describes it."""
        return list(FragmentMetadata.from_json(self.added).files)


def write_values(
    root: Root, files: Files, table: Table, fragments: Sequence[int], written: WrittenColumns
) -> tuple[ValuesReceipt, ...]:
    """Write the new values of some fragments, durable on return. Runs on workers."""
    place = tree_path(table.pin.path, table.pin.branch)
    if written.sources:
        table.check(StorageCall.TABLE_SCAN)
    writer = _ValueFiles(root, place, written)
    receipts = []
    for number in fragments:
        cancellation.check()
        fragment: Any = table.dataset.get_fragment(number)
        (added,) = files.checksums.add_to_names(place, [writer.write(fragment)])
        created = files.of_fragments(place, [added])
        receipts.append(ValuesReceipt(number, json.dumps(added.to_json()), created))
    files.sync(place, [name for receipt in receipts for name in receipt.files])
    return tuple(receipts)


class _ValueFiles:
    """Writes the files of one table or fork. Not thread-safe."""

    def __init__(self, root: Root, place: str, written: WrittenColumns) -> None:
        self._root = root
        self._place = place
        self._written = written
        self._ids: Ids = UlidIds()
        self._made: dict[int, bytes] = {}  # contents for fragments of so many rows

    def write(self, fragment: Any) -> Any:
        """Write the file of one fragment; return a description of a fragment with it alone."""
        rows = int(fragment.physical_rows)
        name = f"{self._ids.new()}.lance"
        address = self._root.join(f"{self._place}/data/{name}")
        size = storage_call(
            StorageCall.TABLE_WRITE, self._place, lambda: self._filled(address, fragment, rows)
        )
        numbers = list(self._written.numbers)
        file = DataFile(name, numbers, list(range(len(numbers))), _MAJOR, _MINOR, size)
        return FragmentMetadata(int(fragment.fragment_id), [file], rows)

    def _filled(self, address: str, fragment: Any, rows: int) -> int:
        if rows in self._made:
            return Path(address).write_bytes(self._made[rows])
        options = dict(self._root.storage_options) or None
        with LanceFileWriter(
            address, self._written.fields, version=STORAGE_VERSION, storage_options=options
        ) as writer:
            for batch in self._batches(fragment, rows):
                writer.write_batch(batch)
        if not self._root.is_local:
            return stream_size(address, self._root.storage_options)
        if not self._written.sources:
            self._made[rows] = Path(address).read_bytes()
        return Path(address).stat().st_size

    def _batches(self, fragment: Any, rows: int) -> Iterator[pa.RecordBatch]:
        written = self._written
        if not written.sources:
            for start in range(0, rows, _BATCH_ROWS):
                count = min(_BATCH_ROWS, rows - start)
                arrays = [column.repeated(count) for column in written.columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=written.fields)
            return
        deleted = fragment.metadata.deletion_file is not None
        scanner = fragment.scanner(
            columns=written.sources,
            batch_size=_BATCH_ROWS,
            include_deleted_rows=deleted,
            with_row_id=deleted,  # Lance gives deleted rows only together with these
        )
        for batch in scanner.to_batches():
            arrays = [column.values(batch) for column in written.columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=written.fields)
