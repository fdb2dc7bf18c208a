"""Pinned versions of the tables of a graph: opened, kept open, compared; the newest one found."""

from typing import Any

from omnigraph.store.failures import FailureKind, StorageFailure, object_errors
from omnigraph.store.forks.fork_records import reference_path
from omnigraph.store.forks.forks import Forks
from omnigraph.store.integrity.quarantine import Quarantine
from omnigraph.store.io.objects import Backend, checked_path
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import Pin
from omnigraph.store.reading.row_addresses import AddressedRows, AddressedRowsCache
from omnigraph.store.reading.table_diff import TableDiff, diff_tables
from omnigraph.store.root import Root
from omnigraph.store.table import Table, TableCache
from omnigraph.store.versions.files import Files, manifest_name
from omnigraph.store.versions.gateway import Gateway, operation_name, transaction_uuid, tree_path
from omnigraph.store.versions.latest import near_head, stored_note
from omnigraph.store.versions.torn_versions import TornVersions

__all__ = ["PinnedTables"]


class PinnedTables:
    """The part of `Tables` that reads. Thread-safe."""

    def __init__(self, root: Root, gateway: Gateway, files: Files, backend: Backend) -> None:
        self._root = root
        self._gateway = gateway
        self._files = files
        self._backend = backend
        self.quarantine = Quarantine(root, backend)
        self._torn = TornVersions(root, backend, self.quarantine)
        self._forks = Forks(root, gateway, files, backend, self.quarantine, self._torn)
        self._addressed = AddressedRowsCache(backend.get)
        self._cache = TableCache()

    @property
    def is_durable(self) -> bool:
        """True if what is acknowledged survives a power cut, as far as that is up to us."""
        return self._files.is_durable

    @property
    def durable(self) -> bool:
        """True if what a write created is synced before the write returns."""
        return self._files.durable

    def exists(self, path: str) -> bool:
        """Return whether a table is there."""
        try:
            self.head(path)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            return False
        return True

    def open(self, pin: Pin) -> Table:
        """Return the reader of a pinned version; the newest few hundred are kept."""
        if found := self._cache.get(pin):
            return found
        checked_path(StorageCall.TABLE_OPEN.value, pin.path)
        table = self.open_private(pin)
        self._cache.keep(table)
        return table

    def rows(self, pin: Pin) -> AddressedRows:
        """Return the rows of a pinned version, to read by address; the last few are kept."""
        return self._addressed.of(self.open(pin))

    def head(self, path: str, branch: str | None = None, *, known: int | None = None) -> int:
        """Return the newest committed version; NOT_FOUND. Opening that version is free then.

        Finding it may take a listing of all versions. With ``known``, a version that is or was the
        newest, only the few that follow are looked for.
        """
        try:
            near = None if known is None else self._near_head(path, branch, known)
            if near is not None:
                if near != known:
                    self.open(Pin(path, near, branch))
                self._torn.forget(path, branch)
                return near
            latest = self._latest(path, branch)
        except StorageFailure as failure:
            return self._torn.step_over(path, branch, failure)
        self._torn.forget(path, branch)
        version = int(latest.version)
        pin = Pin(path, version, branch)
        # Replaces what was kept: a fork made anew under its old name has the same versions.
        self._cache.keep(Table(pin, latest, self._files.checksums))
        return version

    def has_version(self, path: str, version: int, branch: str | None = None) -> bool:
        """Return whether a version is stored, without opening it."""
        place = self.version_file(Pin(path, version, branch))
        return storage_call(StorageCall.OBJECT_EXISTS, place, lambda: self._backend.exists(place))

    @staticmethod
    def version_file(pin: Pin) -> str:
        """Return the path of the file that is a version."""
        return f"{tree_path(pin.path, pin.branch)}/_versions/{manifest_name(pin.version)}"

    @staticmethod
    def fork_record(path: str, fork: str) -> str:
        """Return the path of the record of a fork."""
        return reference_path(path, fork)

    def noted_version(self, path: str, branch: str | None = None) -> int | None:
        """Return the version that Lance noted as its newest commit, if there is such a note."""
        return stored_note(self._backend, f"{tree_path(path, branch)}/_versions")

    def diff(self, older: Pin | None, newer: Pin, *, is_shared: bool = True) -> TableDiff:
        """Compare two versions of one table, on the trunk or on forks, by the files they share.

        Without an older one, all rows are new. Where `is_shared` is false, all rows of both sides
        are given, also those that lie in the same place.
        """
        return diff_tables(
            None if older is None else self.rows(older),
            self.rows(newer),
            is_same_history=older is not None and self._forks.is_same_history(older, newer),
            is_shared=is_shared,
        )

    def transaction_uuid(self, pin: Pin) -> str | None:
        """Return the identity of the commit that made a version."""
        return transaction_uuid(self.open(pin).dataset, pin.path)

    def operation(self, pin: Pin) -> str | None:
        """Return what the commit did that made a version, as Lance names it."""
        return operation_name(self.open(pin).dataset, pin.path)

    def forget_all(self) -> None:
        """Drop every reader that is kept; those in use stay as they are."""
        self._cache.clear()
        self._addressed.clear()
        self._gateway.release()

    def forget_fork(self, path: str, branch: str) -> None:
        """Drop the readers of a fork that is gone, or whose name now means another one."""
        self._cache.forget(path, branch)
        self._files.forget(tree_path(path, branch))
        self._addressed.deletions.forget(tree_path(path, branch))

    def torn_versions(self, path: str, branch: str | None = None) -> tuple[int, ...]:
        """Return the torn versions that finding the head stepped over. Looks at nothing."""
        return self._torn.known(path, branch)

    def open_private(self, pin: Pin) -> Table:
        """Open a version for one caller: forking and indexing lock the handle against readers."""
        dataset = storage_call(
            StorageCall.TABLE_OPEN,
            pin.path,
            lambda: self._gateway.open(pin.path, pin.version, pin.branch),
        )
        return Table(pin, dataset, self._files.checksums)

    def _near_head(self, path: str, branch: str | None, known: int) -> int | None:
        folder = f"{tree_path(path, branch)}/_versions"

        def look() -> int | None:
            try:
                return near_head(known, lambda name: self._backend.exists(f"{folder}/{name}"))
            except Exception:
                with object_errors(StorageCall.TABLE_HEAD.value, path):
                    raise

        return storage_call(StorageCall.TABLE_HEAD, path, look)

    def _latest(self, path: str, branch: str | None) -> Any:
        checked_path(StorageCall.TABLE_HEAD.value, path)
        found = storage_call(
            StorageCall.TABLE_HEAD, path, lambda: self._gateway.open(path, None, branch)
        )
        if not int(found.version):
            # Zeros are a message without fields to Lance, and versions count from 1.
            text = "the newest version is blank"
            raise StorageFailure(FailureKind.UNKNOWN, StorageCall.TABLE_HEAD.value, path, text)
        return found
