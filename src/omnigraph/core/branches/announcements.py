"""Announcing that a branch is deleted or renamed.

A process that ends a branch stores an intent first and looks for writers afterwards; a writer
stores its intent first, too, and looks for others afterwards. So at least one of them sees the
other, and nothing is committed to a branch between the last look at its head and its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.commits.requirements import SchemaIs, requirement_of
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.journal.intent import Intent, IntentLog, WriterKind
from omnigraph.core.locks.claims import Claims
from omnigraph.core.locks.owner import this_process
from omnigraph.errors import Busy, Code, Effect, GraphError
from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import Clock
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.types import CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """The end of a branch, as it was announced."""

    intent: Intent
    clock: Clock
    began_ns: int

    @property
    def operation_id(self) -> str:
        """The operation that ends the branch."""
        return self.intent.operation_id

    def check(self) -> None:
        """Refuse to go on after the lease: others may have taken the announcement back."""
        held_us = (self.clock.ticks_ns() - self.began_ns) // 1_000
        if held_us >= self.intent.owner.lease_us:
            text = "this process was stopped for so long that others took over; try again"
            raise Busy(Code.BUSY, text, operation_id=self.operation_id)


class Announcements:
    """The announcements of one graph."""

    __slots__ = ("_claims", "_intents")

    def __init__(self, claims: Claims, intents: IntentLog) -> None:
        """Store them among these intents."""
        self._claims = claims
        self._intents = intents

    @contextmanager
    def announced(self, version: GraphVersion, kind: WriterKind) -> Iterator[Announcement]:
        """Keep writers out of a branch for the length of a block that ends it.

        If it is not known how the block ended, the announcement stays, for recovery to settle.
        """
        announced = self._announce(version, kind)
        operation_id = announced.operation_id
        with self._claims.liveness.live.working(operation_id):
            self._put(announced.intent)
            try:
                yield announced
            except BaseException as error:
                self._end(operation_id, is_clear=_is_clear(error))
                raise
            self._end(operation_id, is_clear=True)

    def _announce(self, version: GraphVersion, kind: WriterKind) -> Announcement:
        clock, ids = self._claims.clock, self._claims.ids
        now = clock.now_us()
        commit = CommitRecord(
            id=CommitId(ids.new()),
            parent_id=None,
            branch=version.branch,
            actor=None,
            created_at=now,
            kind=kind,
        )
        target = version.target
        intent = Intent(
            operation_id=ids.new(),
            request=CommitRequest(
                commit=commit,
                target=target,
                requires=(requirement_of(target), SchemaIs(version.schema_digest)),
            ),
            rollback_commit_id=CommitId(ids.new()),
            owner=this_process(now),
            tables=(),
            confirms=False,
        )
        return Announcement(intent=intent, clock=clock, began_ns=clock.ticks_ns())

    def _put(self, intent: Intent) -> None:
        try:
            guarded(Fp.ANNOUNCE, lambda: self._intents.put(intent))
        except StorageFailure as failure:
            unclear = failure.kind is FailureKind.UNKNOWN
            if not unclear or self._intents.get(intent.operation_id) is None:
                raise

    def _end(self, operation_id: str, *, is_clear: bool) -> None:
        if is_clear:
            try:
                self._intents.remove(operation_id)
                return
            except StorageFailure:
                telemetry.count("branch.announcement_left")
        with suppress(StorageFailure, GraphError):
            self._intents.release(operation_id)


def _is_clear(error: BaseException) -> bool:
    """True if an error says that nothing has changed."""
    if isinstance(error, GraphError):
        return error.effect is Effect.NONE
    return isinstance(error, StorageFailure) and error.effect_free
