"""All calls of Lance: opening, writing and committing, with the settings that make commits strict.

Every commit here has ``max_retries=0`` and no ``commit_lock``; nothing else in the package commits.
Lance's objects are ``Any`` on purpose: its types are partial, and they never leave the layer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import lance
import pyarrow as pa
from lance import LanceOperation
from lance import debug as lance_debug
from lance.fragment import write_fragments
from lance.lance import _Session

from omnigraph.store import tuning
from omnigraph.store.blobs import marked, stored
from omnigraph.store.failures import FailureKind, StorageFailure, damage_behind
from omnigraph.store.integrity.version_checksums import damage_of
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import Pin
from omnigraph.store.root import Root
from omnigraph.store.versions.base_paths import RecordedPaths
from omnigraph.store.versions.files import manifest_name
from omnigraph.store.versions.latest import noted_head
from omnigraph.store.versions.strict_commit import ExactVersion

__all__ = [
    "PRIMARY_KEY",
    "CommittedTransaction",
    "Dataset",
    "Fragment",
    "Gateway",
    "Transaction",
    "annotated",
    "operation_name",
    "primary_key",
    "read_commit",
    "transaction",
    "transaction_uuid",
    "tree_path",
]

Dataset: TypeAlias = Any
Fragment: TypeAlias = Any
Transaction: TypeAlias = Any

STORAGE_VERSION: Final = "2.2"
PRIMARY_KEY: Final = {"lance-schema:unenforced-primary-key": "true"}
# How many random numbers of 63 bits are tried; none at all with fewer than one.
_NUMBERS_TRIED_MAX: Final = 2
_OPERATION: Final = re.compile(r"operation: (\w+)")
_COMMIT: Final = re.compile(r'read_version: (\d+),\s*uuid: "([^"]*)"')


def tree_path(path: str, branch: str | None) -> str:
    """Return the folder that holds a fork of a table; the table's own folder for its trunk."""
    return path if branch is None else f"{path}/tree/{branch}"


class Gateway:
    """Lance below one root, with one shared session. Thread-safe: handles are never mutated."""

    def __init__(self, root: Root, *, index_cache_bytes: int, metadata_cache_bytes: int) -> None:
        self._root = root
        self._options: dict[str, str] | None = dict(root.storage_options) or None
        self._session = _Session(
            index_cache_size_bytes=index_cache_bytes,
            metadata_cache_size_bytes=metadata_cache_bytes,
        )
        self._block_bytes = tuning.active.local_block_bytes if root.is_local else None
        self._anchor: Dataset | None = None
        self._recorded = RecordedPaths(root)

    def open(self, path: str, version: int | None, branch: str | None = None) -> Dataset:
        """Open a version, or the newest one. A fork is opened as the table in its own folder."""
        place = tree_path(path, branch)
        if version is None and self._root.is_local:
            version = noted_head(self._root.local_path / place / "_versions")
        if version is not None:
            self._check(place, version)
        dataset = self._opened(place, version)
        if version is None:
            self._check(place, int(dataset.version))
        if branch is not None:
            self._recorded.check(dataset, path)
        # The session forgets its connections with the last handle; making them anew takes longer
        # than any call. So one handle, of whatever table, is always kept.
        self._anchor = dataset
        return dataset

    def _opened(self, place: str, version: int | None) -> Dataset:
        try:
            return lance.dataset(
                self._root.join(place),
                version=version,
                block_size=self._block_bytes,
                storage_options=self._options,
                session=self._session,
            )
        except BaseException as error:
            reason = None if version is None else damage_behind(error, StorageCall.TABLE_OPEN)
            if version is None or reason is None:
                raise
            name = f"{place}/_versions/{manifest_name(version)}"
            verb = StorageCall.TABLE_OPEN.value
            raise StorageFailure(FailureKind.CORRUPT, verb, name, reason) from error

    def _check(self, place: str, version: int) -> None:
        """Refuse a version file that does not have its checksum."""
        if not self._root.is_local:
            return
        name = f"{place}/_versions/{manifest_name(version)}"
        reason = damage_of(self._root.local_path / name)
        if reason is not None:
            raise StorageFailure(FailureKind.CORRUPT, StorageCall.TABLE_OPEN.value, name, reason)

    def release(self) -> None:
        """Release the handle that keeps connections alive; the next one to open is kept again."""
        self._anchor = None

    def write_new(self, path: str, rows: pa.Table, *, row_ids: bool) -> Transaction:
        """Write the first rows of a table that is to be created."""
        return write_fragments(
            stored(rows, marked(rows.schema)),
            self._root.join(path),
            mode="create",
            return_transaction=True,
            max_rows_per_file=tuning.active.file_rows_max,
            enable_stable_row_ids=row_ids,
            data_storage_version=STORAGE_VERSION,
            storage_options=self._options,
        )

    def write_rows(self, dataset: Dataset, rows: Any) -> list[Fragment]:
        """Write rows into new fragments of a table. Nothing refers to them yet."""
        content = stored(rows, marked(dataset.schema))
        most = tuning.active.file_rows_max
        return list(write_fragments(content, dataset, mode="append", max_rows_per_file=most))

    def write_replacement(self, dataset: Dataset, rows: Any) -> Transaction:
        """Write rows that are to replace everything, with a schema of their own."""
        return write_fragments(
            stored(rows, marked(rows.schema)),
            dataset,
            mode="overwrite",
            return_transaction=True,
            max_rows_per_file=tuning.active.file_rows_max,
            enable_stable_row_ids=True,
            data_storage_version=STORAGE_VERSION,
        )

    def empty(self, schema: pa.Schema) -> Transaction:
        """Describe the first version of a table without rows; nothing is written for it."""
        columns = stored(schema.empty_table(), marked(schema)).schema
        return lance.Transaction(read_version=0, operation=LanceOperation.Overwrite(columns, []))

    def create(
        self, path: str, transaction: Transaction, exact: ExactVersion | None, *, row_ids: bool
    ) -> Dataset:
        """Commit the first version; with retries a stale create would overwrite the winner."""
        commit: Any = lance.LanceDataset.commit
        return commit(
            self._root.join(path),
            transaction,
            max_retries=0,
            enable_stable_row_ids=row_ids,
            storage_options=self._options,
            **({} if exact is None else _placed_by(exact)),
        )

    def clone(self, place: str, at: Pin, *, branch: str, uuid: str) -> None:
        """Write the first version of a fork into a folder: what ``create_branch`` does first."""
        source = self.open(at.path, at.version, at.branch)
        operation = LanceOperation.Clone(
            is_shallow=True,
            ref_name=at.branch,
            ref_version=at.version,
            ref_path=self._root.join(tree_path(at.path, at.branch)),
            branch_name=branch,
        )
        lance.LanceDataset.commit(
            self._root.join(place),
            transaction(expected=at.version, operation=operation, uuid=uuid),
            max_retries=0,
            enable_stable_row_ids=source.has_stable_row_ids,
            storage_options=self._options,
        )

    def commit(self, base: Dataset, transaction: Transaction, exact: ExactVersion) -> Dataset:
        """Commit on top of a handle, as exactly the version that was announced."""
        commit: Any = lance.LanceDataset.commit
        return commit(base, transaction, max_retries=0, **_placed_by(exact))

    def draft(self, base: Dataset, transaction: Transaction) -> Dataset:
        """Commit beside the history: a version that is no head and has a random number."""
        return lance.LanceDataset.commit(
            base, transaction, detached=True, max_retries=_NUMBERS_TRIED_MAX
        )


def _placed_by(exact: ExactVersion) -> dict[str, Any]:
    """Return the arguments by which Lance leaves it to us to place a version."""
    return {
        "namespace_client": exact,
        "table_id": ["table"],
        "namespace_client_managed_versioning": True,
    }


def transaction(
    *,
    expected: int,
    operation: Any,
    uuid: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Transaction:
    """Name an operation, so that it can be found again in the history; by default at random."""
    name = {} if uuid is None else {"uuid": uuid}
    return lance.Transaction(
        read_version=expected,
        operation=operation,
        transaction_properties=dict(properties or {}),
        **name,
    )


@dataclass(frozen=True, slots=True)
class CommittedTransaction:
    """The part of a committed transaction that names it."""

    uuid: str
    read_version: int


def read_commit(dataset: Dataset, place: str) -> CommittedTransaction | None:
    """Return the transaction that made the version of this handle."""

    def read() -> CommittedTransaction | None:
        try:
            # On a handle of its own: this call locks the handle against all readers.
            found = dataset.checkout_version(dataset.version).read_transaction(dataset.version)
        except TypeError:
            # pylance cannot rebuild the compaction of an indexed table; its text can be read.
            match = _COMMIT.search("".join(map(str, lance_debug.list_transactions(dataset, 1))))
            return CommittedTransaction(match[2], int(match[1])) if match else None
        return (
            None
            if found is None
            else CommittedTransaction(str(found.uuid), int(found.read_version))
        )

    return storage_call(StorageCall.TABLE_TRANSACTION, place, read)


def operation_name(dataset: Dataset, place: str) -> str | None:
    """Return what the commit did that made the version of this handle, as Lance names it."""

    def read() -> str | None:
        # By its text: of some operations pylance makes objects without a name.
        match = _OPERATION.search("".join(map(str, lance_debug.list_transactions(dataset, 1))))
        return match[1] if match else None

    return storage_call(StorageCall.TABLE_TRANSACTION, place, read)


def transaction_uuid(dataset: Dataset, place: str) -> str | None:
    """Return the identity of the commit that made the version of this handle."""
    commit = read_commit(dataset, place)
    return None if commit is None else commit.uuid


def annotated(
    schema: pa.Schema, primary_key: str | None, metadata: Mapping[str, str] | None
) -> pa.Schema:
    """Return a schema with a primary key and with metadata, where they are given."""
    if metadata is not None:
        schema = schema.with_metadata(dict(metadata))
    if primary_key is None:
        return schema
    position = schema.get_field_index(primary_key)
    field = schema.field(position)
    noted = field.with_nullable(False).with_metadata({**(field.metadata or {}), **PRIMARY_KEY})
    return schema.set(position, noted)


def primary_key(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that a schema notes as its key."""
    (name,) = PRIMARY_KEY
    return tuple(field.name for field in schema if name.encode() in (field.metadata or {}))
