"""Reading the rows of one version of a table by their addresses.

An address is the number of a fragment and a place within its data files. Unlike a row id it needs
no index over the table: reading some rows costs the same however large the table is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import RowIdSequence

from omnigraph.store import tuning
from omnigraph.store.blobs import marked
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.table import BATCH_ROWS, ROW_ADDRESS, ROW_ID, Table, overflows

__all__ = ["FRAGMENT_BITS", "AddressedRows", "Addresses", "Fragment", "decode_deletions"]

Addresses = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.uint32]

FRAGMENT_BITS: Final = 32
_OFFSET_MASK: Final = np.uint64((1 << FRAGMENT_BITS) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """A fragment, the names of its data files below the root, and that of its deletion file."""

    handle: Any
    files: tuple[str, ...]
    deletions: str | None

    @property
    def id(self) -> int:
        """The number of the fragment within its version."""
        return int(self.handle.fragment_id)

    @property
    def rows(self) -> int:
        """The number of rows that are left."""
        return int(self.handle.metadata.num_rows)

    def addresses(self, offsets: npt.NDArray[Any]) -> Addresses:
        """Return the addresses of the rows at some offsets."""
        return offsets.astype(np.uint64) + np.uint64(self.id << FRAGMENT_BITS)


class AddressedRows:
    """The rows of one version of a table. Not for use by several threads at once."""

    def __init__(self, table: Table, read: Callable[[str], bytes]) -> None:
        """Read this version.

        Args:
            table: The version.
            read: Returns the content of a file below the root.
        """
        self.table = table
        self.read_file = read
        self._deleted: dict[int, Offsets] = {}
        self._kept: pa.Table | None = None

    @cached_property
    def fragments(self) -> dict[int, Fragment]:
        """The fragments, by number."""
        dataset, path = self.table.dataset, self.table.pin.path
        bases = {None: _below_root(str(dataset.uri), path)}
        found = {}
        for handle in dataset.get_fragments():
            metadata = handle.metadata
            deletions = metadata.deletion_file
            ids = {file.base_id for file in metadata.files}
            if deletions is not None:
                ids.add(deletions.base_id)
            if not ids <= bases.keys():
                recorded = dataset.base_paths().items()
                bases |= {key: _below_root(str(base.path), path) for key, base in recorded}
            names = tuple(f"{bases[file.base_id]}/data/{file.path}" for file in metadata.files)
            place = None
            if deletions is not None:
                place = f"{bases[deletions.base_id]}/{deletions.path(metadata.id)}"
            fragment = Fragment(handle, names, place)
            found[fragment.id] = fragment
        return found

    def deleted(self, fragment: Fragment) -> Offsets:
        """Return the offsets of the deleted rows of a fragment, ascending."""
        found = self._deleted.get(fragment.id)
        if found is None:
            found = self._deleted[fragment.id] = self._read_deletions(fragment)
        return found

    def _read_deletions(self, fragment: Fragment) -> Offsets:
        name = fragment.deletions
        if name is None:
            return np.empty(0, np.uint32)
        self.table.check(StorageCall.TABLE_SCAN, [fragment.handle])
        data = storage_call(StorageCall.TABLE_SCAN, name, lambda: self.read_file(name))
        return np.sort(decode_deletions(name, data))

    # ------------------------------------------------------------ rows

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.table.schema

    def stored_name(self, column: str) -> str | None:
        """The stored column that a column is read from; None when no row has a value of its own."""
        return column

    def scan(
        self,
        columns: Sequence[str],
        *,
        fragments: Sequence[int] | None = None,
        row_id: bool = False,
        row_address: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows, whole fragments at a time; not for blobs."""
        yield from self.table.scan(
            list(columns),
            fragments=fragments,
            row_id=row_id,
            row_address=row_address,
            batch_rows=batch_rows,
        )

    def take(self, addresses: pa.Array | Addresses, columns: Sequence[str]) -> pa.Table:
        """Return rows by address, in the order asked for; of blobs, descriptions.

        Raises:
            StorageFailure: NOT_FOUND when one is not there.
        """
        wanted = np.asarray(addresses, np.uint64)
        names = list(columns)
        if not len(wanted):
            return pa.schema([self.schema.field(name) for name in names]).empty_table()
        kept = self._among_kept(wanted, names)
        return self._stored(wanted, names) if kept is None else kept

    def _stored(self, wanted: Addresses, names: list[str]) -> pa.Table:
        """Read rows from the table."""
        distinct = np.unique(wanted)
        if marked(self.table.dataset.schema).intersection(names):
            parts = self._described(distinct, names)
        else:
            parts = self._parts(distinct, names)
        rows = pa.concat_tables([part for _, part in parts])
        if rows.num_rows != len(distinct):
            raise self._missing(len(distinct) - rows.num_rows)
        return _ordered(rows, np.concatenate([places for places, _ in parts]), wanted)

    def keep(self, rows: pa.Table) -> None:
        """Hold rows that were read, with their addresses: `take` answers from them if it can."""
        self._kept = rows

    def _among_kept(self, wanted: Addresses, names: list[str]) -> pa.Table | None:
        if self._kept is None or not set(names) <= set(self._kept.column_names):
            return None
        places = self._kept.column(ROW_ADDRESS).to_numpy()
        if not np.isin(wanted, places).all():
            return None
        return _ordered(self._kept.select(names), places, wanted)

    def _parts(self, distinct: Addresses, names: list[str]) -> list[tuple[Addresses, pa.Table]]:
        """Rows by fragment, with their addresses."""
        owners = (distinct >> np.uint64(FRAGMENT_BITS)).astype(np.int64)
        numbers, starts = np.unique(owners, return_index=True)
        parts: list[tuple[Addresses, pa.Table]] = []
        scanned: list[int] = []
        for number, mine in zip(numbers.tolist(), np.split(distinct, starts[1:]), strict=True):
            fragment = self._fragment(number)
            if len(mine) * tuning.active.scanned_share > fragment.rows:
                scanned.append(number)
            else:
                parts.append((mine, self._take(fragment, mine, names)))
        if scanned:
            parts.append(self._scan(scanned, distinct[np.isin(owners, scanned)], names))
        return parts

    def _described(self, distinct: Addresses, names: list[str]) -> list[tuple[Addresses, pa.Table]]:
        """Rows with descriptions of blobs, which Lance does not take from a fragment."""
        parts = []
        for start in range(0, len(distinct), tuning.active.filter_addresses):
            condition = _among(distinct[start : start + tuning.active.filter_addresses])
            rows = self.table.read_described(names, filter=condition, row_address=True)
            parts.append((rows.column(ROW_ADDRESS).to_numpy(), rows.select(names)))
        return parts

    def _take(self, fragment: Fragment, addresses: Addresses, columns: list[str]) -> pa.Table:
        offsets = (addresses & _OFFSET_MASK).astype(np.uint32)
        gone = self.deleted(fragment)
        if np.isin(offsets, gone).any():
            raise self._missing(int(np.isin(offsets, gone).sum()))
        # Lance counts the rows that are left.
        places = (offsets - np.searchsorted(gone, offsets)).tolist()
        self.table.check(StorageCall.TABLE_TAKE, [fragment.handle])

        def take(part: list[int]) -> pa.Table:
            try:
                return fragment.handle.take(part, columns=columns)
            except (OSError, ValueError) as error:
                if not overflows(error) or len(part) < 2:
                    raise
            half = len(part) // 2
            return pa.concat_tables([take(part[:half]), take(part[half:])])

        return storage_call(StorageCall.TABLE_TAKE, self.table.pin.path, partial(take, places))

    def _scan(
        self, fragments: list[int], addresses: Addresses, columns: list[str]
    ) -> tuple[Addresses, pa.Table]:
        """Read whole fragments, and keep some of their rows; with their addresses."""
        schema = pa.schema([self.table.schema.field(name) for name in columns])
        kept, batches = [np.empty(0, np.uint64)], []
        for batch in self.table.scan(columns, row_address=True, fragments=fragments):
            places = batch.column(ROW_ADDRESS).to_numpy()
            near = np.minimum(np.searchsorted(addresses, places), len(addresses) - 1)
            chosen = addresses[near] == places
            if chosen.any():
                kept.append(places[chosen])
                batches.append(_plain(batch.select(columns).filter(pa.array(chosen)), schema))
        return np.concatenate(kept), pa.Table.from_batches(batches, schema)

    def row_ids(self, addresses: Addresses) -> Addresses:
        """Return the row ids of some rows, in the order asked for. Reads no data file."""
        found = np.empty(len(addresses), np.uint64)
        owners = addresses >> np.uint64(FRAGMENT_BITS)
        looked_up = np.zeros(len(addresses), bool)
        for number in np.unique(owners).tolist():
            mine = owners == number
            rows = int(self._fragment(int(number)).handle.metadata.physical_rows)
            if (
                rows > tuning.active.expanded_rows_max
                and mine.sum() <= tuning.active.filter_addresses
            ):
                looked_up |= mine
            else:
                found[mine] = self._sequence(int(number))[addresses[mine] & _OFFSET_MASK]
        places = np.flatnonzero(looked_up)
        for start in range(0, len(places), tuning.active.filter_addresses):
            chosen = places[start : start + tuning.active.filter_addresses]
            found[chosen] = self._looked_up(addresses[chosen])
        return found

    def _looked_up(self, addresses: Addresses) -> Addresses:
        """The row ids of a few rows of large fragments."""
        distinct = np.unique(addresses)
        rows = self.table.read([], filter=_among(distinct), row_id=True, row_address=True)
        if rows.num_rows != len(distinct):
            raise self._missing(len(distinct) - rows.num_rows)
        places = rows.column(ROW_ADDRESS).to_numpy()
        ids: Addresses = _ordered(rows, places, addresses).column(ROW_ID).to_numpy()
        return ids

    def row_id_range(self, fragment: int) -> tuple[int, int]:
        """The least and the greatest row id of a fragment, deleted rows included."""
        ids = self._sequence(fragment)
        return int(ids.min()), int(ids.max())

    def _sequence(self, fragment: int) -> Addresses:
        """The row ids of a fragment, by offset."""
        meta = self._fragment(fragment).handle.metadata.row_id_meta
        found: Addresses = RowIdSequence.from_inline_metadata(meta).to_pyarrow().to_numpy()
        return found

    def _fragment(self, number: int) -> Fragment:
        found = self.fragments.get(number)
        if found is None:
            raise self._missing(1)
        return found

    def _missing(self, count: int) -> StorageFailure:
        text = f"{count} of the rows that were asked for by address are not there"
        return StorageFailure(
            FailureKind.NOT_FOUND, StorageCall.TABLE_TAKE.value, self.table.pin.path, text
        )


def _among(addresses: Addresses) -> str:
    return f"{ROW_ADDRESS} IN ({', '.join(map(str, addresses))})"


def _ordered(rows: pa.Table, found: Addresses, wanted: Addresses) -> pa.Table:
    """Rows that were found at some addresses, in the order in which they are wanted."""
    if len(found) == len(wanted) and (found == wanted).all():
        return rows
    order = np.argsort(found)
    places = order[np.searchsorted(found, wanted, sorter=order)]
    return rows.combine_chunks().take(pa.array(places))


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        column if column.type == field.type else pc.cast(column, field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def decode_deletions(name: str, data: bytes) -> Offsets:
    """Return the offsets that a deletion file lists; its name says how it is encoded."""
    if name.endswith(".arrow"):
        column = pa.ipc.open_file(pa.py_buffer(data)).read_all().column(0)
        return np.asarray(column.combine_chunks(), np.uint32)
    # Imported late: small tables never need it.
    from pyroaring import BitMap  # noqa: PLC0415

    return np.frombuffer(BitMap.deserialize(data).to_array(), np.uint32)


def _below_root(uri: str, path: str) -> str:
    """The folder of a table or fork, relative to the root: a root may be spelled in many ways."""
    text = uri.rstrip("/")
    trunk, fork, name = text.rpartition("/tree/")
    return f"{path}{fork}{name}" if trunk.endswith(f"/{path}") else path
