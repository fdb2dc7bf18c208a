"""Claims: one process at a time, for steps that storage cannot make atomic.

A claim is a chain of numbered files. Whoever creates the next number holds the claim, and creating
is the one step that storage decides for us; the holder is the owner of the greatest number. The
next number may be taken when the last one is released or its owner is dead. A released file stays
until its successor exists, so a number is never held twice at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.core.recovery.live import Live
from omnigraph.core.recovery.owner import Owner, this_process
from omnigraph.errors import Busy, Code
from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import Clock
from omnigraph.runtime.ids import Ids
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.objects import ObjectStore

# How often a held claim is looked at before giving up; each look is a round trip to storage.
LOOKS_MAX = 2_000
_SUFFIX = ".claim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What is needed to hold a claim."""

    objects: ObjectStore
    clock: Clock
    ids: Ids
    live: Live

    @contextmanager
    def holding(self, folder: str, *, looks_max: int = LOOKS_MAX) -> Iterator[None]:
        """Hold a claim for the length of a block, or raise `Busy` with nothing done."""
        token = self.ids.new()
        with self.live.working(token):
            number = self._take(folder, token, looks_max)
            try:
                yield
            finally:
                self._release(folder, number)

    def _take(self, folder: str, token: str, looks_max: int) -> int:
        for _ in range(looks_max):
            newest = max(_numbers(self.objects, folder), default=None)
            if newest is not None and self._held(folder, newest):
                continue
            mine = 0 if newest is None else newest + 1
            if not self._create(folder, mine, token):
                continue
            # The chain may have moved on while we looked at its old end.
            numbers = _numbers(self.objects, folder)
            if max(numbers, default=None) == mine:
                for number in numbers:
                    if number < mine:
                        self.objects.delete(_path(folder, number))
                return mine
            self.objects.delete(_path(folder, mine))
        text = "another process is doing the same kind of work"
        raise Busy(Code.BUSY, text, claim=folder)

    def _create(self, folder: str, number: int, token: str) -> bool:
        owner = this_process(self.clock.now_us())
        data = json.dumps({"token": token, "owner": owner.to_json()}, sort_keys=True)
        try:
            self.objects.put_new(_path(folder, number), data.encode())
        except StorageFailure as failure:
            if failure.kind is FailureKind.EXISTS:
                return False
            raise
        return True

    def _held(self, folder: str, number: int) -> bool:
        try:
            plain = json.loads(self.objects.get(_path(folder, number)))
            if plain is None:
                return False
            owner, token = Owner.from_json(plain["owner"]), str(plain["token"])
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                return True  # it has moved on: look again
            raise
        except (KeyError, TypeError, ValueError):
            return False  # nobody can release what cannot be read
        if owner.is_us():
            return self.live.holds(token)
        return owner.is_alive(self.clock.now_us())

    def clear(self, folder: str) -> None:
        """Remove the whole chain, when nobody can ever need the claim again."""
        try:
            for number in _numbers(self.objects, folder):
                self.objects.delete(_path(folder, number))
        except StorageFailure:
            telemetry.count("claim.left")

    def _release(self, folder: str, number: int) -> None:
        """Say that the work is done. If that fails, the end of this process says it."""
        try:
            self.objects.put(_path(folder, number), b"null")
        except StorageFailure:
            telemetry.count("claim.left")


def _path(folder: str, number: int) -> str:
    return f"{folder}/{number:012}{_SUFFIX}"


def _numbers(objects: ObjectStore, folder: str) -> list[int]:
    names = [info.path.rpartition("/")[2] for info in objects.list(folder)]
    texts = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]
    return [int(text) for text in texts if text.isdigit()]
