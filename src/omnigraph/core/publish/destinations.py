"""The destinations of commits: the head of a branch, or a branch that is created with the commit.

Both take the same path. A destination has the gates of its writers, the state that the commit
follows, the way its intent is stored, the step by which the commit becomes visible, and what is
removed if it does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

from omnigraph.core.branches.creation import BranchCreation
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.keys import key_reused
from omnigraph.core.commits.records import KEY, Record, encode
from omnigraph.core.commits.requirements import TargetState, branch_replaced
from omnigraph.core.commits.target import ExistingBranch, NewBranch, Target
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.journal.intent import Intent, IntentLog
from omnigraph.core.layout import MANIFEST
from omnigraph.core.locks import writer_queue
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.core.manifest.migrate import Migration
from omnigraph.errors import Conflict, Gone, NotFound, PreconditionFailed
from omnigraph.runtime.ids import Ids
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin, Tables
from omnigraph.types import MAIN, BranchName


class Destination(ABC):
    """One target, and what a write to it has to do there."""

    __slots__ = ()
    graph: Destinations
    # True if its tables belong to this write alone: after a failure they are dropped.
    has_own_tables: ClassVar[bool]

    @abstractmethod
    def begin(self) -> str:
        """Begin a write; return its operation id."""

    @abstractmethod
    def end_unarmed(self, base: GraphVersion) -> None:
        """End a write that was not armed."""

    @abstractmethod
    def needs_intent(self, tables: Collection[object]) -> bool:
        """True if a write of these tables takes more than one step."""

    def writing(self, table_keys: Iterable[str]) -> AbstractContextManager[None]:
        """Keep other writers of this process out of these tables."""
        return nullcontext()

    @abstractmethod
    def publishing(self) -> AbstractContextManager[None]:
        """Keep other publishers out, as far as that takes."""

    def settling(self) -> AbstractContextManager[None]:
        """Keep out others that settle a write to it, as far as that takes."""
        return nullcontext()

    @abstractmethod
    def put(self, intent: Intent) -> None:
        """Store the intent of a write that is being armed."""

    @abstractmethod
    def withdraw(self, operation_id: str) -> None:
        """Take an intent back of which nothing has moved."""

    @abstractmethod
    def check_key(self, key: str) -> None:
        """Refuse an idempotency key that cannot be used here."""

    @abstractmethod
    def newest(self) -> TargetState:
        """The newest state that a commit would follow."""

    @abstractmethod
    def newest_for_recovery(self) -> TargetState | None:
        """The same for recovery; None when the target can never be written to any more."""

    @abstractmethod
    def write(self, records: tuple[Record, ...], seen: TargetState) -> int | None:
        """Make rows visible; return the manifest version, None when another publish came first."""

    @abstractmethod
    def check_written(self, seen: TargetState) -> None:
        """Refuse if what was written is not visible."""

    def is_lost(self) -> bool:
        """True if the branch was deleted while a write to it was under way."""
        return False

    @abstractmethod
    def clear(self, paths: Iterable[str]) -> None:
        """Remove what a write left that was given up."""

    def _state_of(self, branch: BranchName) -> TargetState:
        manifest = self.graph.manifest
        version = manifest.snapshot(branch)
        return TargetState(
            version=version,
            commits=manifest.commits(branch),
            names=manifest.names,
            has_branch=manifest.has_branch,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """The destinations of one graph."""

    root: str
    tables: Tables
    manifest: Manifest
    creation: BranchCreation
    intents: IntentLog
    migration: Migration
    ids: Ids

    def of(self, target: Target) -> Destination:
        """The destination of a target."""
        if isinstance(target, NewBranch):
            return _BranchInCreation(self, target)
        return _BranchHead(self, target)


@dataclass(frozen=True, slots=True)
class _BranchHead(Destination):
    """The head of a branch that is there."""

    graph: Destinations
    target: ExistingBranch
    has_own_tables: ClassVar[bool] = False

    def begin(self) -> str:
        return self.graph.ids.new()

    def end_unarmed(self, base: GraphVersion) -> None:
        """Nothing was stored yet."""

    def needs_intent(self, tables: Collection[object]) -> bool:
        # A process that is about to delete a branch has to see its writers.
        return bool(tables) or self.target.branch != MAIN

    def writing(self, table_keys: Iterable[str]) -> AbstractContextManager[None]:
        return writer_queue.writing(self.graph.root, self.target.branch, table_keys)

    def publishing(self) -> AbstractContextManager[None]:
        return writer_queue.publishing(self.graph.root, self.target.branch)

    def put(self, intent: Intent) -> None:
        intents = self.graph.intents
        try:
            guarded(Fp.ARM, lambda: intents.put(intent))
        except StorageFailure as failure:
            unclear = failure.kind is FailureKind.UNKNOWN
            if not unclear or intents.get(intent.operation_id) is None:
                raise

    def check_key(self, key: str) -> None:
        """Nothing to check here: publishing looks the key up among the commits of the branch."""

    def withdraw(self, operation_id: str) -> None:
        self.graph.intents.remove(operation_id)

    def newest(self) -> TargetState:
        self.graph.migration.bring_forward(self.target.branch)
        return self._state_of(self.target.branch)

    def newest_for_recovery(self) -> TargetState | None:
        try:
            seen = self.newest()
        except NotFound:
            return None
        return seen if seen.version.incarnation == self.target.incarnation else None

    def write(self, records: tuple[Record, ...], seen: TargetState) -> int | None:
        version = seen.version
        base = Pin(path=MANIFEST, version=version.manifest_version, branch=version.fork)
        lookup = self.graph.manifest.perhaps_held(version.branch, base.version, records)
        rows = encode(records, base.version + 1)

        def merge() -> int:
            return self.graph.tables.merge_rows(base, KEY, rows, lookup=lookup)

        try:
            published = guarded(Fp.PUBLISH, merge)
        except StorageFailure as failure:
            if failure.kind is FailureKind.CONFLICT:
                return None
            raise
        self.graph.manifest.published(version, records)
        return published

    def check_written(self, seen: TargetState) -> None:
        if not self.graph.manifest.still_exists(seen.version):
            raise branch_replaced(self.target.branch)

    def is_lost(self) -> bool:
        manifest, branch = self.graph.manifest, self.target.branch
        try:
            return manifest.branch(branch).incarnation != self.target.incarnation
        except NotFound:
            return True
        except StorageFailure:
            return False

    def clear(self, paths: Iterable[str]) -> None:
        """Its tables are shared: what was given up is taken back by a version of each."""


@dataclass(frozen=True, slots=True)
class _BranchInCreation(Destination):
    """A branch that is created with the commit. It has no rival for the head, only for the name.

    Its intent was stored before the write was made, and goes with the branch.
    """

    graph: Destinations
    target: NewBranch
    has_own_tables: ClassVar[bool] = True

    def begin(self) -> str:
        self.graph.creation.take(self.target)
        return self.target.operation_id

    def end_unarmed(self, base: GraphVersion) -> None:
        self.graph.creation.give_up(self.target, base)

    def needs_intent(self, tables: Collection[object]) -> bool:
        return True

    def publishing(self) -> AbstractContextManager[None]:
        return self.graph.creation.alone()

    def settling(self) -> AbstractContextManager[None]:
        # Whether the name is free may change to and fro, so one at a time decides.
        return self.graph.creation.alone()

    def put(self, intent: Intent) -> None:
        self.graph.creation.arm(intent)

    def withdraw(self, operation_id: str) -> None:
        """Its intent goes with the branch."""

    def check_key(self, key: str) -> None:
        known = self.graph.creation.find_key(self.target, key)
        if known is not None:
            raise key_reused(known)

    def newest(self) -> TargetState:
        manifest = self.graph.manifest
        if manifest.exists(self.target.branch):
            return self._state_of(self.target.branch)
        return TargetState(version=self.graph.creation.base(self.target), names=manifest.names)

    def newest_for_recovery(self) -> TargetState | None:
        try:
            return self.newest()
        except (Conflict, NotFound, Gone, PreconditionFailed):
            return None

    def write(self, records: tuple[Record, ...], seen: TargetState) -> int | None:
        target = self.target
        lookup = self.graph.manifest.perhaps_held(target.source, target.source_version, records)
        rows = encode(records, target.source_version + 1)
        return self.graph.creation.publish(target, rows, lookup)

    def check_written(self, seen: TargetState) -> None:
        """Publishing made the branch itself."""

    def clear(self, paths: Iterable[str]) -> None:
        self.graph.creation.clear(self.target, paths)
