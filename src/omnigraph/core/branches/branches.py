"""Branches: a branch of the graph is a branch of its manifest; tables fork when first written.

Making a branch is one operation, however many tables there are. A table's fork is named by the
incarnation of the branch, so that a branch made again under an old name never meets old forks.

Lance makes and deletes a branch in two steps, a folder and a record. A claim keeps others out in
between, and a name under which a process left files when it died there goes on with its next
generation.
That a late step hits the wrong branch is ruled out by the names: each generation of a branch name
has a fork of its own, made by a step that succeeds once and ended by a mark that is created once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from omnigraph.core import tuning
from omnigraph.core.branches.announcements import Announcement, Announcements
from omnigraph.core.branches.creation import BranchCreation
from omnigraph.core.branches.kept_states import KeptStates
from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.commits.requirements import branch_exists, branch_replaced, require_head
from omnigraph.core.commits.target import created_by
from omnigraph.core.failpoints import Fp, guarded
from omnigraph.core.journal.intent import IntentLog, WriterKind
from omnigraph.core.layout import (
    MANIFEST,
    fork_mark,
    fork_name,
    staging_ref_parts,
)
from omnigraph.core.manifest.branch_info import BranchInfo
from omnigraph.core.manifest.deleted_branches import DeletedBranches
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.core.manifest.refs import require_unprotected, tags_of
from omnigraph.errors import (
    Busy,
    Code,
    Conflict,
    GraphError,
    InvalidInput,
    RecoveryRequired,
)
from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import ForkInfo, Pin, Table, Tables
from omnigraph.types import MAIN, BranchName, CommitId

# The operations that write to a branch, apart from one.
Writers = Callable[[BranchName, str | None], tuple[str, ...]]


class StoredBranches:
    """The branches of one graph."""

    __slots__ = (
        "_creation",
        "_deleted",
        "_ends",
        "_intents",
        "_kept",
        "_manifest",
        "_tables",
        "_writers",
    )

    def __init__(
        self,
        tables: Tables,
        manifest: Manifest,
        deleted: DeletedBranches,
        creation: BranchCreation,
        intents: IntentLog,
        kept: KeptStates,
        writers: Writers,
    ) -> None:
        """Work on this manifest and these tables; `writers` lists the operations on a branch."""
        self._tables = tables
        self._manifest = manifest
        self._deleted = deleted
        self._creation = creation
        self._intents = intents
        self._kept = kept
        self._ends = Announcements(creation.claims, intents)
        self._writers = writers

    def list(self) -> tuple[BranchName, ...]:
        """All names, sorted, main included."""
        return self._manifest.names()

    # -- making and deleting ---------------------------------------------------------------------

    def create(
        self,
        name: BranchName,
        *,
        source: BranchName = MAIN,
        commit: CommitId | None = None,
        start: GraphVersion | None = None,
    ) -> BranchInfo:
        """Make a branch from another one, as it is, or as of a commit or a state of it."""
        with self._creation.alone():
            self._creation.check_free(name)
            if start is not None:
                snapshot = start
            elif commit is not None:
                snapshot = self._manifest.at_commit(commit, source)
            else:
                snapshot = self._manifest.snapshot(source)
            at = Pin(path=MANIFEST, version=snapshot.manifest_version, branch=snapshot.fork)
            fork = self._creation.free_fork(name)
            try:
                self._make(name, fork, at)
            except StorageFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise
                raise self._start_missing(snapshot) from failure
            found = self._manifest.branch(name)
            if found.fork != fork:
                raise branch_replaced(name)  # another process was faster, and it was deleted since
            if not self._manifest.still_exists(snapshot):
                # The deletion of the source may not have seen this branch, and removes its files.
                self._mark(found, self._creation.new_id())
                self._creation.drop(MANIFEST, fork)
                raise branch_replaced(snapshot.branch)
            return found

    def _start_missing(self, start: GraphVersion) -> GraphError:
        """The error of a state that is removed since: with its branch, or by a clean-up."""
        if not self._manifest.still_exists(start):
            return branch_replaced(start.branch)
        return self._manifest.missing_state(start.branch, start.fork, start.manifest_version)

    def _make(self, name: BranchName, fork: str, at: Pin) -> None:
        try:
            guarded(Fp.FORK, lambda: self._tables.fork(MANIFEST, fork, at))
        except StorageFailure as failure:
            if failure.kind is FailureKind.EXISTS:
                raise branch_exists(name) from failure
            # We make branches alone now: if it is there, it is ours and the reply was lost.
            if failure.effect_free or self._tables.fork_info(MANIFEST, fork) is None:
                raise

    def delete(self, name: BranchName, *, if_head: CommitId | None = None) -> None:
        """Delete a branch that nothing descends from; its own forks of tables go with it.

        Args:
            name: The branch.
            if_head: Only if this commit is still its newest.
        """
        if name == MAIN:
            raise InvalidInput(Code.NAME_INVALID, "the branch 'main' cannot be deleted", name=name)
        with self._creation.alone():
            info = self._manifest.branch(name)
            with self.ending(info, WriterKind.BRANCH_DELETE) as announced:
                snapshot = self._manifest.snapshot(name)
                if if_head is not None:
                    require_head(snapshot, if_head)
                self._require_childless(info)
                self._require_no_refs(info)
                is_base = self._kept.is_merge_base(info)
                announced.check()
                self._creation.still_alone()
                self._mark(info, announced.operation_id)
            self._manifest.forget(name)
            if is_base:
                return  # two branches merged it, and merging them compares with it
            # It is gone. What is left of it is removed, unless other forks were made from it:
            # they stand on these files.
            is_dropped = self._creation.drop(MANIFEST, str(info.fork))
            if not is_dropped and self._manifest.has_forks_below(info):
                return
            if info.staging_ref is not None:
                self._creation.drop(MANIFEST, info.staging_ref)
        for pin in snapshot.tables.values():
            if is_fork_of(pin, info.incarnation):
                self._creation.drop(pin.path, str(pin.table_branch))

    @contextmanager
    def ending(self, info: BranchInfo, kind: WriterKind) -> Iterator[Announcement]:
        """Announce the end of a branch, or of its name; refuse it while there are writers.

        Only under the claim on branches.
        """
        name = info.name
        with self._ends.announced(self._manifest.snapshot(name), kind) as announced:
            writers = self._writers(name, announced.operation_id)
            if writers:
                text = f"branch '{name}' is being written to"
                raise Conflict(Code.BRANCH_IN_USE, text, branch=name, operations=list(writers))
            # Settling what dead writers left may have ended it.
            if self._manifest.branch(name).fork != info.fork:
                raise branch_replaced(name)
            yield announced

    def _mark(self, info: BranchInfo, operation_id: str) -> None:
        """Delete the branch of this generation, and no other.

        A mark whose fate is unclear is made once more: the store may still apply it, and a branch
        that is gone later, although its deletion was said to have failed, would be a loss.
        """

        def mark() -> None:
            self._manifest.mark_deleted(info, operation_id)

        for is_last in (False, True):
            try:
                guarded(Fp.DROP, mark)
            except StorageFailure as failure:
                if failure.kind is FailureKind.EXISTS:
                    break
                if failure.effect_free:
                    raise
                if is_last:
                    raise _perhaps_deleted(info.name) from failure
            else:
                return
        if self._deleted.marked_by(info.name, info.generation) != operation_id:
            raise branch_replaced(info.name)

    def _require_childless(self, info: BranchInfo) -> None:
        """Refuse to delete a branch that others were made from, or are being made from."""
        if not self._manifest.has_forks_below(info):
            return
        # What is left of a branch that was never created, or is deleted, is no child.
        self._reclaim_manifest()
        children = self._manifest.children(info)
        if children:
            branches = self._manifest.branches()
            names = sorted(name for name, made in branches.items() if made.fork in children)
            text = f"branches were made from '{info.name}': {', '.join(names)}"
            raise Conflict(Code.BRANCH_IN_USE, text, branch=info.name, children=names)

    def _require_no_refs(self, info: BranchInfo) -> None:
        """Refuse to delete a branch that is protected, or one of whose own commits has a tag."""
        refs = self._manifest.snapshot(MAIN).refs
        require_unprotected(refs, info.name, "deleted")
        versions = self._manifest.commits(info.name).manifest_version
        tags = [
            str(tag.name)
            for tag in tags_of(refs).values()
            if (versions(tag.commit) or 0) > info.parent_version
        ]
        if tags:
            text = (
                f"commits of branch '{info.name}' have tags: {', '.join(tags)}. Delete them first"
            )
            raise Conflict(Code.BRANCH_IN_USE, text, branch=info.name, tags=tags)

    # -- forks of tables -------------------------------------------------------------------------

    def writable(self, snapshot: GraphVersion, table_key: str) -> Table:
        """The table as a write to this branch needs it: on a fork that belongs to the branch."""
        pin = snapshot.pin(table_key)
        at = pin.store_pin
        try:
            if snapshot.branch != MAIN and not is_fork_of(pin, snapshot.incarnation):
                at = self.fork(at, snapshot.incarnation)
            return self._tables.open(at)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            self.check_base(snapshot)
            raise self._manifest.missing_table(at, table_key) from failure

    def check_base(self, base: GraphVersion) -> None:
        """Refuse a base whose branch, or what it is being made from, was deleted meanwhile."""
        branch, incarnation = base.branch, base.incarnation
        if base.creation is not None:
            branch, incarnation = base.creation.source, base.creation.source_incarnation
        if self._manifest.branch(branch).incarnation != incarnation:
            raise branch_replaced(branch)

    def fork(self, at: Pin, incarnation: str) -> Pin:
        """A fork of a table for a branch, with exactly what is pinned: an unused one, or a new one.

        A fork that is there and holds something else belongs to a write that is going on, or
        to one that died. Which of them is for recovery to find out; we use another name.
        """
        for number in range(tuning.active.lost_forks_max):
            fork = fork_name(incarnation, number)
            found = self._tables.fork_info(at.path, fork)
            if found is None and self._try_fork(at, fork):
                return Pin(path=at.path, version=at.version, branch=fork)
            if found is not None and self._is_unused(found, at, fork):
                return Pin(path=at.path, version=at.version, branch=fork)
        text = (
            f"{at.path} has {tuning.active.lost_forks_max} unusable forks on this branch; "
            "make another branch from it and go on there"
        )
        raise Busy(Code.BUSY, text, path=at.path)

    def _try_fork(self, at: Pin, fork: str) -> bool:
        try:
            guarded(Fp.FORK, lambda: self._tables.fork(at.path, fork, at))
        except StorageFailure as failure:
            found = self._tables.fork_info(at.path, fork)
            if found is not None:
                # A rival's, or ours with a lost reply: the same to us.
                return self._is_unused(found, at, fork)
            if failure.kind in (FailureKind.UNAVAILABLE, FailureKind.INVALID):
                raise
            # Files of a maker that died are in the way.
            telemetry.count("branch.fork_left")
            return False
        return True

    def _is_unused(self, found: ForkInfo, at: Pin, fork: str) -> bool:
        same = (found.parent_branch, found.parent_version) == (at.branch, at.version)
        return same and self._tables.head(at.path, fork) == at.version

    # -- what is left ----------------------------------------------------------------------------

    def reclaim(self) -> int:
        """Remove forks whose branch is gone, or was never created; return how many."""
        forks = self._table_forks()
        with self._creation.alone():
            dropped = self._reclaim_manifest()
        return dropped + sum(self._creation.drop(path, fork) for path, fork in self._dead(forks))

    def reclaim_tables(
        self, keeping: Collection[tuple[str, str]], *, dry_run: bool
    ) -> tuple[tuple[str, str], ...]:
        """Remove what `reclaim` removes, but for some forks; the forks of tables that went.

        Only under the claim on branches.
        """
        forks = self._table_forks()
        if dry_run:
            gone = [
                str(info.fork)
                for info in self._manifest.deleted_branches()
                if not self._kept.is_merge_base(info)
            ]
            dead = self._dead(forks, gone)
            return tuple(each for each in dead if each not in keeping)
        self._reclaim_manifest()
        dead = tuple(each for each in self._dead(forks) if each not in keeping)
        return tuple((path, fork) for path, fork in dead if self._creation.drop(path, fork))

    def _table_forks(self) -> tuple[tuple[str, str], ...]:
        paths = sorted({pin.path for pin in self._manifest.snapshot(MAIN).tables.values()})
        return tuple((path, fork) for path in paths for fork in self._tables.fork_names(path))

    def _dead(
        self, forks: Iterable[tuple[str, str]], without: Collection[str] = ()
    ) -> tuple[tuple[str, str], ...]:
        """The forks of tables whose branch is gone.

        Forks are listed first, branches after: a branch that is made meanwhile counts.
        """
        living = {fork_mark(incarnation) for incarnation in self._living(without)}
        return tuple((path, fork) for path, fork in forks if fork.partition(".")[0] not in living)

    def _living(self, without: Collection[str] = ()) -> set[str]:
        """The incarnations that exist or are being made; the latter are read first.

        A deleted branch whose fork is still there counts: others may have been made from it. Forks
        of the manifest that are as good as gone can be left out.
        """
        making = {intent.request.target.incarnation for intent in self._intents.pending()}
        return making | self._manifest.incarnations(without)

    def _reclaim_manifest(self) -> int:
        """Drop what is left of deleted branches, and of branches that were never made.

        Only under the claim on branches.
        """
        # A staging ref cannot be dropped before what was forked from it.
        dead = sum(
            self._creation.drop(MANIFEST, str(info.fork))
            for info in self._manifest.deleted_branches()
            if not self._kept.is_merge_base(info)
        )
        refs = [(name, staging_ref_parts(name)) for name in self._tables.fork_names(MANIFEST)]
        if all(parts is None for _, parts in refs):
            return dead
        living = self._living()
        return dead + sum(
            self._creation.drop(MANIFEST, name)
            for name, parts in refs
            if parts is not None and created_by(parts[0]) not in living
        )


def _perhaps_deleted(name: BranchName) -> RecoveryRequired:
    text = (
        f"storage did not say whether the branch '{name}' was deleted, and may still delete it; "
        "delete it again before anything is written to it"
    )
    return RecoveryRequired(Code.OUTCOME_UNKNOWN, text, branch=name)


def is_fork_of(pin: TablePin, incarnation: str) -> bool:
    """True if a table stands on a fork that belongs to this branch."""
    return (pin.table_branch or "").partition(".")[0] == fork_mark(incarnation)


def is_own(pin: TablePin, snapshot: GraphVersion) -> bool:
    """True if the branch writes to the table where it stands, rather than fork it first."""
    if snapshot.branch == MAIN:
        return pin.table_branch is None
    return is_fork_of(pin, snapshot.incarnation)
