"""Landing: the commits that move a table's head, each exactly as announced or not at all.

``land`` is strict: the change becomes version ``expected + 1`` or nothing changes. A lost reply is
settled by looking for our own identity in that version. ``restore`` is as strict, which Lance's own
is not: that one is never refused and may cover commits of others.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from lance import LanceOperation

from omnigraph.store.calls import StorageCall, storage_call
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.files import Files
from omnigraph.store.gateway import (
    Dataset,
    Fragment,
    Gateway,
    Transaction,
    read_commit,
    transaction,
    transaction_uuid,
    tree_path,
)
from omnigraph.store.model import Pin, Staged
from omnigraph.store.stage import checked_uuid
from omnigraph.store.strict import ExactVersion, Placer
from omnigraph.store.table import Table

__all__ = ["Lander"]

_COMMIT: Final = StorageCall.TABLE_COMMIT.value


class Lander:
    """Moves heads."""

    def __init__(
        self, gateway: Gateway, files: Files, placer: Placer, reader: Callable[[Pin], Table]
    ) -> None:
        self._gateway = gateway
        self._reader = reader
        self._files = files
        self._placer = placer

    def land(self, staged: Staged) -> int:
        """Commit a staged change as the version after the one it was made for."""
        base = self._base(Pin(staged.path, staged.expected, staged.branch))
        self._check_fork(staged, base)
        return self._commit(
            base,
            staged.transaction,
            path=staged.path,
            branch=staged.branch,
            expected=staged.expected,
        )

    def restore(
        self, path: str, branch: str | None, *, to_version: int, expected_head: int, uuid: str
    ) -> int:
        """Make an old version the new head, if the head is the expected one."""
        checked_uuid(uuid, path)
        back = transaction(
            expected=expected_head, operation=LanceOperation.Restore(to_version), uuid=uuid
        )
        base = self._base(Pin(path, expected_head, branch))
        return self._commit(base, back, path=path, branch=branch, expected=expected_head)

    def merge_rows(self, base: Pin, key: str, rows: pa.Table) -> int:
        """Insert or replace rows by key, unless another writer landed one of the keys since."""
        place = tree_path(base.path, base.branch)
        # Merging moves the handle, so it gets one of its own.
        handle = self._open(base.path, base.version, base.branch)
        before = _fragments(handle)

        def merge() -> None:
            # An index on the key would silently switch the check for concurrent keys off.
            builder = handle.merge_insert(key).when_matched_update_all()
            builder = builder.when_not_matched_insert_all().use_index(False)
            builder.conflict_retries(0).execute(rows)

        storage_call(StorageCall.TABLE_MERGE, place, merge)
        self._sync_merge(place, handle, before)
        return int(handle.version)

    def stamp(self, path: str, branch: str | None, values: dict[str, str]) -> int:
        """Add to the schema metadata; a commit of its own."""
        place = tree_path(path, branch)
        handle = self._open(path, None, branch)
        storage_call(StorageCall.TABLE_STAMP, place, lambda: handle.update_schema_metadata(values))
        self.sync_head(place, handle)
        return int(handle.version)

    def sync_head(self, place: str, handle: Dataset) -> None:
        """Make the commit durable that made the version of this handle."""
        commit = read_commit(handle, place)
        if commit is not None:
            self._sync_commit(
                place,
                version=int(handle.version),
                read_version=commit.read_version,
                uuid=commit.uuid,
            )

    def sync_whole(self, path: str, branch: str | None) -> None:
        """Make everything durable that the head of a table consists of."""
        self._sync_merge(tree_path(path, branch), self._open(path, None, branch), {})

    def _commit(
        self, base: Dataset, change: Transaction, *, path: str, branch: str | None, expected: int
    ) -> int:
        """Commit as version ``expected + 1``; settle a lost reply; make it durable."""
        place = tree_path(path, branch)
        target = expected + 1
        created = self._files.of_commit(
            place, version=target, read_version=expected, uuid=change.uuid
        )
        exact = ExactVersion(self._placer, place, target, before=created[:1])
        try:
            storage_call(
                StorageCall.TABLE_COMMIT, place, lambda: self._gateway.commit(base, change, exact)
            )
        except StorageFailure as failure:
            found = self._uuid_at(path, branch, target)
            if found is None:
                raise
            if found != change.uuid:
                text = f"version {target} belongs to commit {found}"
                raise _conflict(place, text) from failure
            # Placed, but perhaps cut off before it was durable.
            self._files.sync(place, created)
        return target

    def _base(self, pin: Pin) -> Dataset:
        """Return a handle to commit on: a kept one, except where it may be of a dropped fork."""
        if pin.branch is None:
            return self._reader(pin).dataset
        return self._open(pin.path, pin.version, pin.branch)

    def _check_fork(self, staged: Staged, base: Dataset) -> None:
        place = tree_path(staged.path, staged.branch)
        if staged.base_uuid is not None and transaction_uuid(base, place) != staged.base_uuid:
            # Same name, same version, other history: the fork was dropped and made again.
            raise _conflict(place, "the fork is not the one that the change was made for")

    def _uuid_at(self, path: str, branch: str | None, version: int) -> str | None:
        try:
            handle = self._open(path, version, branch)
            return transaction_uuid(handle, tree_path(path, branch))
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            return None

    def _open(self, path: str, version: int | None, branch: str | None) -> Dataset:
        call = StorageCall.TABLE_HEAD if version is None else StorageCall.TABLE_OPEN
        return storage_call(call, path, lambda: self._gateway.open(path, version, branch))

    def _sync_commit(self, place: str, *, version: int, read_version: int, uuid: str) -> None:
        files = self._files.of_commit(place, version=version, read_version=read_version, uuid=uuid)
        self._files.sync(place, files)

    def _sync_merge(self, place: str, handle: Dataset, before: dict[int, Fragment]) -> None:
        commit = read_commit(handle, place)
        after = _fragments(handle).values()
        # What others landed meanwhile is among them; to sync it again does no harm.
        files = [
            *self._files.of_fragments(place, [f for f in after if f.id not in before]),
            *self._files.of_deletions(place, [f for f in after if _erased(f, before.get(f.id))]),
        ]
        if commit is not None:
            files.extend(
                self._files.of_commit(
                    place,
                    version=int(handle.version),
                    read_version=commit.read_version,
                    uuid=commit.uuid,
                )
            )
        self._files.sync(place, files)


def _fragments(handle: Dataset) -> dict[int, Fragment]:
    return {fragment.fragment_id: fragment.metadata for fragment in handle.get_fragments()}


def _erased(fragment: Fragment, before: Fragment | None) -> bool:
    """Whether a fragment has a deletion file that it did not have before."""
    now, then = fragment.deletion_file, None if before is None else before.deletion_file
    return now is not None and (then is None or now.asdict() != then.asdict())


def _conflict(place: str, text: str) -> StorageFailure:
    return StorageFailure(FailureKind.CONFLICT, _COMMIT, place, text)
