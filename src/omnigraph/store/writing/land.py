"""Landing: the commits that move a table's head, each exactly as announced or not at all.

``land`` is strict: the change becomes version ``expected + 1`` or nothing changes. A lost reply is
settled by looking for our own identity in that version. ``restore`` is as strict, which Lance's own
is not: that one is never refused and may cover commits of others.
"""

from collections.abc import Callable
from typing import Final

from lance import LanceOperation

from omnigraph.runtime.clock import Clock
from omnigraph.store import tuning
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import Pin, Staged
from omnigraph.store.table import Table
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import (
    PRIMARY_KEY,
    Dataset,
    Gateway,
    Transaction,
    read_commit,
    transaction,
    transaction_uuid,
    tree_path,
)
from omnigraph.store.versions.strict_commit import ExactVersion, Placer
from omnigraph.store.writing.stage import checked_uuid

__all__ = ["Lander"]

_COMMIT: Final = StorageCall.TABLE_COMMIT.value


class Lander:
    """Moves heads."""

    def __init__(
        self,
        gateway: Gateway,
        files: Files,
        placer: Placer,
        reader: Callable[[Pin], Table],
        clear_way: Callable[[str, int], bool],
        is_passed: Callable[[str, int], bool],
        clock: Clock,
    ) -> None:
        self._gateway = gateway
        self._is_passed = is_passed
        self._clock = clock
        self._clear_way = clear_way
        self._reader = reader
        self._files = files
        self._placer = placer

    def land(self, staged: Staged, check: Callable[[], None] | None = None) -> int:
        """Commit a staged change as the version after the one it was made for."""
        base = self._base(Pin(staged.path, staged.expected, staged.branch))
        self._check_fork(staged, base)
        return self._commit(
            base,
            staged.transaction,
            path=staged.path,
            branch=staged.branch,
            expected=staged.expected,
            check=check,
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

    def stamp(self, at: Pin, values: dict[str, str], primary_key: str | None) -> int:
        """Add to the schema metadata of a version, perhaps with a primary key, or CONFLICT."""
        base = self._base(at)
        keys = {}
        if primary_key is not None:
            number = base.lance_schema.field(primary_key).id()
            keys = {number: LanceOperation.UpdateMap(updates=dict(PRIMARY_KEY))}
        change = transaction(
            expected=at.version,
            operation=LanceOperation.UpdateConfig(
                schema_metadata_updates=LanceOperation.UpdateMap(updates=dict(values)),
                field_metadata_updates=keys,
            ),
        )
        return self._commit(base, change, path=at.path, branch=at.branch, expected=at.version)

    def sync_head(self, place: str, handle: Dataset) -> None:
        """Make the commit durable that made the version of this handle."""
        commit = read_commit(handle, place)
        if commit is not None:
            note, version = self._files.of_commit(
                place,
                version=int(handle.version),
                read_version=commit.read_version,
                uuid=commit.uuid,
            )
            self._files.sync(place, [*note, *version])

    def sync_whole(self, path: str, branch: str | None) -> None:
        """Make everything durable that the head of a table consists of."""
        place = tree_path(path, branch)
        handle = self._open(path, None, branch)
        fragments = [fragment.metadata for fragment in handle.get_fragments()]
        self._files.sync(
            place,
            [
                *self._files.of_fragments(place, fragments),
                *self._files.of_deletions(place, fragments),
            ],
        )
        self.sync_head(place, handle)

    def _commit(
        self,
        base: Dataset,
        change: Transaction,
        *,
        path: str,
        branch: str | None,
        expected: int,
        check: Callable[[], None] | None = None,
    ) -> int:
        """Commit as version ``expected + 1``; settle a lost reply; make it durable."""
        place = tree_path(path, branch)
        target = expected + 1
        note, version = self._files.of_commit(
            place, version=target, read_version=expected, uuid=change.uuid
        )
        exact = ExactVersion(self._placer, place, target, check=check)
        begun_ns = self._clock.ticks_ns()

        def commit() -> None:
            storage_call(
                StorageCall.TABLE_COMMIT, place, lambda: self._gateway.commit(base, change, exact)
            )

        try:
            try:
                commit()
            except StorageFailure:
                # What a power cut left of a commit belongs to no version, and is only in the way.
                if not self._clear_way(place, target):
                    raise
                commit()
        except StorageFailure as failure:
            if exact.refused is not None:
                raise exact.refused from failure
            found = self._uuid_at(path, branch, target)
            if found is None:
                raise
            if found != change.uuid:
                self._files.discard(note)
                text = f"version {target} belongs to commit {found}"
                raise _conflict(place, text) from failure
        if self._clock.ticks_ns() - begun_ns > tuning.active.trusted_head_ns and self._is_passed(
            place, target
        ):
            # Stopped for so long that others went on, and a clean-up has made room behind them.
            raise _conflict(place, f"version {target} was passed by others")
        if not exact.placed:
            # It is there, but perhaps it was cut off before it was durable.
            self._files.sync(place, version)
        # The version holds the transaction, too; the copy that Lance made before it is not needed.
        self._files.discard(note)
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


def _conflict(place: str, text: str) -> StorageFailure:
    return StorageFailure(FailureKind.CONFLICT, _COMMIT, place, text)
