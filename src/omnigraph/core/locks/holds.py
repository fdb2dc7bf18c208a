"""Holds: notes that a reader needs a state of the graph for long, so that no clean-up takes it.

A hold is one small object that names a state and its owner. A reader puts the hold first and then
looks whether the state is still stored; a clean-up removes states first and then looks for holds
before it removes what they consist of. So at least one sees the other: a hold that comes too late
gets `Gone`, and one that comes in time keeps every file of its state.

The hold of an owner that is dead keeps nothing. Only handles that may write hold states.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from omnigraph.core import tuning
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import HOLDS, MANIFEST
from omnigraph.core.locks.liveness import Liveness
from omnigraph.core.locks.owner import Owner, this_process
from omnigraph.errors import Code, Gone
from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.ids import Ids
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectInfo, ObjectStore
from omnigraph.store.tables import Tables
from omnigraph.types import BranchName

_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A note that a state is being read.

    Attributes:
        id: The name of the hold.
        branch: The branch that is read.
        incarnation: The branch itself, whatever its name is by now.
        fork: The fork of the manifest that has the state; None for main.
        version: The version of the manifest.
        onward: All later states of the branch are needed, too.
        what: The reader: `export`, `feed`.
        owner: The process that reads.
    """

    id: str
    branch: BranchName
    incarnation: str
    fork: str | None
    version: int
    onward: bool
    what: str
    owner: Owner

    def to_bytes(self) -> bytes:
        """The file of the hold."""
        plain = {
            "id": self.id,
            "branch": str(self.branch),
            "incarnation": self.incarnation,
            "fork": self.fork,
            "version": self.version,
            "onward": self.onward,
            "what": self.what,
            "owner": self.owner.to_json(),
        }
        return json.dumps(plain, sort_keys=True).encode()

    @staticmethod
    def of(data: bytes) -> Hold | None:
        """Read a hold; None if a power cut has left only a part of it."""
        try:
            plain = json.loads(data)
            fork = plain["fork"]
            return Hold(
                id=str(plain["id"]),
                branch=BranchName(plain["branch"]),
                incarnation=str(plain.get("incarnation", "")),
                fork=None if fork is None else str(fork),
                version=int(plain["version"]),
                onward=bool(plain["onward"]),
                what=str(plain["what"]),
                owner=Owner.from_json(plain["owner"]),
            )
        except (ValueError, KeyError, TypeError):
            return None


class Holder:
    """A reader that holds nothing: its handle is for reading only, and never writes."""

    def move(self, state: GraphVersion | None = None) -> None:
        """Renew the hold in time, on a later state if one is given."""

    def release(self) -> None:
        """Release the state."""


NO_HOLD: Final = Holder()


class HeldState(Holder):
    """A hold that this process has. Moving and releasing it never fail."""

    def __init__(self, holds: Holds, hold: Hold) -> None:
        """Use `Holds.take`."""
        self._holds = holds
        self._hold = hold
        self._renewed_ns = holds.clock.ticks_ns()

    def move(self, state: GraphVersion | None = None) -> None:
        """Renew the hold in time, on a later state if one is given."""
        if state is not None:
            self._hold = replace(self._hold, fork=state.fork, version=state.manifest_version)
        ticks = self._holds.clock.ticks_ns()
        if ticks - self._renewed_ns > tuning.active.hold_renewed_ns:
            self._renewed_ns = ticks
            owner = this_process(self._holds.clock.now_us(), tuning.active.hold_lease_us)
            self._hold = replace(self._hold, owner=owner)
            try:
                self._holds.objects.put(_place(self._hold.id), self._hold.to_bytes())
            except StorageFailure:
                telemetry.count("hold.lease_kept")  # there is time to try again

    def release(self) -> None:
        """Release the state; if that fails, the end of this process does it."""
        try:
            self._holds.objects.delete(_place(self._hold.id))
        except StorageFailure:
            telemetry.count("hold.left")
        finally:
            self._holds.liveness.live.end(self._hold.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The holds of one graph."""

    objects: ObjectStore
    tables: Tables
    clock: Clock
    ids: Ids
    liveness: Liveness

    def take(
        self, state: GraphVersion, what: str, *, onward: bool = False, must: bool = True
    ) -> Holder:
        """Hold a state until it is released.

        Args:
            state: The state.
            what: The reader.
            onward: All later states of its branch, too.
            must: It is an error when storage refuses to take the hold; otherwise there is none.

        Raises:
            Gone: It is not stored any more.
        """
        hold = Hold(
            id=self.ids.new(),
            branch=state.branch,
            incarnation=state.incarnation,
            fork=state.fork,
            version=state.manifest_version,
            onward=onward,
            what=what,
            owner=this_process(self.clock.now_us(), tuning.active.hold_lease_us),
        )
        held = HeldState(self, hold)
        self.liveness.live.start(hold.id)
        try:
            self.objects.put_new(_place(hold.id), hold.to_bytes())
            if not self.tables.has_version(MANIFEST, state.manifest_version, state.fork):
                raise _gone(state)
        except BaseException as error:
            held.release()
            if isinstance(error, StorageFailure) and not must:
                telemetry.count("hold.refused")
                return NO_HOLD
            raise
        return held

    def all(self) -> list[Hold]:
        """The holds whose owners may be at work."""
        return [hold for hold, info in self._read() if hold and self._is_alive(hold, info)]

    def sweep(self) -> int:
        """Remove the holds of dead owners; return how many."""
        found = self._read()
        dead = [info for hold, info in found if hold is None or not self._is_alive(hold, info)]
        for info in dead:
            self.objects.delete(info.path)
        return len(dead)

    def _read(self) -> Iterator[tuple[Hold | None, ObjectInfo]]:
        for info in self.objects.list(HOLDS):
            try:
                yield Hold.of(self.objects.get(info.path)), info
            except StorageFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise

    def _is_alive(self, hold: Hold, info: ObjectInfo) -> bool:
        return self.liveness.is_alive(hold.owner, hold.id, info.path, info.modified_us)


def _place(hold: str) -> str:
    return f"{HOLDS}/{hold}{_SUFFIX}"


def _gone(state: GraphVersion) -> Gone:
    text = (
        f"the state at commit {state.head} of branch '{state.branch}' was removed by a clean-up: "
        "start over with the newest one"
    )
    return Gone(Code.GONE, text, branch=state.branch, commit=state.head)
