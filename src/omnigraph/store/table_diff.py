"""The difference of two versions of a table, from their manifests and deletion files.

Two versions of one table, on the trunk or on forks, share most of their data files. A row of a data
file that both list is the same row in both. So only these rows can differ: those of fragments that
one version does not have, and those that one version has deleted from a fragment that both have.

A row that was rewritten without a change, by a fold or a compaction, is on both sides. The caller
tells such rows from changed ones, by their keys and their content.
"""

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.store.calls import StorageCall, storage_call
from omnigraph.store.table import ROW_ADDRESS, ROW_ID, Table

__all__ = ["RowSelection", "TableDiff", "diff_tables"]

Addresses = npt.NDArray[np.uint64]

# Row addresses in one filter: planning it costs more than linearly in its length.
_ADDRESSES_PER_FILTER: Final = 2_000
_FRAGMENT_BITS: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class RowSelection:
    """Some rows of one version of a table.

    Attributes:
        table: The version.
        fragments: The fragments of which all rows are selected.
        addresses: The rows that are selected one by one, ascending.
        count: How many rows there are.
    """

    table: Table
    fragments: tuple[int, ...]
    addresses: Addresses
    count: int

    def scan(self, columns: list[str]) -> pa.RecordBatchReader:
        """Stream the rows with their ``_rowid``, fragment by fragment."""
        fields = [self.table.schema.field(name) for name in columns]
        schema = pa.schema([*fields, pa.field(ROW_ID, pa.uint64())])
        return pa.RecordBatchReader.from_batches(schema, self._batches(columns, schema))

    def _batches(self, columns: list[str], schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        if self.fragments:
            whole = self.table.scan(columns, row_id=True, fragments=self.fragments)
            yield from (batch.select(schema.names) for batch in whole)
        for start in range(0, len(self.addresses), _ADDRESSES_PER_FILTER):
            chosen = ", ".join(map(str, self.addresses[start : start + _ADDRESSES_PER_FILTER]))
            single = self.table.read(columns, filter=f"{ROW_ADDRESS} IN ({chosen})", row_id=True)
            yield from single.select(schema.names).to_batches()


@dataclass(frozen=True, slots=True, eq=False)
class TableDiff:
    """The rows that two versions of a table do not share.

    Attributes:
        removed: Rows of the older version that the newer one does not have in the same place.
        added: Rows of the newer version that the older one does not have in the same place.
    """

    removed: RowSelection
    added: RowSelection


def diff_tables(older: Table, newer: Table, read: Callable[[str], bytes]) -> TableDiff:
    """Compare two versions of one table.

    Args:
        older: One version.
        newer: The other one; on any fork.
        read: Returns the content of a file below the root.
    """
    left, right = _fragments(older), _fragments(newer)
    gone: list[Addresses] = []
    back: list[Addresses] = []
    shared = [(left[name], right[name]) for name in left.keys() & right.keys()]
    changed = [(old, new) for old, new in shared if old.deletions != new.deletions]
    older.check(StorageCall.TABLE_SCAN, [old.handle for old, _ in changed])
    newer.check(StorageCall.TABLE_SCAN, [new.handle for _, new in changed])
    for old, new in changed:
        dead_before, dead_after = old.deleted(read), new.deleted(read)
        gone.append(old.addresses(np.setdiff1d(dead_after, dead_before)))
        back.append(new.addresses(np.setdiff1d(dead_before, dead_after)))
    return TableDiff(
        removed=_selection(older, [left[name] for name in left.keys() - right.keys()], gone),
        added=_selection(newer, [right[name] for name in right.keys() - left.keys()], back),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Fragment:
    """A fragment and the name of its deletion file below the root, if it has one."""

    handle: Any
    deletions: str | None

    @property
    def id(self) -> int:
        """The number of the fragment within its version."""
        return int(self.handle.fragment_id)

    @property
    def rows(self) -> int:
        """The number of rows that are left."""
        return int(self.handle.metadata.num_rows)

    def addresses(self, offsets: npt.NDArray[np.uint32]) -> Addresses:
        """Return the addresses of the rows at some offsets."""
        return offsets.astype(np.uint64) + np.uint64(self.id << _FRAGMENT_BITS)

    def deleted(self, read: Callable[[str], bytes]) -> npt.NDArray[np.uint32]:
        """Return the offsets of the deleted rows."""
        name = self.deletions
        if name is None:
            return np.empty(0, np.uint32)
        data = storage_call(StorageCall.TABLE_SCAN, name, lambda: read(name))
        return decode_deletions(name, data)


def decode_deletions(name: str, data: bytes) -> npt.NDArray[np.uint32]:
    """Return the offsets that a deletion file lists; its name says how it is encoded."""
    if name.endswith(".arrow"):
        column = pa.ipc.open_file(io.BytesIO(data)).read_all().column(0)
        return np.asarray(column.combine_chunks(), np.uint32)
    # Imported late: small tables never need it.
    from pyroaring import BitMap  # noqa: PLC0415

    return np.frombuffer(BitMap.deserialize(data).to_array(), np.uint32)


def _fragments(table: Table) -> dict[tuple[str, ...], _Fragment]:
    """The fragments of a version, by the names of their data files below the root."""
    dataset, path = table.dataset, table.pin.path
    bases = {None: _below_root(str(dataset.uri), path)}
    found = {}
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        deletions = metadata.deletion_file
        ids = {file.base_id for file in metadata.files}
        if deletions is not None:
            ids.add(deletions.base_id)
        if not ids <= bases.keys():
            recorded = dataset.base_paths().items()
            bases |= {key: _below_root(str(base.path), path) for key, base in recorded}
        name = tuple(f"{bases[file.base_id]}/{file.path}" for file in metadata.files)
        place = None
        if deletions is not None:
            place = f"{bases[deletions.base_id]}/{deletions.path(metadata.id)}"
        found[name] = _Fragment(fragment, place)
    return found


def _below_root(uri: str, path: str) -> str:
    """The folder of a table or fork, relative to the root: a root may be spelled in many ways."""
    text = uri.rstrip("/")
    trunk, fork, name = text.rpartition("/tree/")
    return f"{path}{fork}{name}" if trunk.endswith(f"/{path}") else path


def _selection(table: Table, whole: list[_Fragment], single: list[Addresses]) -> RowSelection:
    addresses = np.sort(np.concatenate([np.empty(0, np.uint64), *single]))
    count = sum(fragment.rows for fragment in whole) + len(addresses)
    return RowSelection(table, tuple(sorted(each.id for each in whole)), addresses, count)
