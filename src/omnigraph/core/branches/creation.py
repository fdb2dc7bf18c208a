"""Creating a branch together with its first commit.

A branch is there once its fork of the manifest is recorded, and a fork without a commit would be
seen. So the commit is written first, into a fork that no reader takes for a branch: the staging
ref. Forking the branch from there then shows both at once. That step is made alone: no other
process creates or deletes a branch meanwhile.

Up to that step only an intent mentions the branch. Its incarnation is chosen in advance, so
its tables are forked and changed like those of any branch, and dropped if nothing comes of it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import pyarrow as pa

from omnigraph.core import tuning
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import KEY, CommitRecord
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.commits.requirements import (
    BranchAbsent,
    SchemaIs,
    branch_exists,
    branch_replaced,
    requirement_of,
)
from omnigraph.core.commits.target import NewBranch
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.journal.audit import Audit, RecoveryKind
from omnigraph.core.journal.intent import Intent, IntentLog, WriterKind
from omnigraph.core.layout import (
    BRANCH_CLAIM,
    MANIFEST,
    branch_parts,
    fork_mark,
    staging_ref,
    staging_ref_parts,
)
from omnigraph.core.locks import writer_queue
from omnigraph.core.locks.claims import Claim, Claims
from omnigraph.core.locks.owner import this_process
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.core.manifest.refs import require_no_tag
from omnigraph.errors import Busy, Code, Conflict, GraphError, NotFound
from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin, Tables
from omnigraph.types import MAIN, BranchName, CommitId


class BranchCreation:
    """The branches of one graph that are being created with a commit."""

    __slots__ = (
        "_begun",
        "_claim",
        "_intents",
        "_lock",
        "_manifest",
        "_root",
        "_tables",
        "claims",
    )

    def __init__(
        self, root: str, tables: Tables, manifest: Manifest, claims: Claims, intents: IntentLog
    ) -> None:
        """Work on this manifest and these tables."""
        self._root = root
        self._tables = tables
        self._manifest = manifest
        self.claims = claims
        self._intents = intents
        self._claim: Claim | None = None  # of the thread that holds the gate
        self._lock = threading.Lock()
        self._begun: set[str] = set()  # the operations that are neither committed nor given up

    # -- the rules of making ---------------------------------------------------------------------

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every other maker of branches out, of this process and of others."""
        with writer_queue.branching(self._root):
            if self._claim is not None:
                yield
                return
            with self.claims.holding(BRANCH_CLAIM) as claim:
                self._claim = claim
                try:
                    yield
                finally:
                    self._claim = None

    def still_alone(self) -> None:
        """Check the claim once more, right before a step that others must not see us make."""
        claim = self._claim
        if claim is not None:
            claim.check()

    def new_id(self) -> str:
        """An identifier for an operation."""
        return self.claims.ids.new()

    def check_free(self, name: BranchName) -> None:
        """Refuse a name that is taken, or is on the path of a name that is."""
        BranchAbsent(name).check_names(self._manifest.names())
        require_no_tag(self._manifest.snapshot(MAIN).refs, name)

    def is_created(self, target: NewBranch) -> bool:
        """True if the branch exists and is the one that is meant."""
        try:
            return self._manifest.branch(target.branch).incarnation == target.incarnation
        except NotFound:
            return False

    # -- before ----------------------------------------------------------------------------------

    def begin(self, name: BranchName, source: GraphVersion, kind: WriterKind) -> GraphVersion:
        """Note that a branch is being created; return the base of its first commit."""
        self.check_free(name)
        target = NewBranch(
            branch=name,
            operation_id=self.new_id(),
            source=source.branch,
            source_incarnation=source.incarnation,
            source_version=source.manifest_version,
        )
        now = self.claims.clock.now_us()
        intent = Intent(
            operation_id=target.operation_id,
            request=CommitRequest(
                commit=CommitRecord(
                    id=CommitId(self.new_id()),
                    parent_id=None,
                    branch=name,
                    actor=None,
                    created_at=now,
                    kind=kind,
                ),
                target=target,
                requires=(requirement_of(target), SchemaIs(source.schema_digest)),
            ),
            rollback_commit_id=CommitId(self.new_id()),
            owner=this_process(now, tuning.active.creation_lease_us),
            tables=(),
            confirms=False,
        )
        self.claims.liveness.live.start(target.operation_id)
        try:
            self._note(intent)
        except BaseException:
            self.claims.liveness.live.end(target.operation_id)
            raise
        with self._lock:
            self._begun.add(target.operation_id)
        self._manifest.remember(source)
        return _based_on(source, target)

    def _note(self, intent: Intent) -> None:
        try:
            guarded(Fp.BEGIN, lambda: self._intents.put(intent))
        except StorageFailure as failure:
            unclear = failure.kind is FailureKind.UNKNOWN
            if not unclear or self._intents.get(intent.operation_id) is None:
                raise

    def abandon(self, base: GraphVersion) -> None:
        """Give up a branch that is being created; do nothing once a write has taken it over."""
        if base.creation is not None and self._take_out(base.creation):
            self.give_up(base.creation, base)

    def take(self, target: NewBranch) -> None:
        """Hand a branch that is being created over to the one write that is its first commit."""
        if not self._take_out(target):
            raise _not_made(target.branch)

    def _take_out(self, target: NewBranch) -> bool:
        """Remove it from those that were begun; True if it was one of them."""
        with self._lock:
            begun = target.operation_id in self._begun
            self._begun.discard(target.operation_id)
        return begun

    def give_up(self, target: NewBranch, base: GraphVersion) -> None:
        """Remove a branch whose first commit has moved nothing: there is no staging ref yet."""
        try:
            self.drop_tables(target.incarnation, (pin.path for pin in base.tables.values()))
            self._intents.remove(target.operation_id)
        except StorageFailure:
            # It is not visible, and the next process that opens the graph removes it.
            telemetry.count("branch_creation.left")
            with suppress(StorageFailure, GraphError):
                self._intents.release(target.operation_id)
        finally:
            self.claims.liveness.live.end(target.operation_id)

    def arm(self, intent: Intent) -> None:
        """Note down what the first commit consists of; from here on it can be finished."""
        with self.alone():
            # Settling is done alone, too: what is noted here was not given up meanwhile.
            if self._intents.get(intent.operation_id) is None:
                raise _not_made(intent.branch)
            try:
                guarded(Fp.ARM, lambda: self._intents.replace(intent))
            except StorageFailure:
                if self._intents.get(intent.operation_id) != intent:
                    raise

    # -- the first commit --------------------------------------------------------------------------

    def base(self, target: NewBranch) -> GraphVersion:
        """The version that a branch starts from, if it is still there."""
        self._check_source(target)
        return _based_on(self._manifest.at_version(target.source, target.source_version), target)

    def find_key(self, target: NewBranch, key: str) -> CommitRecord | None:
        """The commit that carried an idempotency key in what a branch starts from, if any."""
        self._manifest.snapshot(target.source)
        commits = self._manifest.commits(target.source)
        known = commits.find_key(key)
        if known is None or (commits.manifest_version(known.id) or 0) > target.source_version:
            return None
        return known

    def publish(self, target: NewBranch, rows: pa.Table, lookup: Collection[str]) -> int:
        """Create a branch with its first commit; return the manifest version.

        `lookup` are the keys of those rows that the manifest may hold already.

        Only under the claim on branches, like all work on staging refs: Lance removes the folders
        above a fork together with the last fork below them.
        """
        # It may have been settled while we waited to be alone, or a tag may have its name.
        self._check_unsettled(target)
        require_no_tag(self._manifest.snapshot(MAIN).refs, target.branch)
        at = self._first_commit(target, rows, lookup)
        # A deletion of the source from now on finds the staging ref, and leaves what we stand on.
        self._check_source(target)
        fork = self.free_fork(target.branch)
        # Once more: it may have been made, and deleted, before we learned of this generation.
        self._check_unsettled(target)
        try:
            guarded(Fp.PUBLISH, lambda: self._tables.fork(MANIFEST, fork, at))
        except StorageFailure as failure:
            if failure.effect_free:
                self._check_unsettled(target)
            raise
        self._check_made(target, fork)
        return at.version

    def _check_unsettled(self, target: NewBranch) -> None:
        if self._intents.get(target.operation_id) is None:
            raise _not_made(target.branch)

    def _check_source(self, target: NewBranch) -> None:
        if self._manifest.branch(target.source).incarnation != target.source_incarnation:
            raise branch_replaced(target.source)

    def _check_made(self, target: NewBranch, fork: str) -> None:
        """Refuse to acknowledge a branch that others had given up, or deleted, before it was made.

        Giving it up removes the intent first and looks for the branch afterwards; we make
        the branch first and look for the intent afterwards. So at least one sees the other.
        """
        name = target.branch
        if self._manifest.fork_of(name) != fork:
            raise _not_made(name)  # of a generation that is over: it is not visible
        if self._intents.get(target.operation_id) is None and self._is_given_up(target):
            with suppress(StorageFailure):
                found = self._manifest.branch(name)
                if found.fork == fork:
                    self._manifest.mark_deleted(found, self.new_id())
            raise _not_made(name)

    def _is_given_up(self, target: NewBranch) -> bool:
        """True if recovery took the write back, rather than find the branch made."""
        return any(
            row.operation_id == target.operation_id
            and row.recovery_kind is RecoveryKind.ROLLED_BACK
            for row in Audit(self._tables).rows()
        )

    def free_fork(self, name: BranchName) -> str:
        """The fork for a new branch. Only under the claim on branches.

        Where a maker left files and no branch, its generation of the name is skipped. The files are
        not removed: they are there under the names that those of the next maker would have, and a
        process that is stopped while it removes them could hit the wrong ones.
        """
        for _ in range(tuning.active.creation_steps_max):
            self.leave_renamed(name)
            fork = self._manifest.fork_of(name)
            # Files first, record after: those of a fork that is made meanwhile are not among them.
            has_files = self._tables.has_files_of_fork(MANIFEST, fork)
            if self._tables.fork_info(MANIFEST, fork) is not None:
                raise branch_exists(name)
            self.still_alone()
            if has_files:
                self._manifest.lost.require_not_lost(fork)
            # A fork in the folder of another one, of a name that is gone, would go with that one.
            if not has_files and not self._manifest.has_forks_around(fork):
                return fork
            self._manifest.skip_generation(name, branch_parts(fork)[1], self.new_id())
        steps = tuning.active.creation_steps_max
        text = f"{steps} attempts to make the branch '{name}' were cut off; use another name"
        raise Busy(Code.BUSY, text, branch=name)

    def leave_renamed(self, name: BranchName) -> None:
        """End the generations of a name whose branches were renamed.

        The renaming may have stopped before it; readers that have the old name must look again.
        """
        generation = self._manifest.generation_of(name)
        if generation and self._manifest.has_branch(name, generation - 1):
            self._manifest.skip_generation(name, generation - 1, self.new_id())

    def _first_commit(self, target: NewBranch, rows: pa.Table, lookup: Collection[str]) -> Pin:
        """The commit in its staging ref; an attempt that stopped half-way is continued."""
        ref = self._staging_ref(target)
        base = Pin(path=MANIFEST, version=target.source_version, branch=ref)

        def merge() -> int:
            return self._tables.merge_rows(base, KEY, rows, lookup=lookup)

        version = self._tables.head(MANIFEST, ref)
        if version == base.version:
            try:
                return replace(base, version=guarded(Fp.FIRST_COMMIT, merge))
            except StorageFailure:
                # Only we write here: if something is there, it is ours.
                version = self._tables.head(MANIFEST, ref)
                if version == base.version:
                    raise
        self._tables.sync(MANIFEST, ref)
        return replace(base, version=version)

    def _staging_ref(self, target: NewBranch) -> str:
        """The staging ref of a branch; made if it is not there."""
        source = self._manifest.branch(target.source).fork
        at = Pin(path=MANIFEST, version=target.source_version, branch=source)
        for attempt in range(tuning.active.creation_steps_max):
            ref = staging_ref(target.operation_id, target.source, attempt)
            if self._tables.fork_info(MANIFEST, ref) is not None:
                return ref
            if self._tables.has_files_of_fork(MANIFEST, ref):
                continue  # of a maker that died, or is slow
            self._make_staging_ref(ref, at)
            return ref
        steps = tuning.active.creation_steps_max
        text = f"{steps} attempts to make the branch '{target.branch}' were cut off; begin anew"
        raise Busy(Code.BUSY, text, branch=target.branch)

    def _make_staging_ref(self, ref: str, at: Pin) -> None:
        try:
            guarded(Fp.FORK, lambda: self._tables.fork(MANIFEST, ref, at))
        except StorageFailure:
            if self._tables.fork_info(MANIFEST, ref) is None:
                raise

    # -- when nothing comes of it ----------------------------------------------------------------

    def clear(self, target: NewBranch, paths: Iterable[str]) -> None:
        """Remove what is left of a branch unless it exists. Only under the claim on branches.

        What cannot be removed now is reclaimed later; until then it has no effect.
        """
        if self.is_created(target):
            return
        for ref in self._tables.fork_names(MANIFEST):
            parts = staging_ref_parts(ref)
            if parts is not None and parts[0] == target.operation_id:
                self.drop(MANIFEST, ref)
        self.drop_tables(target.incarnation, paths)

    def drop_tables(self, incarnation: str, paths: Iterable[str]) -> None:
        """Drop the forks of tables that belong to one branch."""
        mark = fork_mark(incarnation)
        for path in sorted(set(paths)):
            for fork in self._tables.fork_names(path):
                if fork.partition(".")[0] == mark:
                    self.drop(path, fork)

    def drop(self, path: str, fork: str) -> bool:
        """Drop a fork that is not needed any more; return whether that worked."""
        try:
            guarded(Fp.DROP, lambda: self._tables.drop_fork(path, fork))
        except StorageFailure:
            telemetry.count("branch.fork_left")
            return False
        return True


def _based_on(source: GraphVersion, target: NewBranch) -> GraphVersion:
    """The version of the source, under the name of the branch that is being created from it."""
    return replace(
        source,
        branch=target.branch,
        incarnation=target.incarnation,
        fork=None,
        creation=target,
    )


def _not_made(name: BranchName) -> Conflict:
    text = f"the branch '{name}' is not being made any more: begin anew"
    return Conflict(Code.CONFLICT, text, branch=name)
