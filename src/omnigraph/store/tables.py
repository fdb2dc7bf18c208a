"""Tables of a graph: pinned reading, staging, strict landing, forks.

``Tables`` is the whole gateway in one object; the modules beside it do the work. Readers pin
explicit versions. Staging writes files that nothing refers to; only ``create``, ``land``,
``restore``, ``merge_rows`` and ``stamp`` move a head, and all of them are durable
on return.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.errors import Code, InvalidInput
from omnigraph.runtime.clock import Clock, SystemClock
from omnigraph.store import tuning
from omnigraph.store.blobs import blob_field
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.integrity.quarantine import SetAside
from omnigraph.store.io.objects import Backend, checked_path, open_backend
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import (
    KEY_FILTER,
    Btree,
    DeletionReceipt,
    ForkInfo,
    FragmentReceipt,
    Fts,
    IndexInfo,
    IndexKind,
    IndexSpec,
    KeyFilter,
    Pin,
    Staged,
    StagedKind,
    Vector,
    WrittenBy,
)
from omnigraph.store.pinned_tables import PinnedTables
from omnigraph.store.root import Root
from omnigraph.store.table import Table
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import (
    Gateway,
    tree_path,
)
from omnigraph.store.versions.latest import is_passed
from omnigraph.store.versions.strict_commit import Placer, open_placer
from omnigraph.store.writing.create import NewTable, TableCreator
from omnigraph.store.writing.land import Lander
from omnigraph.store.writing.merge_insert import RowMerger
from omnigraph.store.writing.stage import Stager

if TYPE_CHECKING:
    from omnigraph.store.maintenance.inventory import Inventories, StoredVersion
    from omnigraph.store.maintenance.orphan_files import OrphanFiles
    from omnigraph.store.maintenance.tasks import Maintenance
    from omnigraph.store.writing.alter import Alterer
    from omnigraph.store.writing.copy_fragments import FragmentCopier

__all__ = [
    "KEY_FILTER",
    "Btree",
    "DeletionReceipt",
    "ForkInfo",
    "FragmentReceipt",
    "Fts",
    "IndexInfo",
    "IndexKind",
    "IndexSpec",
    "KeyFilter",
    "Pin",
    "SetAside",
    "Staged",
    "StagedKind",
    "Table",
    "Tables",
    "Vector",
    "WrittenBy",
    "blob_field",
    "open_tables",
]


def open_tables(
    root: Root,
    *,
    durable: bool = True,
    clock: Clock | None = None,
) -> "Tables":
    """Open the tables below a root.

    Args:
        root: The place: local or S3.
        durable: On local disk, sync what a write created before returning from it.
        clock: Measures how long a commit took.
    """
    if root.is_memory:
        raise InvalidInput(Code.INPUT_INVALID, "tables cannot live in memory", uri=root.uri)
    bounds = tuning.active
    gateway = Gateway(
        root,
        index_cache_bytes=bounds.index_cache_bytes,
        metadata_cache_bytes=bounds.metadata_cache_bytes,
    )
    files = Files(root, durable=durable)
    backend = open_backend(root, durable=durable)
    placer = open_placer(root, files)
    return Tables(root, gateway, files, placer, backend, clock or SystemClock())


class Tables(PinnedTables):
    """The tables of one root. Thread-safe."""

    def __init__(
        self,
        root: Root,
        gateway: Gateway,
        files: Files,
        placer: Placer,
        backend: Backend,
        clock: Clock,
    ) -> None:
        super().__init__(root, gateway, files, backend)
        self._stager = Stager(root, gateway, files, self._addressed.once)
        self._merger = RowMerger(self._stager, files)
        clear, passed = self._torn.clear_way, partial(is_passed, backend)
        self._lander = Lander(gateway, files, placer, self.open, clear, passed, clock)
        self._creator = TableCreator(
            gateway, files, placer, self._torn, self.exists, self.transaction_uuid
        )

    # ------------------------------------------------------------ parts that reading imports not

    @cached_property
    def alterer(self) -> "Alterer":
        """Changes the columns of tables."""
        from omnigraph.store.writing.alter import Alterer  # noqa: PLC0415

        return Alterer(self._root, self._gateway, self._files, self._stager)

    @cached_property
    def fragment_copier(self) -> "FragmentCopier":
        """Takes over fragments of other tables."""
        from omnigraph.store.writing.copy_fragments import FragmentCopier  # noqa: PLC0415

        return FragmentCopier(self._stager, self._files, self._backend)

    @cached_property
    def maintenance(self) -> "Maintenance":
        """Compacts tables, and builds their indexes."""
        from omnigraph.store.maintenance.tasks import Maintenance  # noqa: PLC0415

        return Maintenance(self._gateway, self._files, self._backend)

    @cached_property
    def leftovers(self) -> "OrphanFiles":
        """Finds the files that no version refers to."""
        from omnigraph.store.maintenance.orphan_files import OrphanFiles  # noqa: PLC0415

        return OrphanFiles(self._backend, self.open)

    @cached_property
    def inventories(self) -> "Inventories":
        """Lists the versions and files of tables."""
        from omnigraph.store.maintenance.inventory import Inventories  # noqa: PLC0415

        return Inventories(self._gateway, self._backend, self._forks, self._root.uri)

    # ------------------------------------------------------------ versions

    def create(
        self,
        path: str,
        schema: pa.Schema,
        *,
        primary_key: str | None = None,
        metadata: Mapping[str, str] | None = None,
        rows: pa.Table | None = None,
        row_ids: bool = True,
    ) -> int:
        """Create a table; EXISTS if there is one. Of racing callers exactly one wins."""
        first = NewTable(schema, primary_key, metadata, rows, row_ids)
        return self._creator.create(path, first)

    def create_empty(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Create several tables without rows at paths of their own; durable on return."""
        self._creator.create_empty(schemas)

    def remove_versions(self, path: str, versions: "Sequence[StoredVersion]") -> None:
        """Remove versions that nothing pins; their files stay until nothing refers to them."""
        self.inventories.remove(item.info.path for item in versions)
        self._cache.drop(path, {(item.branch, item.version) for item in versions})

    # ------------------------------------------------------------ forks

    def fork(self, path: str, branch: str, at: Pin) -> None:
        """Create a fork of a table from a pinned version; EXISTS."""
        checked_path(StorageCall.TABLE_FORK.value, path)
        self.forget_fork(path, branch)
        self._forks.create(path, branch, at)

    def drop_fork(self, path: str, branch: str) -> None:
        """Remove a fork with everything that was written on it; a missing one is fine."""
        checked_path(StorageCall.TABLE_DROP_FORK.value, path)
        try:
            self._forks.drop(path, branch)
        finally:
            self.forget_fork(path, branch)

    def forks(self, path: str) -> dict[str, ForkInfo]:
        """List the forks of a table, by name."""
        return self._forks.all(checked_path(StorageCall.TABLE_FORKS.value, path))

    def fork_info(self, path: str, branch: str) -> ForkInfo | None:
        """Look one fork up; None when there is none. One read, however many forks there are."""
        return self._forks.find(checked_path(StorageCall.TABLE_FORKS.value, path), branch)

    def fork_names(self, path: str) -> tuple[str, ...]:
        """List the names of all forks, sorted."""
        return self._forks.records.names(checked_path(StorageCall.TABLE_FORKS.value, path))

    def has_files_of_fork(self, path: str, branch: str) -> bool:
        """Return whether a fork of this name has files, be it there or not.

        A fork is made and dropped in two steps. When a process dies between them, its files stay,
        and no fork of that name can be made.
        """
        place = tree_path(path, branch)
        return bool(storage_call(StorageCall.OBJECT_LIST, place, lambda: self._backend.list(place)))

    # ------------------------------------------------------------ what power cuts leave

    def set_aside_torn_versions(self, path: str, branch: str | None = None) -> tuple[SetAside, ...]:
        """Set aside the torn versions that finding the head stepped over."""
        return self._torn.set_aside(path, branch)

    def set_aside_torn_records(self, path: str) -> tuple[SetAside, ...]:
        """Set aside the torn records of a table's forks."""
        torn = self._forks.records.torn(checked_path(StorageCall.TABLE_FORKS.value, path))
        taken = [self._forks.set_aside_record(path, branch) for branch in torn]
        return tuple(each for each in taken if each is not None)

    # ------------------------------------------------------------ staging

    def stage(
        self,
        table: Table,
        *,
        inserts: pa.Table | pa.RecordBatchReader | None = None,
        updates: pa.Table | None = None,
        deletes: pa.Table | None = None,
        uuid: str,
        properties: Mapping[str, str] | None = None,
    ) -> Staged | None:
        """Write a change of rows for landing on the version of ``table``.

        Args:
            table: The base.
            inserts: New rows.
            updates: Full rows with ``_rowid`` and ``_rowaddr``; they keep their identity.
            deletes: The ``_rowaddr`` of rows that go.
            uuid: The identity of the commit, findable with ``transaction_uuid``.
            properties: Recorded with the commit.

        Returns:
            The staged change, or None when there is nothing to change.
        """
        return self._stager.stage(
            table,
            inserts=inserts,
            updates=updates,
            deletes=deletes,
            uuid=uuid,
            properties=properties or {},
        )

    def write(
        self,
        table: Table,
        rows: pa.Table | pa.RecordBatchReader,
        *,
        row_ids: Sequence[int] | None = None,
        by: WrittenBy | None = None,
    ) -> tuple[FragmentReceipt, ...]:
        """Write rows into fragments and return the receipts, for ``stage_fragments`` elsewhere."""
        return self._stager.write(table, rows, row_ids, by)

    def fragments_to_compact(self, table: Table) -> frozenset[int]:
        """Name the small fragments that the next change of a table rewrites; usually none."""
        return self._stager.fragments_to_compact(table)

    def delete(
        self, table: Table, addresses: Any, *, held: Collection[int] = ()
    ) -> DeletionReceipt:
        """Write deletion files and return the receipt, for ``stage_fragments`` elsewhere.

        Args:
            table: The base.
            addresses: The rows as numbers of 64 bits, each once; all that go of their fragments.
            held: What ``fragments_to_compact`` names: of their rows only the addresses are given.
        """
        return self._stager.delete(table, addresses, held)

    def stage_fragments(
        self,
        table: Table,
        fragments: Sequence[FragmentReceipt],
        *,
        deletes: pa.Table | None = None,
        deleted: Sequence[DeletionReceipt] = (),
        uuid: str,
        properties: Mapping[str, str] | None = None,
        by: WrittenBy | None = None,
    ) -> Staged | None:
        """Stage what workers wrote, and what becomes of committed rows.

        Args:
            table: The base.
            fragments: The receipts of ``write``.
            deletes: The ``_rowaddr`` of rows that go, the old copies of updated rows included.
            deleted: The same as receipts of ``delete``; no fragment may be named by two.
            uuid: The identity of the commit.
            properties: Recorded with the commit.
            by: The operation, if its files should carry its name.
        """
        return self._stager.stage_fragments(
            table,
            inserts=[receipt for receipt in fragments if not receipt.updates],
            updates=[receipt for receipt in fragments if receipt.updates],
            dead=[] if deletes is None else [deletes.column("_rowaddr")],
            deleted=deleted,
            uuid=uuid,
            properties=properties or {},
            by=by,
        )

    def stage_overwrite(
        self,
        table: Table,
        rows: pa.Table | pa.RecordBatchReader,
        *,
        uuid: str,
        schema: pa.Schema | None = None,
    ) -> Staged:
        """Write rows that replace the whole content, perhaps under a new schema."""
        return self._stager.stage_overwrite(table, rows, uuid=uuid, schema=schema)

    def stage_replacement(
        self, table: Table, fragments: Sequence[FragmentReceipt], *, uuid: str
    ) -> Staged:
        """Stage what workers wrote in the place of the whole content. Schema and all stay."""
        return self._stager.stage_replacement(table, fragments, uuid=uuid)

    def stage_indexes(
        self, table: Table, specs: Sequence[IndexSpec], *, uuid: str
    ) -> Staged | None:
        """Build indexes, all taken into use by one commit. None for a table without rows."""
        from omnigraph.store.maintenance.indexes import stage_indexes  # noqa: PLC0415

        private = self.open_private(table.pin)
        return stage_indexes(self._files, private, specs=specs, uuid=uuid)

    # ------------------------------------------------------------ moving heads

    def land(self, staged: Staged, check: Callable[[], None] | None = None) -> int:
        """Commit a staged change as version ``staged.expected + 1``, or raise CONFLICT.

        ``check`` is called right before the version gets its name; if it raises, nothing lands.
        """
        return self._lander.land(staged, check)

    def restore(
        self, path: str, branch: str | None, *, to_version: int, expected_head: int, uuid: str
    ) -> int:
        """Make an old version the new head, as version ``expected_head + 1``, or CONFLICT."""
        return self._lander.restore(
            path, branch, to_version=to_version, expected_head=expected_head, uuid=uuid
        )

    def merge_rows(
        self,
        base: Pin,
        key: str,
        rows: pa.Table,
        *,
        lookup: Collection[str] | None = None,
    ) -> int:
        """Insert or replace rows by key, as version ``base.version + 1``, or raise CONFLICT.

        Args:
            base: The version that the rows were made for.
            key: The column that identifies a row.
            rows: The rows, with each key once.
            lookup: The keys that the base may have, if the others are known to be new; None for
                all of them. Looking for one that is not there reads the keys of the whole table.
        """
        if not rows.num_rows:
            where = StorageCall.TABLE_COMMIT.value
            raise StorageFailure(FailureKind.INVALID, where, base.path, "no rows")
        keys = rows.column(key).to_pylist()
        wanted = keys if lookup is None else lookup
        return self._lander.land(self._merger.stage(self.open(base), key, rows, wanted))

    def sync(self, path: str, branch: str | None = None) -> None:
        """Make a whole small table durable as its head has it, also files of other writers."""
        self._lander.sync_whole(path, branch)
        if branch is not None:
            self._files.sync(path, self._files.of_fork(path, branch))

    def stamp(self, base: Pin, values: Mapping[str, str], *, primary_key: str | None = None) -> int:
        """Add to what is kept with the schema, as version ``base.version + 1``, or raise CONFLICT.

        Args:
            base: The version that the values were chosen for.
            values: What is added.
            primary_key: A column that becomes the key of the rows.
        """
        return self._lander.stamp(base, dict(values), primary_key)
