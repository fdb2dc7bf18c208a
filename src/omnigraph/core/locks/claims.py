"""Claims: one process at a time, for steps that storage cannot make atomic.

A claim is a chain of numbered files. The process that creates the next number holds it, and
creating is the one step that storage decides for us; the holder is the owner of the greatest
number. The next number may be taken when the last one is released or its owner is dead. A released
file stays until its successor exists, so a number is never held twice at a time.

A holder renews its claim and checks it before each step. That keeps holders apart as long as none
is paused for longer than a lease; the steps themselves are made so that a late one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.core import tuning
from omnigraph.core.locks.liveness import Liveness, LiveOperations, StoreClock
from omnigraph.core.locks.owner import Owner, this_process
from omnigraph.errors import Busy, Code
from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.ids import Ids
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectInfo, ObjectStore

_SUFFIX = ".claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims of one graph: everything that holding one takes."""

    objects: ObjectStore
    clock: Clock
    ids: Ids
    liveness: Liveness

    @contextmanager
    def holding(self, folder: str, *, wait_us: int | None = None) -> Iterator[Claim]:
        """Hold a claim for the length of a block, or raise `Busy` with nothing done."""
        token = self.ids.new()
        with self.liveness.live.working(token):
            wait_us = tuning.active.claim_wait_us if wait_us is None else wait_us
            claim = self._take(folder, token, wait_us)
            try:
                yield claim
            finally:
                claim.release()

    def _take(self, folder: str, token: str, wait_us: int) -> Claim:
        looks, waited, pause = 0, 0, tuning.active.claim_pause_us
        while looks < tuning.active.claim_looks_min or waited < wait_us:
            looks += 1
            newest = max(_files(self.objects, folder), default=None, key=_number)
            if newest is not None and self._held(newest):
                if waited < wait_us:
                    self.clock.wait(pause)
                    waited, pause = waited + pause, min(2 * pause, tuning.active.claim_pause_max_us)
                continue
            mine = 0 if newest is None else _number(newest) + 1
            claim = Claim(self, folder, mine, token)
            if claim.create() and claim.clear_older():
                return claim
        text = "another process is doing the same kind of work; try again"
        raise Busy(Code.BUSY, text, claim=folder)

    def _held(self, file: ObjectInfo) -> bool:
        try:
            plain = json.loads(self.objects.get(file.path))
            if plain is None:
                return False
            owner, token = Owner.from_json(plain["owner"]), str(plain["token"])
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return True  # it has moved on: look again
            raise
        except (KeyError, TypeError, ValueError):
            return False  # a file that cannot be read was not released
        return self.liveness.is_alive(owner, token, file.path, file.modified_us)

    def clear(self, folder: str) -> None:
        """Remove the whole chain of a claim that cannot be needed again."""
        try:
            for file in _files(self.objects, folder):
                self.objects.delete(file.path)
        except StorageFailure:
            telemetry.count("claim.left")


class Claim:
    """A number in a chain: the claim, while it is the greatest one."""

    __slots__ = ("_claims", "_folder", "_mine", "_renewed_ns", "_token")

    def __init__(self, claims: Claims, folder: str, mine: int, token: str) -> None:
        """Name a number; `create` takes it."""
        self._claims = claims
        self._folder = folder
        self._mine = mine
        self._token = token
        self._renewed_ns = claims.clock.ticks_ns()

    @property
    def _path(self) -> str:
        return f"{self._folder}/{self._mine:012}{_SUFFIX}"

    def create(self) -> bool:
        """Create the file; False when another process was faster."""
        try:
            self._claims.objects.put_new(self._path, self._content())
        except StorageFailure as failure:
            if failure.kind is FailureKind.EXISTS:
                return False
            raise
        return True

    def clear_older(self) -> bool:
        """Remove what came before; step back if the chain has moved on while we looked."""
        objects = self._claims.objects
        files = _files(objects, self._folder)
        if max(map(_number, files), default=None) != self._mine:
            objects.delete(self._path)
            return False
        for file in files:
            if _number(file) < self._mine:
                objects.delete(file.path)
        return True

    def check(self) -> None:
        """Raise `Busy` unless the claim is still held; renew it in time.

        Within half a lease, by our own counter, no other process can have taken it over.
        """
        ticks = self._claims.clock.ticks_ns()
        held_us = (ticks - self._renewed_ns) // 1_000
        if held_us < tuning.active.claim_lease_us // 2:
            return
        numbers = map(_number, _files(self._claims.objects, self._folder))
        if held_us >= tuning.active.claim_lease_us or max(numbers, default=None) != self._mine:
            text = "this process was stopped for so long that others took over; try again"
            raise Busy(Code.BUSY, text, claim=self._folder)
        self._claims.objects.put(self._path, self._content())
        self._renewed_ns = ticks

    def release(self) -> None:
        """Note that the work is done. If that fails, the end of this process does it."""
        try:
            # If another process took over, this is not the greatest number, and means nothing.
            self._claims.objects.put(self._path, b"null")
        except StorageFailure:
            telemetry.count("claim.left")

    def _content(self) -> bytes:
        owner = this_process(self._claims.clock.now_us(), tuning.active.claim_lease_us)
        return json.dumps({"token": self._token, "owner": owner.to_json()}, sort_keys=True).encode()


def open_claims(objects: ObjectStore, clock: Clock, ids: Ids, live: LiveOperations) -> Claims:
    """The claims of one graph."""
    liveness = Liveness(live=live, store_clock=StoreClock(objects, clock, ids))
    return Claims(objects=objects, clock=clock, ids=ids, liveness=liveness)


def _files(objects: ObjectStore, folder: str) -> list[ObjectInfo]:
    return [info for info in objects.list(folder) if _is_claim(info)]


def _is_claim(info: ObjectInfo) -> bool:
    name = info.path.rpartition("/")[2]
    return name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).isdigit()


def _number(info: ObjectInfo) -> int:
    return int(info.path.rpartition("/")[2].removesuffix(_SUFFIX))
