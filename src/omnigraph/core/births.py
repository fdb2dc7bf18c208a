"""Births: branches that come into being together with their first commit.

A branch is there once its fork of the manifest is recorded, and a fork without a commit would be
seen. So the commit is written first, into a fork that no reader takes for a branch: the cradle.
Forking the branch from its cradle then shows both at once. That step is made alone: nobody else
makes or deletes a branch meanwhile.

Up to that step nothing but an intent knows of the branch. Its incarnation is chosen in advance, so
its tables are forked and changed like those of any branch, and dropped if nothing comes of it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pyarrow as pa

from omnigraph.core import gates
from omnigraph.core.claims import Claim, Claims
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.graph_version import GraphVersion, Origin
from omnigraph.core.layout import BRANCH_CLAIM, MANIFEST, cradle_name, fork_mark
from omnigraph.core.manifest import Manifest, born, branch_replaced
from omnigraph.core.records import KEY, Commit
from omnigraph.core.recovery.audit import Audit, RecoveryKind
from omnigraph.core.recovery.intent import Intent, IntentLog, WriterKind
from omnigraph.core.recovery.owner import this_process
from omnigraph.errors import Code, Conflict, GraphError, InvalidInput, NotFound
from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin, Tables
from omnigraph.types import MAIN, BranchName, CommitId

# A branch in the making is in nobody's way, so there is no hurry to take a slow maker for dead.
MAKING_LEASE_US = 24 * 3_600 * 1_000_000


class Births:
    """The branches of one graph that are being made with a commit."""

    __slots__ = (
        "_begun",
        "_claim",
        "_claims",
        "_intents",
        "_lock",
        "_manifest",
        "_root",
        "_tables",
    )

    def __init__(
        self, root: str, tables: Tables, manifest: Manifest, claims: Claims, intents: IntentLog
    ) -> None:
        """Work on this manifest and these tables."""
        self._root = root
        self._tables = tables
        self._manifest = manifest
        self._claims = claims
        self._intents = intents
        self._claim: Claim | None = None  # of whoever holds the gate
        self._lock = threading.Lock()
        self._begun: set[str] = set()  # the operations that are neither committed nor given up

    # -- the rules of making ---------------------------------------------------------------------

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every other maker of branches out, of this process and of others."""
        with gates.branching(self._root):
            if self._claim is not None:
                yield
                return
            with self._claims.holding(BRANCH_CLAIM) as claim:
                self._claim = claim
                try:
                    yield
                finally:
                    self._claim = None

    def still_alone(self) -> None:
        """Check the claim once more, right before a step that others must not see us make."""
        if self._claim is not None:
            self._claim.check()

    def new_id(self) -> str:
        """An identifier for an operation."""
        return self._claims.ids.new()

    def check_free(self, name: BranchName) -> None:
        """Refuse a name that is taken, or that lies on the path of one that is."""
        if name == MAIN:
            raise InvalidInput(Code.NAME_INVALID, "the branch 'main' always exists", name=name)
        for other in self._manifest.names():
            if other == name:
                raise branch_exists(name)
            if other.startswith(f"{name}/") or name.startswith(f"{other}/"):
                text = f"'{name}' and the branch '{other}' are paths of each other"
                raise Conflict(Code.BRANCH_EXISTS, text, branch=name, other=other)

    def is_born(self, name: BranchName, incarnation: str) -> bool:
        """Is the branch there, and the one that is meant?"""
        try:
            return self._manifest.branch(name).incarnation == incarnation
        except NotFound:
            return False

    # -- before ----------------------------------------------------------------------------------

    def begin(self, name: BranchName, source: GraphVersion, kind: WriterKind) -> GraphVersion:
        """Note that a branch is being made from a snapshot; return the base of its first commit."""
        self.check_free(name)
        operation_id = self._claims.ids.new()
        origin = Origin(
            operation_id=operation_id,
            branch=source.branch,
            incarnation=source.incarnation,
            version=source.manifest_version,
        )
        base = replace(
            source, branch=name, incarnation=born(operation_id), fork=None, origin=origin
        )
        now = self._claims.clock.now_us()
        intent = Intent(
            operation_id=operation_id,
            kind=kind,
            branch=name,
            incarnation=base.incarnation,
            commit_id=CommitId(self._claims.ids.new()),
            rollback_commit_id=CommitId(self._claims.ids.new()),
            schema_base=base.schema_digest,
            created_at=now,
            owner=this_process(now, MAKING_LEASE_US),
            tables=(),
            confirms=False,
            origin=origin,
        )
        self._claims.live.start(operation_id)
        try:
            self._note(intent)
        except BaseException:
            self._claims.live.end(operation_id)
            raise
        with self._lock:
            self._begun.add(operation_id)
        self._manifest.remember(source)
        return base

    def _note(self, intent: Intent) -> None:
        try:
            guarded(Fp.BEGIN, lambda: self._intents.put(intent))
        except StorageFailure as failure:
            unclear = failure.kind is FailureKind.UNKNOWN
            if not unclear or self._intents.get(intent.operation_id) is None:
                raise

    def abandon(self, base: GraphVersion) -> None:
        """Give up a branch in the making; nothing, once a write has taken it over."""
        if base.origin is not None and self._take_out(base.origin):
            self.give_up(base, base.origin)

    def take(self, base: GraphVersion) -> None:
        """Hand a branch in the making over to the one write that is its first commit."""
        if base.origin is not None and not self._take_out(base.origin):
            raise _not_made(base.branch)

    def _take_out(self, origin: Origin) -> bool:
        """Count it among the begun no longer; whether it was one of them."""
        with self._lock:
            begun = origin.operation_id in self._begun
            self._begun.discard(origin.operation_id)
        return begun

    def give_up(self, base: GraphVersion, origin: Origin) -> None:
        """Remove a branch whose first commit has moved nothing. There is no cradle before that."""
        try:
            self._drop_tables(origin, (pin.path for pin in base.tables.values()))
            self._intents.remove(origin.operation_id)
        except StorageFailure:
            # Nobody sees it, and whoever opens the graph next removes it.
            telemetry.count("birth.left")
            with suppress(StorageFailure, GraphError):
                self._intents.release(origin.operation_id)
        finally:
            self._claims.live.end(origin.operation_id)

    def arm(self, intent: Intent) -> None:
        """Note down what the first commit consists of; from here on it can be finished."""
        with self.alone():
            # Whoever settles it is alone, too: what is noted here was not given up meanwhile.
            if self._intents.get(intent.operation_id) is None:
                raise _not_made(intent.branch)
            try:
                guarded(Fp.ARM, lambda: self._intents.replace(intent))
            except StorageFailure:
                if self._intents.get(intent.operation_id) != intent:
                    raise

    # -- the birth -------------------------------------------------------------------------------

    def base(self, name: BranchName, origin: Origin) -> GraphVersion:
        """What a branch starts from, if that is still there."""
        self._check_source(origin)
        found = self._manifest.at_version(origin.branch, origin.version)
        incarnation = born(origin.operation_id)
        return replace(found, branch=name, incarnation=incarnation, fork=None, origin=origin)

    def find_key(self, origin: Origin, key: str) -> Commit | None:
        """The commit that carried an idempotency key in what a branch starts from, if any."""
        self._manifest.snapshot(origin.branch)
        commits = self._manifest.commits(origin.branch)
        known = commits.find_key(key)
        if known is None or (commits.manifest_version(known.id) or 0) > origin.version:
            return None
        return known

    def bear(
        self, name: BranchName, origin: Origin, rows: pa.Table, lookup: Collection[str]
    ) -> int:
        """Make a branch with its first commit; return the manifest version.

        `lookup` are the keys of those rows that the manifest may hold already.

        Only for who is alone, like everything that concerns cradles: Lance removes the folders
        above a fork together with the last fork below them.
        """
        # Somebody may have settled it while we waited to be alone.
        self._check_unsettled(name, origin)
        at = self._first_commit(
            cradle_name(origin.operation_id, origin.branch), origin, rows, lookup
        )
        # Whoever deletes the source from now on finds the cradle, and leaves what we stand on.
        self._check_source(origin)
        fork = self.free_fork(name)
        # Once more: it may have been made, and deleted, before we learned of this generation.
        self._check_unsettled(name, origin)
        guarded(Fp.PUBLISH, lambda: self._tables.fork(MANIFEST, fork, at))
        self._check_made(name, fork, origin)
        return at.version

    def _check_unsettled(self, name: BranchName, origin: Origin) -> None:
        if self._intents.get(origin.operation_id) is None:
            raise _not_made(name)

    def _check_source(self, origin: Origin) -> None:
        if self._manifest.branch(origin.branch).incarnation != origin.incarnation:
            raise branch_replaced(origin.branch)

    def _check_made(self, name: BranchName, fork: str, origin: Origin) -> None:
        """Refuse to acknowledge a branch that others had given up, or deleted, before it was made.

        Whoever gives it up removes the intent first and looks for the branch afterwards; we make
        the branch first and look for the intent afterwards. So at least one sees the other.
        """
        if self._manifest.fork_of(name) != fork:
            raise _not_made(name)  # of a generation that is over: nobody sees it
        if self._intents.get(origin.operation_id) is None and self._is_given_up(origin):
            with suppress(StorageFailure):
                found = self._manifest.branch(name)
                if found.fork == fork:
                    self._manifest.mark_deleted(found, self.new_id())
            raise _not_made(name)

    def _is_given_up(self, origin: Origin) -> bool:
        """Did whoever settled the write take it back, rather than find the branch made?"""
        return any(
            row.operation_id == origin.operation_id
            and row.recovery_kind is RecoveryKind.ROLLED_BACK
            for row in Audit(self._tables).rows()
        )

    def free_fork(self, name: BranchName) -> str:
        """The fork that a new branch will be, cleared of what a maker that died left there."""
        fork = self._manifest.fork_of(name)
        try:
            if self._tables.clear_fork(MANIFEST, fork):
                telemetry.count("branch.leftovers_removed")
        except StorageFailure as failure:
            if failure.kind is FailureKind.EXISTS:
                raise branch_exists(name) from failure
            raise
        self.still_alone()
        return fork

    def _first_commit(
        self, cradle: str, origin: Origin, rows: pa.Table, lookup: Collection[str]
    ) -> Pin:
        """The commit in its cradle; an attempt that stopped half-way is continued."""
        self._make_cradle(cradle, origin)
        base = Pin(path=MANIFEST, version=origin.version, branch=cradle)

        def merge() -> int:
            return self._tables.merge_rows(MANIFEST, cradle, base, KEY, rows, lookup=lookup)

        version = self._tables.head(MANIFEST, cradle)
        if version == origin.version:
            try:
                return replace(base, version=guarded(Fp.BEAR, merge))
            except StorageFailure:
                # Nobody else writes here: if something is there, it is ours.
                version = self._tables.head(MANIFEST, cradle)
                if version == origin.version:
                    raise
        self._tables.sync(MANIFEST, cradle)
        return replace(base, version=version)

    def _make_cradle(self, cradle: str, origin: Origin) -> None:
        if self._tables.fork_info(MANIFEST, cradle) is not None:
            return
        source = self._manifest.branch(origin.branch).fork
        at = Pin(path=MANIFEST, version=origin.version, branch=source)
        self._tables.clear_fork(MANIFEST, cradle)
        try:
            guarded(Fp.FORK, lambda: self._tables.fork(MANIFEST, cradle, at))
        except StorageFailure:
            if self._tables.fork_info(MANIFEST, cradle) is None:
                raise

    # -- when nothing comes of it ----------------------------------------------------------------

    def clear(self, origin: Origin, paths: Iterable[str]) -> None:
        """Remove what is left of a branch that is not there. Only for who is alone.

        What cannot be removed now is reclaimed later; nobody can mistake it for anything.
        """
        cradle = cradle_name(origin.operation_id, origin.branch)
        if self._tables.fork_info(MANIFEST, cradle) is not None:
            self.drop(MANIFEST, cradle)
        self._drop_tables(origin, paths)

    def _drop_tables(self, origin: Origin, paths: Iterable[str]) -> None:
        mark = fork_mark(born(origin.operation_id))
        for path in sorted(set(paths)):
            for fork in self._tables.fork_names(path):
                if fork.partition(".")[0] == mark:
                    self.drop(path, fork)

    def drop(self, path: str, fork: str) -> bool:
        """Drop a fork that nobody needs any more; whether that worked."""
        try:
            guarded(Fp.DROP, lambda: self._tables.drop_fork(path, fork))
        except StorageFailure:
            telemetry.count("branch.fork_left")
            return False
        return True


def branch_exists(name: BranchName) -> Conflict:
    """The conflict of two who make one branch."""
    return Conflict(Code.BRANCH_EXISTS, f"the branch '{name}' exists already", branch=name)


def _not_made(name: BranchName) -> Conflict:
    text = f"the branch '{name}' is not being made any more: begin anew"
    return Conflict(Code.CONFLICT, text, branch=name)
