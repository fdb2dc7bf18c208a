"""Reading one pinned version of a table, and a cache of the versions that are open."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from functools import cached_property
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store import tuning
from omnigraph.store.blobs import logical, marked
from omnigraph.store.failures import FailureKind, StorageFailure, lance_errors
from omnigraph.store.integrity.file_checksums import FileChecksums
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import KEY_FILTER, IndexInfo, Pin
from omnigraph.store.versions.gateway import primary_key, tree_path

__all__ = [
    "CREATED_AT",
    "LIST_KEYS_MAX",
    "ROW_ADDRESS",
    "ROW_ID",
    "UPDATED_AT",
    "Table",
    "TableCache",
    "in_list",
    "overflows",
]

T = TypeVar("T")

_ID: Final = "id"
ROW_ID: Final = "_rowid"
ROW_ADDRESS: Final = "_rowaddr"
CREATED_AT: Final = "_row_created_at_version"
UPDATED_AT: Final = "_row_last_updated_at_version"

BATCH_ROWS: Final = 8_192
# How many times fewer rows are read at once when the texts of a batch are too long for it.
_BATCH_DIVISOR: Final = 8
_USE_INDEX: Final = "use_scalar_index"
# What Lance may say of a damaged index: it is not always clear about that.
_MAY_BE_DAMAGE: Final = frozenset(
    {FailureKind.CORRUPT, FailureKind.NOT_FOUND, FailureKind.UNKNOWN, FailureKind.INVALID}
)
# Keys in one IN list: planning a filter costs more than linearly in its length.
LIST_KEYS_MAX: Final = 500


class Table:
    """A pinned version: immutable, safe to share between threads."""

    def __init__(self, pin: Pin, dataset: Any, checksums: FileChecksums | None = None) -> None:
        self.pin = pin
        self.dataset = dataset  # Lance's, for this layer only; never call what changes it
        self._checksums = checksums
        self._is_checked = checksums is None
        self._described: list[Any] | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns."""
        # Lance makes it anew with every call.
        return logical(self.dataset.schema)

    @property
    def has_row_versions(self) -> bool:
        """True if rows keep an identity and know the versions that made and last wrote them."""
        return bool(self.dataset.has_stable_row_ids)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns that are noted as its key."""
        return primary_key(self.schema)

    @property
    def row_count(self) -> int:
        """The number of live rows."""
        return int(self.dataset.count_rows())

    @property
    def data_bytes(self) -> int:
        """The size of the data files in bytes, as far as the table has noted it."""
        files = (file for f in self.dataset.get_fragments() for file in f.metadata.files)
        return sum(int(file.file_size_bytes or 0) for file in files)

    def fragment_ids(self) -> tuple[int, ...]:
        """Name the fragments, ascending."""
        return tuple(sorted(fragment.fragment_id for fragment in self.dataset.get_fragments()))

    def fragment_rows(self) -> tuple[tuple[int, int], ...]:
        """Name the fragments, ascending, with the number of rows that each has left."""
        found = (fragment.metadata for fragment in self.dataset.get_fragments())
        return tuple(sorted((int(item.id), int(item.num_rows)) for item in found))

    def indexes(self) -> tuple[IndexInfo, ...]:
        """Describe the indexes, by name."""
        found = self._call(StorageCall.TABLE_INDEX, self._describe_indexes)
        infos = [
            IndexInfo(
                index.name,
                index.index_type,
                tuple(index.field_names),
                frozenset(f for segment in index.segments for f in segment.fragment_ids),
            )
            for index in found
        ]
        return tuple(sorted(infos, key=lambda info: info.name))

    def damaged_indexes(self) -> frozenset[str]:
        """Name the indexes that have a damaged segment. Reads the files of all of them, once."""
        damaged = self.damaged_segments()
        return frozenset(
            index.name
            for index in self._describe_indexes()
            if any(each.uuid in damaged for each in index.segments)
        )

    def damaged_segments(self) -> frozenset[str]:
        """Name the damaged segments of all indexes by their UUIDs."""
        return self._damaged_segments(self._segments(None))

    def scan(  # noqa: PLR0913
        self,
        columns: Sequence[str] | None = None,
        *,
        filter: str | None = None,
        row_id: bool = False,
        row_address: bool = False,
        versions: bool = False,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int | None = None,
        fragments: Collection[int] | None = None,
        fragments_ahead: int | None = None,
    ) -> pa.RecordBatchReader:
        """Stream rows in storage order.

        Args:
            columns: Which columns; None for all.
            filter: A condition in Lance's SQL.
            row_id: Add the stable identity of each row.
            row_address: Add the place of each row, which deletes and updates name.
            versions: Add the versions in which each row was created and last changed.
            batch_rows: The most rows in one batch.
            batch_bytes: About the most bytes in one batch; a single row may have more.
            fragments: Only the rows of these fragments; None for all.
            fragments_ahead: How many fragments are read at once; None for as many as Lance chooses.
        """
        return self._stream(
            self._columns(columns, versions=versions),
            filter=filter,
            with_row_id=row_id,
            with_row_address=row_address,
            batch_size=batch_rows,
            batch_size_bytes=batch_bytes,
            fragment_readahead=fragments_ahead,
            fragments=None if fragments is None else self._fragments(fragments),
        )

    def read(
        self,
        columns: Sequence[str] | None = None,
        *,
        filter: str | None = None,
        row_id: bool = False,
        row_address: bool = False,
        versions: bool = False,
    ) -> pa.Table:
        """Return what ``scan`` streams, at once."""
        return self._collect(
            self._columns(columns, versions=versions),
            filter=filter,
            with_row_id=row_id,
            with_row_address=row_address,
        )

    def read_described(
        self, columns: Sequence[str], *, filter: str, row_address: bool = False
    ) -> pa.Table:
        """Return rows as ``read`` does, with descriptions of blobs in the place of their values."""
        return self._collect(
            list(columns),
            filter=filter,
            with_row_address=row_address,
            blob_handling="all_descriptions",
        )

    def scan_new_fragments(
        self,
        known: Collection[int],
        columns: Sequence[str] | None = None,
        *,
        versions: bool = False,
    ) -> pa.Table:
        """Return the rows of the fragments that are not known, with identity and address."""
        seen = frozenset(known)
        fresh = [f for f in self.dataset.get_fragments() if f.fragment_id not in seen]
        return self._collect(
            self._columns(columns, versions=versions),
            fragments=fresh,
            with_row_id=True,
            with_row_address=True,
        )

    def read_physical(self, columns: Sequence[str], fragments: Collection[int]) -> pa.Table:
        """Return all rows that fragments were written with, in the order of storage.

        Those that are deleted have no ``_rowaddr``.
        """
        return self._collect(
            list(columns),
            fragments=self._fragments(fragments),
            with_row_id=True,  # Lance demands it
            with_row_address=True,
            scan_in_order=True,
            include_deleted_rows=True,
        ).drop_columns([ROW_ID])

    def prefers_lists(self, column: str, keys: int) -> bool:
        """Decide how rows are found by so many keys: True by IN lists, False by a scan.

        A list has `LIST_KEYS_MAX` keys at most. Every look-up by keys is decided here.
        """
        if keys <= LIST_KEYS_MAX:
            return True
        if keys > self.row_count // tuning.active.listed_share:
            return False
        return any(
            index.index_type != KEY_FILTER and tuple(index.field_names) == (column,)
            for index in self._describe_indexes()
        )

    def locate(self, ids: Sequence[str] | pa.Array) -> pa.Table:
        """Find rows by id: columns ``id``, ``_rowid``, ``_rowaddr``, in storage order.

        Ids that are not there are left out; one that is given twice is found once.
        """
        given = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids, pa.string())
        keys = pc.unique(given.drop_null())
        if not self.prefers_lists(_ID, len(keys)):
            return self._locate_by_scan(keys)
        parts = [
            self._collect(
                [_ID],
                filter=in_list(_ID, keys.slice(start, LIST_KEYS_MAX).to_pylist()),
                with_row_id=True,
                with_row_address=True,
            )
            for start in range(0, len(keys), LIST_KEYS_MAX)
        ]
        return pa.concat_tables(parts) if parts else self._nothing()

    def take(self, row_ids: Sequence[int] | pa.Array, columns: Sequence[str]) -> pa.Table:
        """Return rows by identity, in the order asked for.

        Raises:
            StorageFailure: NOT_FOUND when one is missing, since a gap would shift the others.
        """
        wanted = row_ids.to_pylist() if hasattr(row_ids, "to_pylist") else list(row_ids)
        if not wanted:
            return pa.schema([self.schema.field(name) for name in columns]).empty_table()

        def take() -> pa.Table:
            self.check(StorageCall.TABLE_TAKE, None)
            return self._take(wanted, list(columns))

        found = self._call(StorageCall.TABLE_TAKE, take)
        if found.num_rows != len(wanted):
            text = f"{len(wanted) - found.num_rows} of {len(wanted)} rows are gone"
            raise StorageFailure(
                FailureKind.NOT_FOUND, StorageCall.TABLE_TAKE.value, self.pin.path, text
            )
        return found

    def _take(self, wanted: list[int], columns: list[str]) -> pa.Table:
        try:
            return self.dataset._take_rows(wanted, columns=columns)
        except (OSError, ValueError) as error:
            if not overflows(error) or len(wanted) < 2:
                raise
        half = len(wanted) // 2
        parts = [self._take(part, columns) for part in (wanted[:half], wanted[half:])]
        return pa.concat_tables(parts)

    def _columns(self, columns: Sequence[str] | None, *, versions: bool) -> list[str]:
        names = list(self.schema.names if columns is None else columns)
        return [*names, CREATED_AT, UPDATED_AT] if versions else names

    def _fragments(self, wanted: Collection[int]) -> list[Any]:
        """Lance's handles of some fragments, in the order in which a scan meets them."""
        ids = frozenset(wanted)
        found = [f for f in self.dataset.get_fragments() if f.fragment_id in ids]
        if len(found) != len(ids):
            missing = sorted(ids.difference(f.fragment_id for f in found))
            raise StorageFailure(
                FailureKind.NOT_FOUND,
                StorageCall.TABLE_SCAN.value,
                self.pin.path,
                f"this version has no fragments {missing}",
            )
        return found

    def _locate_by_scan(self, keys: pa.Array) -> pa.Table:
        reader = self._stream([_ID], with_row_id=True, with_row_address=True, batch_size=65_536)
        batches = [
            batch.filter(pc.is_in(batch.column(0), value_set=keys.cast(batch.schema.types[0])))
            for batch in reader
        ]
        return pa.Table.from_batches(batches, reader.schema)

    def _nothing(self) -> pa.Table:
        field = self.schema.field(_ID)
        ids = [pa.field(ROW_ID, pa.uint64()), pa.field(ROW_ADDRESS, pa.uint64())]
        return pa.schema([field, *ids]).empty_table()

    def _collect(self, columns: list[str], **options: Any) -> pa.Table:
        def read() -> pa.Table:
            self.check(StorageCall.TABLE_SCAN, options.get("fragments"))
            try:
                return self._scanner(columns, options).to_table()
            except (OSError, ValueError) as error:
                if not overflows(error):
                    raise
            stream = self._stream(columns, batch_size=BATCH_ROWS // _BATCH_DIVISOR, **options)
            return stream.read_all()

        return self._without_damaged_index(options, read)

    def _stream(self, columns: list[str], **options: Any) -> pa.RecordBatchReader:
        def start() -> pa.RecordBatchReader:
            self.check(StorageCall.TABLE_SCAN, options.get("fragments"))
            return self._scanner(columns, {"scan_in_order": True, **options}).to_reader()

        reader = self._without_damaged_index(options, start)
        batches = self._batches(reader, columns, {"batch_size": BATCH_ROWS, **options})
        return pa.RecordBatchReader.from_batches(reader.schema, batches)

    def _scanner(self, columns: list[str], options: dict[str, Any]) -> Any:
        # Of a named column of blobs the values are read; Lance's default is descriptions of them.
        if marked(self.dataset.schema).intersection(columns):
            options = {"blob_handling": "all_binary", **options}
        if _USE_INDEX not in options and self._damaged_segments(self._segments(options)):
            options = {**options, _USE_INDEX: False}
        return self.dataset.scanner(columns=columns, **options)

    def _describe_indexes(self) -> list[Any]:
        """The indexes in Lance's words; a version never changes, so it is asked once."""
        if self._described is None:
            with lance_errors(StorageCall.TABLE_INDEX.value, self.pin.path):
                self._described = list(self.dataset.describe_indices())
        return self._described

    def _segments(self, options: dict[str, Any] | None) -> list[Any]:
        """The segments of all indexes, or of those that a scan with some options may use."""
        condition = "" if options is None else options.get("filter")
        if condition is None or self._checksums is None:
            return []
        return [
            segment
            for index in self._describe_indexes()
            if options is None or any(name in condition for name in index.field_names)
            for segment in index.segments
        ]

    def _damaged_segments(self, segments: Sequence[Any]) -> frozenset[str]:
        if self._checksums is None or not segments:
            return frozenset()
        place = tree_path(self.pin.path, self.pin.branch)
        return self._checksums.indexes.damaged(place, self.dataset, segments)

    def _without_damaged_index(self, options: dict[str, Any], action: Callable[[], T]) -> T:
        """Call an action; once more without indexes, by its options, if they may be to blame."""
        try:
            return self._call(StorageCall.TABLE_SCAN, action)
        except StorageFailure as failure:
            suspects = self._suspects(failure, options)
            if not suspects:
                raise
            options[_USE_INDEX] = False
            found = self._call(StorageCall.TABLE_SCAN, action)
            self._condemn(suspects, failure)
            return found

    def _suspects(self, failure: StorageFailure, options: dict[str, Any]) -> frozenset[str]:
        """The segments that may be to blame for a failed scan."""
        if failure.kind not in _MAY_BE_DAMAGE or _USE_INDEX in options:
            return frozenset()
        return frozenset(str(each.uuid) for each in self._segments(options))

    def _condemn(self, suspects: frozenset[str], failure: StorageFailure) -> None:
        """Note that a scan failed with some segments and succeeded without them."""
        if self._checksums is not None:
            self._checksums.indexes.condemn(self.pin.path, suspects, failure.text)

    def check(self, call: StorageCall, chosen: Sequence[Any] | None = None) -> None:
        """Compare the data files of some fragments, or of all, with their checksums, once.

        Everything here that reads rows does it first; callers that use Lance's handle must, too.
        """
        if self._is_checked or self._checksums is None:
            return
        fragments = self.dataset.get_fragments() if chosen is None else chosen
        place = tree_path(self.pin.path, self.pin.branch)
        found = (fragment.metadata for fragment in fragments)
        self._checksums.check(call.value, place, self.dataset, found)
        self._is_checked = chosen is None

    def _batches(
        self, reader: pa.RecordBatchReader, columns: list[str], options: dict[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        done, suspects, blamed = 0, frozenset[str](), None
        while True:
            try:
                # Reading goes on after `scan` has returned; errors are translated as there.
                with lance_errors(StorageCall.TABLE_SCAN.value, self.pin.path):
                    for batch in _from_row(reader, done):
                        done += batch.num_rows
                        yield batch
                if blamed is not None:
                    self._condemn(suspects, blamed)
                return
            except StorageFailure as failure:
                options = {**options, "scan_in_order": True}
                if overflows(failure.__cause__) and options["batch_size"] > 1:
                    # The texts of one batch are too long for its offsets: from here fewer at once.
                    options["batch_size"] = max(1, options["batch_size"] // _BATCH_DIVISOR)
                elif suspects := self._suspects(failure, options):
                    options[_USE_INDEX], blamed = False, failure
                else:
                    raise
            with lance_errors(StorageCall.TABLE_SCAN.value, self.pin.path):
                reader = self._scanner(columns, options).to_reader()

    def _call(self, call: StorageCall, action: Callable[[], T]) -> T:
        return storage_call(call, self.pin.path, action)


def overflows(error: BaseException | None) -> bool:
    """True if Lance says that a batch has more text than its 32-bit offsets reach."""
    return "Offset overflow error" in str(error)


def _from_row(reader: pa.RecordBatchReader, first: int) -> Iterator[pa.RecordBatch]:
    """The batches of a reader without its first rows."""
    for batch in reader:
        if first >= batch.num_rows:
            first -= batch.num_rows
            continue
        yield batch.slice(first) if first else batch
        first = 0


def in_list(column: str, keys: Iterable[str]) -> str:
    """Spell the condition that a column has one of some texts."""
    return f"{quoted(column)} IN ({', '.join(map(literal, keys))})"


def literal(text: str) -> str:
    """Spell a text as a literal of Lance's SQL."""
    return "'" + text.replace("'", "''") + "'"


def quoted(column: str) -> str:
    """Spell a column name so that letters and keywords mean nothing special."""
    return "`" + column.replace("`", "``") + "`"


class TableCache:
    """A cache of open versions, by their pins. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: OrderedDict[Pin, Table] = OrderedDict()

    def get(self, pin: Pin) -> Table | None:
        """Return a version that is open."""
        with self._lock:
            found = self._tables.get(pin)
            if found is not None:
                self._tables.move_to_end(pin)
            return found

    def keep(self, table: Table) -> None:
        """Keep a version, in the place of one with the same pin."""
        with self._lock:
            self._tables[table.pin] = table
            self._tables.move_to_end(table.pin)
            while len(self._tables) > tuning.active.open_tables_max:
                self._tables.popitem(last=False)

    def forget(self, path: str, branch: str) -> None:
        """Drop the versions of a fork."""
        with self._lock:
            for pin in [p for p in self._tables if p.path == path and p.branch == branch]:
                del self._tables[pin]

    def drop(self, path: str, versions: Set[tuple[str | None, int]]) -> None:
        """Drop some versions of a table, each named by its fork and its number."""
        with self._lock:
            gone = [p for p in self._tables if p.path == path and (p.branch, p.version) in versions]
            for pin in gone:
                del self._tables[pin]

    def clear(self) -> None:
        """Drop all of them."""
        with self._lock:
            self._tables.clear()
