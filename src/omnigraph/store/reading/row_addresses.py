"""Reading the rows of one version of a table by their addresses.

An address is the number of a fragment and a place within its data files. Unlike a row id it needs
no index over the table: reading some rows costs the same however large the table is.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store import tuning
from omnigraph.store.blobs import marked
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import Pin
from omnigraph.store.reading.altered_columns import AlteredColumn
from omnigraph.store.reading.data_files import field_names, has_plain_file, rows_of_file
from omnigraph.store.reading.deletion_files import KeptDeletions, Offsets, decode_deletions
from omnigraph.store.reading.row_ids import FragmentRowIds, row_ids_of
from omnigraph.store.table import BATCH_ROWS, ROW_ADDRESS, Table, overflows

__all__ = [
    "FRAGMENT_BITS",
    "AddressedRows",
    "AddressedRowsCache",
    "Addresses",
    "Fragment",
]

Addresses = npt.NDArray[np.uint64]

FRAGMENT_BITS: Final = 32
OFFSET_MASK: Final = np.uint64((1 << FRAGMENT_BITS) - 1)
# So many offsets are sooner looked up one by one than by a mark for each row of a fragment.
_SEARCHED_MAX: Final = 2_048
_NONE_DELETED: Final[Offsets] = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """A fragment of one version.

    Attributes:
        handle: Lance's handle.
        id: Its number within the version.
        rows: The number of rows that are left.
        gone: The number of rows that are deleted.
        start: The number of rows that are left in the fragments before it.
        files: The names of its data files below the root.
        deletions: The name of its deletion file; None when no row is deleted.
    """

    handle: Any
    id: int
    rows: int
    gone: int
    start: int
    files: tuple[str, ...]
    deletions: str | None

    @property
    def whole_file_share(self) -> int:
        """One in so many rows is dearer to take than the columns of all rows are to decode."""
        size = sum(int(file.file_size_bytes or 0) for file in self.handle.metadata.files)
        width = max(1, size // max(1, self.rows + self.gone))
        active = tuning.active
        share = min(active.whole_file_share, active.decoded_block_bytes // width)
        return max(active.scanned_share, share) if size else active.scanned_share

    def left(self, deleted: Offsets) -> Addresses:
        """Return the addresses of the rows that are left, given the offsets of the others."""
        is_left = np.ones(self.rows + self.gone, bool)
        is_left[deleted] = False
        return self.addresses(np.flatnonzero(is_left))

    def addresses(self, offsets: npt.NDArray[Any]) -> Addresses:
        """Return the addresses of the rows at some offsets."""
        return offsets.astype(np.uint64) + np.uint64(self.id << FRAGMENT_BITS)


class _Access(Enum):
    """The ways to read some rows of a fragment; they differ in what they cost."""

    SCAN = 1  # all of its rows
    FROM_FRAGMENT = 2
    FROM_TABLE = 3  # with rows of other fragments
    FROM_FILE = 4  # past the fragment
    WHOLE_FILE = 5  # the same, all rows


def _access_to(fragment: Fragment, count: int, *, has_file: bool, is_plain: bool) -> _Access:
    """The cheapest way to read so many rows of a fragment, whose file may be read by itself.

    A row that is taken costs the block in which it lies, so many rows of a narrow file cost more
    than all of them. For each row, a fragment goes through the list of its deleted rows, which
    takes long once there are many. A table looks a row up in a bitmap of them, and does so even
    more slowly in a list.

    Args:
        fragment: The fragment.
        count: The number of its rows that are wanted.
        has_file: One file has all columns of it, which can be read past the fragment.
        is_plain: The columns that are wanted have numbers, times or the like.
    """
    active = tuning.active
    is_bitmap = fragment.deletions is not None and not fragment.deletions.endswith(".arrow")
    if has_file and count > active.taken_rows_min:
        share = active.whole_file_share if is_plain else fragment.whole_file_share
        if count * share > fragment.rows + fragment.gone:
            return _Access.WHOLE_FILE
    share = active.scanned_share_deleted if is_bitmap and not has_file else active.scanned_share
    if count > active.taken_rows_min and count * share > fragment.rows:
        return _Access.SCAN
    if has_file and count * fragment.gone > active.passed_deletions_max:
        return _Access.FROM_FILE
    if is_bitmap or (not fragment.gone and count <= active.taken_rows_min):
        return _Access.FROM_TABLE
    return _Access.FROM_FRAGMENT


class AddressedRows:
    """The rows of one version of a table. Thread-safe: what is kept of them never changes."""

    def __init__(
        self,
        table: Table,
        read: Callable[[str], bytes],
        deletions: KeptDeletions | None = None,
    ) -> None:
        """Read this version.

        Args:
            table: The version.
            read: Returns the content of a file below the root.
            deletions: What is known of deletion files.
        """
        self.table = table
        self.read_file = read
        self.deletions = KeptDeletions() if deletions is None else deletions
        self._kept: pa.Table | None = None
        self._row_ids: dict[int, FragmentRowIds] = {}

    @cached_property
    def fragments(self) -> dict[int, Fragment]:
        """The fragments, by number."""
        dataset, path = self.table.dataset, self.table.pin.path
        bases = {None: _below_root(str(dataset.uri), path)}
        found: dict[int, Fragment] = {}
        start = 0
        for handle in dataset.get_fragments():
            metadata = handle.metadata
            deletions = metadata.deletion_file
            ids = {file.base_id for file in metadata.files}
            if deletions is not None:
                ids.add(deletions.base_id)
            if not ids <= bases.keys():
                recorded = dataset.base_paths().items()
                bases |= {key: _below_root(str(base.path), path) for key, base in recorded}
            names = tuple(f"{bases[file.base_id]}/data/{file._path}" for file in metadata.files)
            place = None
            if deletions is not None:
                place = f"{bases[deletions.base_id]}/{deletions.path(metadata.id)}"
            number, rows = int(metadata.id), int(metadata.num_rows)
            gone = int(metadata.num_deletions)
            found[number] = Fragment(handle, number, rows, gone, start, names, place)
            start += rows
        return found

    def deleted(self, fragment: Fragment) -> Offsets:
        """Return the offsets of the deleted rows of a fragment, ascending."""
        name = fragment.deletions
        if name is None:
            return _NONE_DELETED
        found = self.deletions.get(name)
        if found is None:
            found = self._read_deletions(fragment, name)
            self.deletions.keep(name, found)
        return found

    def _read_deletions(self, fragment: Fragment, name: str) -> Offsets:
        self.table.check(StorageCall.TABLE_SCAN, [fragment.handle])
        data = storage_call(StorageCall.TABLE_SCAN, name, lambda: self.read_file(name))
        return decode_deletions(name, data)

    # ------------------------------------------------------------ rows

    @property
    def alteration(self) -> tuple[AlteredColumn, ...] | None:
        """The columns that are shown in the place of the stored ones; None for those."""
        return None

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
        distinct = ascending(wanted)
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
        order = np.argsort(rows.column(ROW_ADDRESS).to_numpy(), kind="stable")
        is_ordered = (order[1:] > order[:-1]).all()
        self._kept = rows.combine_chunks() if is_ordered else rows.take(pa.array(order))

    def _among_kept(self, wanted: Addresses, names: list[str]) -> pa.Table | None:
        kept = self._kept
        if kept is None or not set(names) <= set(kept.column_names):
            return None
        addresses = kept.column(ROW_ADDRESS).to_numpy()
        places = np.searchsorted(addresses, wanted)
        if places.max() >= len(addresses) or (addresses[places] != wanted).any():
            return None
        rows = kept.select(names)
        is_whole = len(wanted) == len(addresses) and (places[1:] > places[:-1]).all()
        return rows if is_whole else rows.take(pa.array(places))

    def _parts(self, distinct: Addresses, names: list[str]) -> list[tuple[Addresses, pa.Table]]:
        """Rows, with their addresses."""
        scanned: list[int] = []
        together: list[int] = []
        parts: list[tuple[Addresses, pa.Table]] = []
        owners, mine = _by_fragment(distinct)
        is_plain = all(pa.types.is_primitive(self.table.schema.field(name).type) for name in names)
        for fragment, part in zip(map(self._fragment, owners), mine, strict=True):
            has_file = self._has_file(fragment)
            way = _access_to(fragment, len(part), has_file=has_file, is_plain=is_plain)
            match way:
                case _Access.SCAN:
                    scanned.append(fragment.id)
                case _Access.FROM_TABLE:
                    together.append(fragment.id)
                case _Access.FROM_FRAGMENT:
                    parts.append((part, self._take([fragment], [part], names, fragment.handle)))
                case _Access.FROM_FILE | _Access.WHOLE_FILE:
                    is_whole = way is _Access.WHOLE_FILE
                    found = self._from_file(fragment, part, names, is_whole=is_whole)
                    if found is None:
                        found = self._take([fragment], [part], names, fragment.handle)
                    parts.append((part, found))
        chosen = dict(zip(owners, mine, strict=True))
        if together:
            wanted = [chosen[number] for number in together]
            fragments = [self.fragments[number] for number in together]
            found = self._take(fragments, wanted, names, self.table.dataset)
            parts.append((np.concatenate(wanted), found))
        if scanned:
            wanted = [chosen[number] for number in scanned]
            parts.append(self._scan(scanned, np.concatenate(wanted), names))
        return parts

    def _described(self, distinct: Addresses, names: list[str]) -> list[tuple[Addresses, pa.Table]]:
        """Rows with descriptions of blobs, which Lance does not take from a fragment."""
        parts = []
        for start in range(0, len(distinct), tuning.active.filter_addresses):
            condition = _among(distinct[start : start + tuning.active.filter_addresses])
            rows = self.table.read_described(names, filter=condition, row_address=True)
            parts.append((rows.column(ROW_ADDRESS).to_numpy(), rows.select(names)))
        return parts

    def _take(
        self,
        fragments: Sequence[Fragment],
        addresses: Sequence[Addresses],
        columns: list[str],
        source: Any,
    ) -> pa.Table:
        """Rows of some fragments from the table, or of one from the fragment itself."""
        places = []
        for fragment, mine in zip(fragments, addresses, strict=True):
            offsets = (mine & OFFSET_MASK).astype(np.int64)
            # Lance counts the rows that are left.
            left = offsets - self._deleted_before(fragment, offsets)
            places.append(left if source is fragment.handle else left + fragment.start)
        self.table.check(StorageCall.TABLE_TAKE, [each.handle for each in fragments])

        def take(part: list[int]) -> pa.Table:
            try:
                return source.take(part, columns=columns)
            except (OSError, ValueError) as error:
                if not overflows(error) or len(part) < 2:
                    raise
            half = len(part) // 2
            return pa.concat_tables([take(part[:half]), take(part[half:])])

        wanted = np.concatenate(places).tolist()
        return storage_call(StorageCall.TABLE_TAKE, self.table.pin.path, partial(take, wanted))

    @cached_property
    def _local_root(self) -> str | None:
        """The folder of the graph; None unless it lies on this machine."""
        trunk = str(self.table.dataset.uri).rstrip("/").partition("/tree/")[0]
        below = f"/{self.table.pin.path}"
        return trunk.removesuffix(below) if "://" not in trunk and trunk.endswith(below) else None

    @cached_property
    def _field_names(self) -> dict[int, str]:
        return field_names(self.table.dataset.lance_schema.fields())

    def _has_file(self, fragment: Fragment) -> bool:
        """True if a file of this machine has all columns of a fragment."""
        if self._local_root is None:
            return False
        return has_plain_file(fragment.handle.metadata, list(self._field_names))

    def _from_file(
        self, fragment: Fragment, addresses: Addresses, columns: list[str], *, is_whole: bool
    ) -> pa.Table | None:
        """Rows of a fragment from its file, if that can be."""
        offsets = addresses & OFFSET_MASK
        self._deleted_before(fragment, offsets)
        self.table.check(StorageCall.TABLE_TAKE, [fragment.handle])
        place, schema = f"{self._local_root}/{fragment.files[0]}", self.table.dataset.schema
        return storage_call(
            StorageCall.TABLE_TAKE,
            self.table.pin.path,
            lambda: rows_of_file(
                place, offsets, columns, schema, self._field_names, is_whole=is_whole
            ),
        )

    def _deleted_before(self, fragment: Fragment, offsets: npt.NDArray[Any]) -> Any:
        """The number of deleted rows before each of some rows, none of which is deleted."""
        gone = self.deleted(fragment)
        before = np.searchsorted(gone, offsets)
        if len(gone):
            is_gone = gone[np.minimum(before, len(gone) - 1)] == offsets
            if is_gone.any():
                raise self._missing(int(is_gone.sum()))
        return before

    def _scan(
        self, fragments: list[int], addresses: Addresses, columns: list[str]
    ) -> tuple[Addresses, pa.Table]:
        """Read whole fragments, and keep some of their rows; with their addresses."""
        schema = pa.schema([self.table.schema.field(name) for name in columns])
        kept, batches = [np.empty(0, np.uint64)], []
        is_narrow = all(pa.types.is_primitive(field.type) for field in schema)
        batch_rows = tuning.active.read_addresses if is_narrow else BATCH_ROWS
        for batch in self.table.scan(
            columns, row_address=True, fragments=fragments, batch_rows=batch_rows
        ):
            places = batch.column(ROW_ADDRESS).to_numpy()
            chosen = _places_of(addresses, places)
            if len(chosen):
                kept.append(places[chosen])
                batches.append(_plain(batch.select(columns).take(pa.array(chosen)), schema))
        return np.concatenate(kept), pa.Table.from_batches(batches, schema)

    def physical(
        self, fragments: Sequence[Fragment], columns: Sequence[str]
    ) -> tuple[pa.Table, Addresses]:
        """All rows that fragments were written with, deleted or not, and their addresses.

        Fragment by fragment, in the order asked for. Not for blobs.
        """
        numbers = {each.id for each in fragments}
        listed = [each for each in self.fragments.values() if each.id in numbers]
        places = np.concatenate(
            [each.addresses(np.arange(each.rows + each.gone)) for each in listed]
        )
        found = self.table.read_physical(columns, numbers)
        # Lance gives no address for a deleted row; those of the others show that all are in order.
        addresses = found.column(ROW_ADDRESS).combine_chunks()
        is_left = addresses.is_valid().to_numpy(zero_copy_only=False)
        if len(addresses) != len(places):
            raise self._missing(len(places) - len(addresses))
        if (addresses.drop_null().to_numpy() != places[is_left]).any():
            raise self._missing(len(places))
        wanted = np.concatenate(
            [each.addresses(np.arange(each.rows + each.gone)) for each in fragments]
        )
        return _ordered(found.select(columns), places, wanted), wanted

    def row_ids(self, addresses: Addresses) -> Addresses:
        """Return the row ids of some rows, in the order asked for. Reads no data file."""
        owners = (addresses >> np.uint64(FRAGMENT_BITS)).astype(np.int64)
        found = np.empty(len(addresses), np.uint64)
        # Neighbours are mostly of one fragment.
        starts = np.flatnonzero(np.diff(owners, prepend=-1)).tolist()
        for start, end in pairwise([*starts, len(owners)]):
            offsets = addresses[start:end] & OFFSET_MASK
            found[start:end] = self._identities(int(owners[start])).at(offsets)
        return found

    def row_id_range(self, fragment: int) -> tuple[int, int]:
        """The least and the greatest row id of a fragment, deleted rows included."""
        return self._identities(fragment).range()

    def _identities(self, number: int) -> FragmentRowIds:
        """The row ids of a fragment."""
        found = self._row_ids.get(number)
        if found is None:
            meta = self._fragment(number).handle.metadata.row_id_meta
            found = row_ids_of(meta)
            if found.listed is None:
                self._row_ids[number] = found
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


class AddressedRowsCache:
    """The versions that were compared last: a comparison goes on from one of them. Thread-safe."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        """Read files below the root by `read`."""
        self._read = read
        self._lock = threading.Lock()
        self._rows: OrderedDict[Pin, AddressedRows] = OrderedDict()
        self.deletions = KeptDeletions()

    def of(self, table: Table) -> AddressedRows:
        """The rows of a version."""
        with self._lock:
            found = self._rows.pop(table.pin, None)
            # A fork made anew under its old name has the same pins.
            if found is None or found.table is not table:
                found = AddressedRows(table, self._read, self.deletions)
            self._rows[table.pin] = found
            while len(self._rows) > tuning.active.compared_versions_max:
                self._rows.popitem(last=False)
            return found

    def once(self, table: Table) -> AddressedRows:
        """The rows of a version, read without comparing."""
        return AddressedRows(table, self._read, self.deletions)

    def clear(self) -> None:
        """Drop all of them."""
        with self._lock:
            self._rows.clear()
        self.deletions.clear()


def ascending(addresses: Addresses) -> Addresses:
    """Addresses in order, each once. Those that are in order already are not sorted."""
    if (addresses[1:] > addresses[:-1]).all():
        return addresses
    found = np.sort(addresses)
    distinct: Addresses = found[np.append(True, found[1:] != found[:-1])]
    return distinct


def _places_of(addresses: Addresses, found: Addresses) -> npt.NDArray[np.int64]:
    """The places of ascending addresses among others; quickly if those are of one fragment."""
    if not len(found):
        return np.empty(0, np.int64)
    if found[0] >> np.uint64(FRAGMENT_BITS) != found[-1] >> np.uint64(FRAGMENT_BITS):
        return np.flatnonzero(np.isin(found, addresses))
    first, last = np.searchsorted(addresses, [found[0], found[-1]])
    mine = addresses[first : last + 1]
    places = np.minimum(np.searchsorted(found, mine), len(found) - 1)
    chosen: npt.NDArray[np.int64] = places[found[places] == mine]
    return chosen


def _by_fragment(addresses: Addresses) -> tuple[list[int], list[Addresses]]:
    """The fragments of ascending addresses, and the addresses of each."""
    owners = (addresses >> np.uint64(FRAGMENT_BITS)).astype(np.int64)
    starts = np.flatnonzero(np.diff(owners, prepend=-1))
    return owners[starts].tolist(), np.split(addresses, starts[1:])


def without(values: Offsets, others: Offsets) -> Offsets:
    """Ascending offsets that are not among others, which ascend, too."""
    if not len(others) or not len(values):
        return values
    if len(values) > _SEARCHED_MAX:
        is_other = np.zeros(int(max(values[-1], others[-1])) + 1, bool)
        is_other[others] = True
        left: Offsets = values[~is_other[values]]
        return left
    near = np.minimum(np.searchsorted(others, values), len(others) - 1)
    kept: Offsets = values[others[near] != values]
    return kept


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


def _below_root(uri: str, path: str) -> str:
    """The folder of a table or fork, relative to the root: a root may be spelled in many ways."""
    text = uri.rstrip("/")
    trunk, fork, name = text.rpartition("/tree/")
    return f"{path}{fork}{name}" if trunk.endswith(f"/{path}") else path
