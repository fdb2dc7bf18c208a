"""Staging areas: what an operation writes before anything refers to it, and who may remove it.

The tasks of a load write data files beside tables, and put keys aside, long before the commit. All
of that belongs to the staging area of the load: a folder below `__staging` that is named like the
load. Its record, written first and removed last, names the owner and the tables. Data files carry
the name of the load, so they are found without looking at others.

An owner removes its area, however the operation ends. The area of a dead owner is swept when a
process opens the graph for writing, or loads into it. The first process that creates `decided`
decides what becomes of an area: its owner, that it is committed; another one, that it is swept. An
owner that was taken for dead and was only slow is refused then, and nothing of its load becomes
visible. What a version of a table refers to is never removed.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from omnigraph.core import tuning
from omnigraph.core.layout import STAGING
from omnigraph.core.locks.liveness import Liveness, is_certainly_over
from omnigraph.core.locks.owner import Owner, this_process
from omnigraph.errors import Busy, Code
from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.ids import Ids, is_ulid
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectInfo, ObjectStore
from omnigraph.store.tables import Pin, Tables

RECORD: Final = "owner.json"
_DECIDED: Final = "decided"
_NOTE: Final = "note-"
_COMMIT, _SWEEP = b"commit", b"sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The record of an area: its owner, the tables that it wrote into, a folder of the machine."""

    owner: Owner
    tables: tuple[Pin, ...] = ()
    folder: str | None = None

    def to_bytes(self) -> bytes:
        tables = [[pin.path, pin.version, pin.branch] for pin in self.tables]
        plain = {"owner": self.owner.to_json(), "tables": tables, "folder": self.folder}
        return json.dumps(plain, sort_keys=True).encode()

    @staticmethod
    def of(data: bytes) -> _Record | None:
        """Read a record; None if a power cut has left only a part of it."""
        try:
            plain = json.loads(data)
            return _Record(
                owner=Owner.from_json(plain["owner"]),
                tables=tuple(Pin(*each) for each in plain["tables"]),
                folder=plain["folder"],
            )
        except (ValueError, KeyError, TypeError):
            return None


class Ending(StrEnum):
    """The ways in which an operation ends."""

    COMMITTED = "committed"
    FAILED = "failed"  # nothing of it is visible
    UNCLEAR = "unclear"  # it is not known whether its commit was made


class StagingArea:
    """The staging area of one operation, as its owner sees it. Thread-safe."""

    def __init__(
        self, areas: StagingAreas, operation: str, record: _Record, *, is_decided: bool = False
    ) -> None:
        """Use `StagingAreas.begin`."""
        self._areas = areas
        self._operation = operation
        self._record = record
        self._lock = threading.Lock()
        self._renewed_ns = areas.clock.ticks_ns()
        self._is_decided = is_decided

    def add_tables(self, pins: Iterable[Pin]) -> None:
        """Note, before anything is written there, which tables get files of the operation."""
        with self._lock:
            known = {(pin.path, pin.branch) for pin in self._record.tables}
            new = [pin for pin in pins if (pin.path, pin.branch) not in known]
            if new:
                self._put(tables=(*self._record.tables, *new))

    def keep(self) -> None:
        """Renew the lease in time."""
        ticks = self._areas.clock.ticks_ns()
        with self._lock:
            if ticks - self._renewed_ns > self._record.owner.lease_us * 1_000 // 4:
                self._renewed_ns = ticks
                try:
                    self._put(owner=self._record.owner.renewed(self._areas.clock.now_us()))
                except StorageFailure:
                    telemetry.count("staging.lease_kept")  # there is time to try again

    def decide(self) -> None:
        """Note that the operation goes on to its commit.

        Raises:
            Busy: Another process has taken the owner for dead and swept the area.
        """
        with self._lock:
            if self._is_decided:
                return
            if not self._areas.decide(self._operation, _COMMIT):
                text = "this load was silent for so long that its files were removed; try again"
                raise Busy(Code.BUSY, text, operation_id=self._operation)
            self._is_decided = True

    def end(self, ending: Ending, *, is_alone: bool = True) -> None:
        """Remove the area, and the files beside tables that nothing refers to. Never fails.

        Args:
            ending: What came of the operation.
            is_alone: No task was tried twice, so a commit refers to every file.
        """
        areas = self._areas
        try:
            if self._is_decided and ending is Ending.UNCLEAR:
                return  # another process settles it later
            if ending is Ending.COMMITTED and is_alone:
                areas.remove_area(self._operation, self._record)
            else:
                areas.remove(self._operation, self._record, looks=self._is_decided)
        except StorageFailure as failure:
            telemetry.count("staging.left")
            telemetry.logger.warning("staging area %s was left: %s", self._operation, failure)
        finally:
            areas.liveness.live.end(self._operation)

    def _put(self, *, tables: tuple[Pin, ...] | None = None, owner: Owner | None = None) -> None:
        self._record = _Record(
            owner=owner or self._record.owner,
            tables=self._record.tables if tables is None else tables,
            folder=self._record.folder,
        )
        self._areas.objects.put(_place(self._operation, RECORD), self._record.to_bytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingAreas:
    """The staging areas of one graph."""

    objects: ObjectStore  # need not be durable: after a power cut every owner is dead
    tables: Tables
    clock: Clock
    ids: Ids
    liveness: Liveness
    folder: Path | None  # of the graph, if it lies on a disk of this machine

    def begin(
        self, operation: str, *, folder: Path | None = None, detached: bool = False
    ) -> StagingArea:
        """Make a staging area, which this process owns.

        Args:
            operation: Its name, a ULID.
            folder: A folder of this machine that goes with it.
            detached: No process owns it; its lease is long instead.
        """
        lease_us = tuning.active.detached_lease_us if detached else tuning.active.staging_lease_us
        owner = this_process(self.clock.now_us(), lease_us)
        if detached:
            owner = owner.anywhere()
        record = _Record(owner=owner, folder=None if folder is None else str(folder))
        self.liveness.live.start(operation)
        try:
            self.objects.put_new(_place(operation, RECORD), record.to_bytes())
        except BaseException:
            self.liveness.live.end(operation)
            raise
        return StagingArea(self, operation, record)

    def resume(self, operation: str) -> StagingArea:
        """Go on with an area that another process has begun.

        Raises:
            Busy: It was swept.
        """
        record = self._record(operation)
        if record is None:
            text = "this write was silent for so long that its files were removed; try again"
            raise Busy(Code.BUSY, text, operation_id=operation)
        is_decided = self.objects.exists(_place(operation, _DECIDED))
        self.liveness.live.start(operation)
        return StagingArea(self, operation, record, is_decided=is_decided)

    def sweep(self) -> int:
        """Remove the areas of dead owners; return how many. What fails is left for later."""
        count = 0
        try:
            names = [name for name in self.objects.children(STAGING) if is_ulid(name)]
        except StorageFailure:
            telemetry.count("staging.unswept")
            return 0
        for name in names:
            try:
                count += self._swept(name)
            except StorageFailure as failure:
                telemetry.count("staging.unswept")
                telemetry.logger.warning("staging area %s was left: %s", name, failure)
        return count

    def tables_in_use(self) -> frozenset[str]:
        """The tables beside which operations write that may be at work."""
        found: set[str] = set()
        for name in self.objects.children(STAGING):
            record = self._record(name) if is_ulid(name) else None
            if record is not None:
                found.update(pin.path for pin in record.tables)
        return frozenset(found)

    def _swept(self, operation: str) -> bool:
        if self.liveness.live.holds(operation):
            return False
        found = self.objects.list(f"{STAGING}/{operation}")
        record = self._record(operation)
        if record is None:
            # Its record comes first and goes last: late tasks of an area that was swept.
            self.remove_area(operation, None)
            return True
        place = _place(operation, RECORD)
        modified = next((info.modified_us for info in found if info.path == place), None)
        if self.liveness.is_alive(record.owner, operation, place, modified):
            return False
        if self.decide(operation, _SWEEP):
            self.remove(operation, record, looks=True)
        elif is_certainly_over(record.owner, local=self.folder is not None):
            # It died in its commit, or after it; nothing of it can arrive any more.
            self.remove(operation, record, looks=True)
        else:
            # A request of it may still arrive and refer to its files.
            telemetry.count("staging.files_left")
            self.remove_area(operation, record)
        telemetry.count("staging.swept")
        return True

    def decide(self, operation: str, what: bytes) -> bool:
        """Decide what becomes of an area, or find out that it was decided like that before."""
        place = _place(operation, _DECIDED)
        try:
            # After a lost reply the content decides.
            self.objects.put_new(place, what + b" " + self.ids.new().encode())
        except StorageFailure as failure:
            if failure.kind is not FailureKind.EXISTS:
                raise
            return what == _SWEEP and self.objects.get(place).startswith(what)
        if self.objects.exists(_place(operation, RECORD)):
            return True
        # Swept from beginning to end while its owner slept.
        self.objects.delete(place)
        return False

    def remove(self, operation: str, record: _Record, *, looks: bool) -> None:
        """Remove an area with its files.

        Args:
            operation: Its name.
            record: Its record.
            looks: A version since it began may refer to its files: keep those.
        """
        noted = self._noted(self.objects.list(f"{STAGING}/{operation}"))
        for pin in record.tables:
            files = self._files(operation, pin, noted)
            kept = self._referenced(pin) if looks and files else frozenset()
            if kept is None:
                telemetry.count("staging.files_left")
                continue
            self.tables.leftovers.remove(sorted(files - kept))
        self.remove_area(operation, record)

    def remove_area(self, operation: str, record: _Record | None) -> None:
        """Remove what is in an area, its record last; files beside tables stay."""
        if record is not None and record.folder is not None and record.owner.is_here:
            shutil.rmtree(record.folder, ignore_errors=True)
        place = f"{STAGING}/{operation}"
        if self.folder is not None:
            # With what Lance has left there, too. Not the folder around it: another process may be
            # about to make one in there.
            shutil.rmtree(self.folder / place, ignore_errors=True)
            return
        found = self.objects.list(place)
        for info in sorted(found, key=lambda info: info.path.endswith(f"/{RECORD}")):
            self.objects.delete(info.path)

    def _files(self, operation: str, pin: Pin, noted: Iterable[str]) -> set[str]:
        place = pin.path if pin.branch is None else f"{pin.path}/tree/{pin.branch}"
        mine = {f"{place}/data", f"{place}/_deletions"}
        return {
            *self.tables.leftovers.written_by(operation, pin.path, pin.branch),
            *(path for path in noted if path.rpartition("/")[0] in mine),
        }

    def _referenced(self, pin: Pin) -> frozenset[str] | None:
        try:
            head = self.tables.head(pin.path, pin.branch)
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return frozenset()  # the fork is gone, with all that referred to its files
            raise
        return self.tables.leftovers.referenced(pin, head)

    def _noted(self, found: Sequence[ObjectInfo]) -> list[str]:
        """The files that tasks noted, because their names do not name the operation."""
        paths: list[str] = []
        for info in found:
            if info.path.rpartition("/")[2].startswith(_NOTE):
                try:
                    paths += json.loads(self.objects.get(info.path))
                except ValueError:
                    telemetry.count("staging.note_torn")
        return paths

    def _record(self, operation: str) -> _Record | None:
        try:
            return _Record.of(self.objects.get(_place(operation, RECORD)))
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return None
            raise


def note_path(operation: str, name: str) -> str:
    """The path at which a task lists files that it wrote under other names, as JSON."""
    return _place(operation, f"{_NOTE}{name}.json")


def record_path(operation: str) -> str:
    """The path of the record of an area."""
    return _place(operation, RECORD)


def _place(operation: str, name: str) -> str:
    return f"{STAGING}/{operation}/{name}"
