"""Forks of tables: making, finding and dropping them, one durable step after the other.

A fork is a folder with a version of its own, and a record in the table's ``_refs``. It exists once
the record does. Lance writes both without syncing, so a power cut could leave a record of nothing,
or one that cannot be read, and a fork that is being dropped could lose its files and keep its
record. On local disk both steps are therefore made here. The version file is the one that Lance
writes for a clone, which it leaves in a folder of its own; from there it gets its place by a link.
On object storage every step is whole and in order already, and Lance makes them.
"""

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from omnigraph.runtime.clock import SystemClock
from omnigraph.runtime.ids import UlidIds, decode
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.forks.fork_records import ForkRecords, reference_path
from omnigraph.store.integrity.quarantine import Quarantine, SetAside
from omnigraph.store.integrity.version_checksums import add_checksum
from omnigraph.store.io.durability import link
from omnigraph.store.io.objects import Backend
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import ForkInfo, Pin
from omnigraph.store.root import Root
from omnigraph.store.versions.files import Files, manifest_name
from omnigraph.store.versions.gateway import Gateway, tree_path
from omnigraph.store.versions.latest import NOTE
from omnigraph.store.versions.torn_versions import TornVersions

__all__ = ["Forks"]

# Inside the folder of the fork that is being made, so that it goes with it.
_STAGING: Final = ".fork-"
_TORN: Final = "the record of a fork that a power cut left unfinished"
_US_PER_S: Final = 1_000_000


class Forks:
    """The forks of the tables of one root. Thread-safe."""

    def __init__(
        self,
        root: Root,
        gateway: Gateway,
        files: Files,
        backend: Backend,
        quarantine: Quarantine,
        torn: TornVersions,
    ) -> None:
        self._root = root
        self._gateway = gateway
        self._files = files
        self._backend = backend
        self._quarantine = quarantine
        self._clock = SystemClock()
        self._ids = UlidIds()
        self.records = ForkRecords(backend, torn.is_unfinished if root.is_local else None)

    def find(self, path: str, branch: str) -> ForkInfo | None:
        """Return what is known of a fork; None when there is none."""
        return self.records.find(path, branch)

    def all(self, path: str) -> dict[str, ForkInfo]:
        """List the forks of a table, by name."""
        found = {name: self.records.find(path, name) for name in self.records.names(path)}
        return {name: info for name, info in found.items() if info is not None}

    def is_same_history(self, one: Pin, other: Pin) -> bool:
        """True if one of two versions of a table was made from the other, perhaps over forks."""
        if one.path != other.path:
            return False
        return self._descends(one, other) or self._descends(other, one)

    def _descends(self, newer: Pin, older: Pin) -> bool:
        at = newer
        while at.branch != older.branch:
            fork = None if at.branch is None else self.find(at.path, at.branch)
            if fork is None:
                return False
            at = Pin(at.path, fork.parent_version, fork.parent_branch)
        return at.version >= older.version

    # ------------------------------------------------------------ making

    def create(self, path: str, branch: str, at: Pin) -> None:
        """Make a fork of a table from a pinned version; EXISTS, or CONFLICT with what is left."""
        if self.find(path, branch) is not None:
            raise _failure(FailureKind.EXISTS, StorageCall.TABLE_FORK, path, branch)
        # Dropping the last fork may have removed the folders above it, too.
        self._files.forget(f"{path}/tree")
        make = self._make_here if self._root.is_local else self._make_by_lance
        try:
            storage_call(StorageCall.TABLE_FORK, path, lambda: make(path, branch, at))
        except StorageFailure as failure:
            # The answer for a name that is taken depends on when it was taken, and by which
            # process.
            if self.find(path, branch) is None:
                raise
            raise _failure(FailureKind.EXISTS, StorageCall.TABLE_FORK, path, branch) from failure
        self._check_origin(path, branch, at)

    def _check_origin(self, path: str, branch: str, at: Pin) -> None:
        """Give a fork up whose version a clean-up took meanwhile.

        A clean-up removes versions first and looks for forks afterwards, so at least one of both
        sees the other.
        """
        place = f"{tree_path(at.path, at.branch)}/_versions/{manifest_name(at.version)}"
        if not storage_call(StorageCall.OBJECT_EXISTS, place, lambda: self._backend.exists(place)):
            self.drop(path, branch)
            text = f"version {at.version} was removed by a clean-up"
            raise _failure(FailureKind.NOT_FOUND, StorageCall.TABLE_FORK, path, text)

    def _make_by_lance(self, path: str, branch: str, at: Pin) -> None:
        base = self._gateway.open(at.path, at.version, at.branch)
        base.create_branch(branch, (at.branch, at.version))

    def _make_here(self, path: str, branch: str, at: Pin) -> None:
        """Place what Lance writes for a clone, then the record: each whole before the next."""
        record = self._record(path, at)
        self.set_aside_record(path, branch)
        uuid = self._ids.new()
        place = tree_path(path, branch)
        staging = f"{place}/{_STAGING}{uuid}"
        try:
            self._gateway.clone(staging, at, branch=branch, uuid=uuid)
            storage_call(
                StorageCall.TABLE_PLACE, place, lambda: self._place(staging, place, at, uuid)
            )
            self.records.create(path, branch, record)
        finally:
            shutil.rmtree(self._root.local_path / staging, ignore_errors=True)

    def _place(self, staging: str, place: str, at: Pin, uuid: str) -> None:
        names = (f"_transactions/{at.version}-{uuid}.txn", f"_versions/{manifest_name(at.version)}")
        sources = [self._root.local_path / staging / name for name in names]
        targets = [self._root.local_path / place / name for name in names]
        add_checksum(sources[-1])
        self._files.sync_contents(sources)
        for source, target in zip(sources, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                link(source, target)
            except FileExistsError as error:
                text = "the files of another fork are in the way"
                raise _failure(
                    FailureKind.CONFLICT, StorageCall.TABLE_PLACE, place, text
                ) from error
        # Only a hint, so it need not be durable.
        with suppress(OSError):
            os.replace(sources[-1].with_name(NOTE), targets[-1].with_name(NOTE))
        self._files.sync_names(targets)

    def set_aside_record(self, path: str, branch: str) -> SetAside | None:
        """Set the record of a fork aside if it stands for none."""

        def is_torn() -> bool:
            return self.records.is_torn(path, branch)

        if not is_torn():
            return None
        return self._quarantine.take(reference_path(path, branch), _TORN, is_torn)

    def _record(self, path: str, at: Pin) -> dict[str, Any]:
        """The record of a fork as Lance would write it: guard tests compare the two."""
        steps: list[list[int | str]] = []
        if at.branch is not None:
            parent = self.find(path, at.branch)
            if parent is None:
                raise _failure(FailureKind.NOT_FOUND, StorageCall.TABLE_FORK, path, at.branch)
            known = [step.partition(":") for step in parent.identifier.split("/")]
            steps = [[int(version), name] for version, _, name in known]
        steps.append([at.version, f"{decode(self._ids.new()):032x}"])
        source = self._root.local_path / tree_path(path, at.branch) / "_versions"
        return {
            "parentBranch": at.branch,
            "identifier": {"version_mapping": steps},
            "parentVersion": at.version,
            "createAt": self._clock.now_us() // _US_PER_S,
            "manifestSize": (source / manifest_name(at.version)).stat().st_size,
            "metadata": {},
        }

    # ------------------------------------------------------------ dropping

    def drop(self, path: str, branch: str) -> None:
        """Remove a fork with everything that was written on it; a missing one is fine.

        CONFLICT when other forks were made from it.
        """
        try:
            if self._root.is_local:
                self._drop_here(path, branch)
            else:
                storage_call(
                    StorageCall.TABLE_DROP_FORK,
                    path,
                    lambda: self._gateway.open(path, None).branches.delete(branch),
                )
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise

    def _drop_here(self, path: str, branch: str) -> None:
        """Drop the record first, durably, and then the files, which nothing refers to any more."""
        found = self.find(path, branch)
        if found is None:
            return
        others = self.all(path)
        above = f"{found.identifier}/"
        if held := sorted(n for n, info in others.items() if info.identifier.startswith(above)):
            text = f"fork {branch!r} has forks of its own: {', '.join(held)}"
            raise _failure(FailureKind.CONFLICT, StorageCall.TABLE_DROP_FORK, path, text)
        storage_call(StorageCall.TABLE_DROP_FORK, path, lambda: self.records.remove(path, branch))
        self.remove_files(path, branch, others)

    def remove_files(self, path: str, branch: str, forks: Iterable[str]) -> None:
        """Remove the folder of a fork that is not there, except for forks that lie below it."""
        folder = self._root.local_path / tree_path(path, branch)
        # Versions go first: a reader that misses a file of a version that is there calls it damage.
        shutil.rmtree(folder / "_versions", ignore_errors=True)
        below = [name for name in forks if name.startswith(f"{branch}/")]
        if below:
            kept = {name.removeprefix(f"{branch}/").partition("/")[0] for name in below}
            for item in _children(folder):
                if item.name not in kept:
                    shutil.rmtree(item, ignore_errors=True)
            return
        shutil.rmtree(folder, ignore_errors=True)
        top = self._root.local_path / path / "tree"
        for parent in folder.parents:
            if parent == top:
                break
            with suppress(OSError):
                os.rmdir(parent)


def _children(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _failure(kind: FailureKind, call: StorageCall, place: str, text: str) -> StorageFailure:
    return StorageFailure(kind, call.value, place, text)
