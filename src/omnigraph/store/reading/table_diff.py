"""The difference of two versions of a table, from their manifests and deletion files.

Two versions of one table, on the trunk or on forks, share most of their data files. A row of a data
file that both list is the same row in both. So only these rows can differ: those of fragments that
one version does not have, and those that one version has deleted from a fragment that both have.
An alteration of columns adds files to fragments: what they hold follows from the columns.

A row that was rewritten without a change, by a fold or a compaction, is on both sides. The caller
separates such rows from changed ones, by their keys and their content.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from omnigraph.store import tuning
from omnigraph.store.reading.aligned_rows import AlignedRows
from omnigraph.store.reading.altered_columns import AlteredColumn
from omnigraph.store.reading.row_addresses import (
    FRAGMENT_BITS,
    OFFSET_MASK,
    AddressedRows,
    Addresses,
    Fragment,
    without,
)
from omnigraph.store.table import ROW_ADDRESS, Table

__all__ = ["RowSelection", "TableDiff", "diff_tables"]


@dataclass(frozen=True, slots=True, eq=False)
class RowSelection:
    """Some rows of one version of a table.

    Attributes:
        rows: The version.
        fragments: The fragments of which all rows are selected.
        addresses: The rows that are selected one by one, ascending.
        count: How many rows there are.
    """

    rows: AddressedRows
    fragments: tuple[int, ...]
    addresses: Addresses
    count: int

    @property
    def table(self) -> Table:
        """The version."""
        return self.rows.table

    @property
    def is_small(self) -> bool:
        """True if the rows are those of a few small files, which are sooner read as a whole."""
        if len(self.addresses) or self.count > tuning.active.held_rows_max:
            return False
        metadata = (self.rows.fragments[number].handle.metadata for number in self.fragments)
        sizes = [file.file_size_bytes for each in metadata for file in each.files]
        return all(sizes) and sum(map(int, sizes)) <= tuning.active.held_bytes_max

    @property
    def every_address(self) -> Addresses:
        """The addresses of all selected rows; reads no data file."""
        known = self.rows.fragments
        whole = [known[number] for number in self.fragments]
        found = [each.left(self.rows.deleted(each)) for each in whole]
        return np.concatenate([*found, self.addresses])

    def scan(self, columns: list[str]) -> pa.RecordBatchReader:
        """Stream the rows with their ``_rowaddr``: whole fragments, then single rows."""
        fields = [self.rows.schema.field(name) for name in columns]
        schema = pa.schema([*fields, pa.field(ROW_ADDRESS, pa.uint64())])
        return pa.RecordBatchReader.from_batches(schema, self._batches(columns, schema))

    def row_id_range(self) -> tuple[int, int] | None:
        """The least and the greatest row id of the whole fragments, deleted rows included."""
        ranges = [self.rows.row_id_range(number) for number in self.fragments]
        if not ranges:
            return None
        return min(least for least, _ in ranges), max(greatest for _, greatest in ranges)

    def _batches(self, columns: list[str], schema: pa.Schema) -> Iterable[pa.RecordBatch]:
        if self.fragments:
            whole = self.rows.scan(columns, row_address=True, fragments=self.fragments)
            yield from (batch.select(schema.names) for batch in whole)
        for start in range(0, len(self.addresses), tuning.active.read_addresses):
            chosen = self.addresses[start : start + tuning.active.read_addresses]
            single = self.rows.take(chosen, columns).append_column(ROW_ADDRESS, pa.array(chosen))
            yield from single.to_batches()


@dataclass(frozen=True, slots=True, eq=False)
class TableDiff:
    """The rows that two versions of a table do not share.

    Attributes:
        removed: Rows of the older version that the newer one does not have in the same place.
        added: Rows of the newer version that the older one does not have in the same place.
        shared: The numbers that fragments of the older version have in the newer one.
        is_same_history: One version was made from the other one. Then a row id means the same
            entity in both; on two forks the same id is given to different rows.
    """

    removed: RowSelection
    added: RowSelection
    shared: dict[int, int]
    is_same_history: bool

    @property
    def count(self) -> int:
        """The number of rows on both sides."""
        return self.removed.count + self.added.count

    @property
    def bytes(self) -> int:
        """Roughly the number of bytes that they take."""
        sides = (self.removed, self.added)
        return sum(
            each.table.data_bytes * each.count // max(1, each.table.row_count) for each in sides
        )

    def aligned(
        self, older: Sequence[AlteredColumn] | None, newer: Sequence[AlteredColumn] | None
    ) -> "TableDiff":
        """Return the same rows with other columns on each side; None leaves a side as it is."""
        removed, added = self.removed, self.added
        if older is not None:
            removed = replace(removed, rows=AlignedRows(removed.rows, older))
        if newer is not None:
            added = replace(added, rows=AlignedRows(added.rows, newer))
        return replace(self, removed=removed, added=added)

    def in_newer(self, addresses: Addresses) -> Addresses:
        """The addresses that rows of the older version have in the newer one.

        Only for rows of fragments that both have; a row that is `removed` is not there.
        """
        owners = (addresses >> np.uint64(FRAGMENT_BITS)).astype(np.int64)
        numbers = np.full(max(self.shared, default=-1) + 1, -1, np.int64)
        numbers[list(self.shared)] = list(self.shared.values())
        found: Addresses = (addresses & OFFSET_MASK) | (
            numbers[owners].astype(np.uint64) << np.uint64(FRAGMENT_BITS)
        )
        return found


def diff_tables(
    before: AddressedRows | None,
    after: AddressedRows,
    *,
    is_same_history: bool,
    is_shared: bool = True,
) -> TableDiff:
    """Compare two versions of one table.

    Args:
        before: One version; None for a table that was not there yet.
        after: The other one; on any fork.
        is_same_history: One version was made from the other one.
        is_shared: Whether a row that lies in the same place on both sides is the same row.
    """
    if before is None:
        everything = _selection(after, list(after.fragments.values()), [])
        return TableDiff(_selection(after, [], []), everything, {}, is_same_history=False)
    left, right = (
        {_origin(each): each for each in version.fragments.values()} for version in (before, after)
    )
    gone: list[Addresses] = []
    back: list[Addresses] = []
    common = left.keys() & right.keys() if is_shared else set()
    shared = [(left[name], right[name]) for name in common]
    for old, new in shared:
        if old.deletions != new.deletions:
            dead_before, dead_after = before.deleted(old), after.deleted(new)
            gone.append(old.addresses(without(dead_after, dead_before)))
            back.append(new.addresses(without(dead_before, dead_after)))
    return TableDiff(
        removed=_selection(before, [left[name] for name in left.keys() - common], gone),
        added=_selection(after, [right[name] for name in right.keys() - common], back),
        shared={old.id: new.id for old, new in shared},
        is_same_history=is_same_history,
    )


def _origin(fragment: Fragment) -> str:
    """The file that a fragment began with; further ones hold columns that were altered since."""
    return fragment.files[0]


def _selection(rows: AddressedRows, whole: list[Fragment], single: list[Addresses]) -> RowSelection:
    addresses = np.sort(np.concatenate([np.empty(0, np.uint64), *single]))
    count = sum(fragment.rows for fragment in whole) + len(addresses)
    return RowSelection(rows, tuple(sorted(each.id for each in whole)), addresses, count)
