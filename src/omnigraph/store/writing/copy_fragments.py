"""Copying fragments from one version of a table into another one, without reading their rows.

A data file never changes, so the copy is the same file under a name of its own: by a second link on
local disk, by a copy within the storage elsewhere. The other name may go, when the fork that wrote
the file is dropped or cleaned up.

Rows get new row ids. The number of a new fragment is given when it lands, and the name of a
deletion file has that number: so a fragment that has deleted rows cannot be copied. Nor can files
with blobs, which lie beside them.
"""

import copy
import dataclasses
import json
from collections.abc import Iterable
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from omnigraph.runtime.ids import UlidIds
from omnigraph.store.blobs import marked
from omnigraph.store.integrity.file_checksums import checksum_suffix
from omnigraph.store.io.objects import Backend
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import FragmentReceipt
from omnigraph.store.reading.row_addresses import Fragment
from omnigraph.store.reading.table_diff import RowSelection
from omnigraph.store.table import Table
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import tree_path
from omnigraph.store.writing.stage import Stager

__all__ = ["FragmentCopier"]


class FragmentCopier:
    """Copies fragments. Thread-safe."""

    def __init__(self, stager: Stager, files: Files, backend: Backend) -> None:
        self._stager = stager
        self._files = files
        self._backend = backend
        self._ids = UlidIds()

    def can_copy(self, table: Table, rows: RowSelection) -> bool:
        """True if files of these rows fit a table: it stores the same columns, and no blobs."""
        schemas = (table.dataset.lance_schema, rows.table.dataset.lance_schema)
        ours, theirs = (_columns(schema.fields()) for schema in schemas)
        return ours == theirs and not marked(table.dataset.schema)

    def copy(self, table: Table, rows: RowSelection) -> tuple[FragmentReceipt, ...]:
        """Add rows of another version to a table; durable on return, for ``stage_fragments``.

        The files of whole fragments are copied, the other rows are read and written.
        """
        place = tree_path(table.pin.path, table.pin.branch)
        whole = [rows.rows.fragments[number] for number in rows.fragments]
        intact = [each for each in whole if each.deletions is None]
        rows.table.check(StorageCall.TABLE_SCAN, [each.handle for each in intact])
        receipts = [self._copied(place, each) for each in intact]
        self._files.sync(place, [file for receipt in receipts for file in receipt.files])
        left = tuple(each.id for each in whole if each.deletions is not None)
        rest = dataclasses.replace(rows, fragments=left)
        if left or len(rows.addresses):
            receipts.extend(self._stager.write(table, _stream(rest, table.schema)))
        return tuple(receipts)

    def _copied(self, place: str, fragment: Fragment) -> FragmentReceipt:
        metadata = fragment.handle.metadata
        files = []
        for file, source in zip(metadata.files, fragment.files, strict=True):
            name = f"{self._ids.new().lower()}{checksum_suffix(PurePosixPath(source).name)}"
            target = f"{place}/data/{name}"
            storage_call(
                StorageCall.TABLE_WRITE, target, partial(self._backend.copy, source, target)
            )
            copied = copy.copy(file)
            copied._path = name
            copied.base_id = None
            files.append(copied)
        found = dataclasses.replace(
            metadata,
            id=0,
            files=files,
            row_id_meta=None,
            created_at_version_meta=None,
            last_updated_at_version_meta=None,
        )
        text = json.dumps(found.to_json())
        return FragmentReceipt(
            text, int(metadata.physical_rows), False, self._files.of_fragments(place, [found])
        )


def _stream(rows: RowSelection, schema: pa.Schema) -> pa.RecordBatchReader:
    batches = (
        pa.RecordBatch.from_arrays(
            [batch.column(field.name).cast(field.type) for field in schema], schema=schema
        )
        for batch in rows.scan(schema.names)
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def _columns(fields: Iterable[Any]) -> list[tuple[int, str, list[Any]]]:
    """The columns of a schema by their numbers, with those within them."""
    return [(field.id(), field.name(), _columns(field.children())) for field in fields]
