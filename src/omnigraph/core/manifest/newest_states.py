"""The branches of a graph and their newest states: one cached, incremental reader per branch.

A reader remembers which fragments it has folded and reads only new ones, so looking at the head
costs a probe when nothing happened and the size of the change when something did. Its first look
at a long history picks out the rows that make up the present and leaves the others for later.

A branch may be deleted and made again under its name at any moment, by any process. Each branch of
a name is a fork of its own, by its generation, and has an identity that is never used twice: the
incarnation. What was read is trusted only if the branch, asked afterwards, is not deleted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from omnigraph.core import tuning
from omnigraph.core.commits.commit_log import CommitLog
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import CommitRecord, Record, object_id
from omnigraph.core.layout import MANIFEST, branch_fork, branch_parts, staging_ref_parts
from omnigraph.core.manifest.branch_info import MAIN_INFO, BranchInfo, branch_info, branch_of_fork
from omnigraph.core.manifest.branch_reader import BranchReader
from omnigraph.core.manifest.deleted_branches import DeletedBranches
from omnigraph.core.manifest.formats import ManifestFormat, format_of
from omnigraph.core.manifest.lost_branches import LostBranches
from omnigraph.core.manifest.original_formats import Originals
from omnigraph.core.manifest.refs import renamed_branches
from omnigraph.core.storage_errors import branch_files_missing
from omnigraph.errors import Code, Conflict, NotFound
from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import Clock, SystemClock
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import ForkInfo, Pin, Tables
from omnigraph.types import MAIN, BranchName, CommitId

# By fork, the name that a branch was given later, and which of that name it is.
Renames: TypeAlias = Mapping[str, tuple[BranchName, int]]


class NewestStates:
    """The part of `Manifest` that knows the branches and their newest states. Thread-safe."""

    def __init__(
        self,
        tables: Tables,
        deleted: DeletedBranches,
        originals: Originals,
        settle_torn: Callable[[GraphVersion], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Read through these tables; what power cuts left in them is judged by `settle_torn`."""
        self._clock: Clock = clock or SystemClock()
        self._tables = tables
        self._originals = originals
        self._deleted = deleted
        self.lost = LostBranches(tables, self._named, deleted)
        self._settle_torn = settle_torn
        self._lock = threading.Lock()
        self._readers: dict[BranchName, BranchReader] = {}
        self._renames: tuple[Mapping[str, CommitRecord], Renames] = ({}, {})
        self._past: OrderedDict[tuple[str, int], GraphVersion] = OrderedDict()

    # -- branches --------------------------------------------------------------------------------

    def names(self) -> tuple[BranchName, ...]:
        """The name of every branch, sorted, main included."""
        self._look_at_names()
        forks = self._tables.fork_names(MANIFEST)
        # Forks first, deletions after: one that is deleted in between is not among them.
        return tuple(sorted([MAIN, *(info for info, _ in self._living(forks))]))

    def branches(self) -> Mapping[BranchName, BranchInfo]:
        """Every branch by name, main included. Reads about each of them."""
        self._look_at_names()
        forks = self._tables.forks(MANIFEST)
        living = {name: self._info(text, forks[text]) for name, text in self._living(forks)}
        return {MAIN: MAIN_INFO, **living}

    def _living(self, forks: Iterable[str]) -> list[tuple[BranchName, str]]:
        """The forks of the manifest that are living branches, with their names."""
        deleted = self._deleted.generations()
        return [
            (name, text)
            for text in forks
            for name, generation in self._named(text)
            if generation == deleted.get(name, 0)
        ]

    def _named(self, fork: str) -> tuple[tuple[BranchName, int], ...]:
        """The present name and the generation of the branch that a fork is; empty if it is none."""
        later = self._renamed().get(fork)
        return branch_of_fork(fork) if later is None else (later,)

    def _renamed(self) -> Renames:
        refs = self._reader(MAIN).known().refs
        known, found = self._renames
        if known is not refs:
            found = renamed_branches(refs)
            self._renames = (refs, found)
        return found

    def _look_at_names(self) -> None:
        """Take in branches that were renamed since the last look."""
        self._reader(MAIN).refresh()

    def _dead(self, forks: Iterable[str]) -> set[str]:
        """The forks of the manifest whose branches are deleted."""
        deleted = self._deleted.generations()
        return {
            text
            for text in forks
            for name, generation in self._named(text)
            if generation < deleted.get(name, 0)
        }

    def deleted_branches(self) -> list[BranchInfo]:
        """The deleted branches of which a fork of the manifest is left."""
        self._look_at_names()
        forks = self._tables.forks(MANIFEST)
        return [self._info(text, forks[text]) for text in sorted(self._dead(forks))]

    def children(self, info: BranchInfo) -> tuple[str, ...]:
        """The forks that were made from a branch: branches, and those that are being made.

        What was made from a deleted branch counts as made from what that one was made from.
        """
        forks = self._tables.forks(MANIFEST)
        origins = {fork.parent_branch for fork in forks.values()}
        dead = self._dead(forks)
        passed = dead | {name for name in forks if staging_ref_parts(name) and name in origins}

        def origin(name: str) -> str | None:
            above = forks[name].parent_branch
            return origin(above) if above is not None and above in passed else above

        return tuple(name for name in forks.keys() - passed if origin(name) == info.fork)

    def has_forks_below(self, info: BranchInfo) -> bool:
        """True if forks of any kind were made from a branch."""
        forks = self._tables.forks(MANIFEST).values()
        return any(fork.parent_branch == info.fork for fork in forks)

    def has_forks_around(self, fork: str) -> bool:
        """True if a fork would lie in the folder of another one, or another one in its folder."""
        return any(
            other.startswith(f"{fork}/") or fork.startswith(f"{other}/")
            for other in self._tables.fork_names(MANIFEST)
        )

    def incarnations(self, without: Collection[str] = ()) -> set[str]:
        """The branches that have a fork: those that are there, and what is left of deleted ones.

        Some forks may be left out, unless others were made from them.
        """
        forks = self._tables.forks(MANIFEST)
        parents = {fork.parent_branch for fork in forks.values()}
        return {
            self._info(text, fork).incarnation
            for text, fork in forks.items()
            if branch_of_fork(text) and (text not in without or text in parents)
        }

    def find_incarnation(self, incarnation: str) -> BranchName | None:
        """The present name of a branch; None when it is gone."""
        found = (name for name, info in self.branches().items() if info.incarnation == incarnation)
        return next(found, None)

    def log_of(self, info: BranchInfo) -> CommitLog:
        """The commits of a branch, also of one that is deleted and whose files stay."""
        return self._whole(info).index.commits

    def head_of(self, info: BranchInfo) -> CommitId:
        """The newest commit of a branch, also of one that is deleted and whose files stay."""
        return self._whole(info).known().head

    def _whole(self, info: BranchInfo) -> BranchReader:
        with self._lock:
            reader = self._readers.get(info.name)
        if reader is None or reader.info != info:
            reader = self._new_reader(info)
        reader.refresh()
        return reader

    def mark_deleted(self, info: BranchInfo, operation_id: str) -> None:
        """Delete the branch of one generation, and no other; EXISTS when it is deleted already."""
        self._deleted.mark(info.name, info.generation, info.incarnation, operation_id)

    def skip_generation(self, name: BranchName, generation: int, operation_id: str) -> None:
        """End a generation of a name in which no branch was made, so that none can be made there.

        If its maker is only slow, the fork that it makes is no branch.
        """
        try:
            self._deleted.skip(name, generation, operation_id)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.EXISTS:
                raise
        telemetry.count("branch.generation_skipped")

    def was_deleted(self, name: BranchName, generation: int) -> bool:
        """True if a branch of this generation existed and was deleted or renamed."""
        return self._deleted.was_made(name, generation)

    def branch(self, name: BranchName) -> BranchInfo:
        """One branch as it is now."""
        if name == MAIN:
            return MAIN_INFO
        found = self._find(name)
        if found is None:
            self.forget(name)
            self.lost.require_not_lost(self.fork_of(name))
            raise NotFound(Code.NOT_FOUND, f"branch '{name}' does not exist", branch=name)
        return found

    def fork_of(self, name: BranchName) -> str:
        """The fork that a branch of this name is, or would be if it were made now."""
        generation = self.generation_of(name)
        renamed = self._renamed()
        given = (fork for fork, known in renamed.items() if known == (name, generation))
        return next(given, branch_fork(name, generation))

    def generation_of(self, name: BranchName) -> int:
        """The generation that a branch of this name has, or would have if it were made now."""
        generation, renamed = self._deleted.generation(name), self._renamed()
        while renamed.get(branch_fork(name, generation), (name,))[0] != name:
            generation += 1  # that branch has another name by now
        return generation

    def _find(self, name: BranchName) -> BranchInfo | None:
        text = self.fork_of(name)
        fork = self._tables.fork_info(MANIFEST, text)
        if fork is None:
            # A branch may have been given this name since the last look.
            self._look_at_names()
            text = self.fork_of(name)
            fork = self._tables.fork_info(MANIFEST, text) if text in self._renamed() else None
        return None if fork is None else self._info(text, fork)

    def _info(self, text: str, fork: ForkInfo) -> BranchInfo:
        """The branch that a fork is, under its present name."""
        ((name, generation),) = self._named(text)
        info = branch_info(name, text, fork)
        if info.parent is not None and self._renamed():
            above = self._parent_fork(info)
            if above is not None:
                info = replace(info, parent=self._named(above)[0][0])
        return replace(info, generation=generation)

    def forget(self, branch: BranchName) -> None:
        """Drop what is remembered of a branch, for instance because it was deleted."""
        with self._lock:
            known = self._readers.pop(branch, None)
        if known is not None and known.info.fork is not None:
            self._tables.forget_fork(MANIFEST, known.info.fork)

    def exists(self, name: BranchName) -> bool:
        """True if there is a branch of this name now."""
        return name == MAIN or self._find(name) is not None

    # -- the present -----------------------------------------------------------------------------

    def snapshot(self, branch: BranchName) -> GraphVersion:
        """The newest published state of a branch."""
        missing: list[BranchInfo] = []
        for _ in range(tuning.active.manifest_looks_max):
            reader = self._reader(branch)
            try:
                snapshot = reader.refresh()
            except StorageFailure as failure:
                if branch == MAIN or failure.kind is not FailureKind.NOT_FOUND:
                    raise
                missing.append(reader.info)
                # Deleted while it was read, and perhaps made again: look from the beginning.
                self.forget(branch)
                continue
            if self._still_exists(reader.info):
                if self._settle_torn and self._tables.torn_versions(MANIFEST, snapshot.fork):
                    self._settle_torn(snapshot)
                return snapshot
        if len(missing) == tuning.active.manifest_looks_max and len(set(missing)) == 1:
            raise branch_files_missing(branch, f"{MANIFEST}/tree/{missing[0].fork}")
        text = f"branch '{branch}' is deleted and made again while it is read"
        raise Conflict(Code.BRANCH_REPLACED, text, branch=branch)

    def is_newest(self, snapshot: GraphVersion) -> bool:
        """True if nothing was published since a snapshot was taken; False if that is not clear.

        It costs one look for a file, however much is new.
        """
        reader = self._readers.get(snapshot.branch)
        return reader is not None and reader.is_newest(snapshot) and self._still_exists(reader.info)

    def format(self, branch: BranchName) -> ManifestFormat:
        """The format of the manifest of a branch, as of its last refresh."""
        reader = self._reader(branch)
        if reader.format is None:
            self.snapshot(branch)
            reader = self._reader(branch)
        assert reader.format is not None, "it was read"
        return reader.format

    def is_original(self, snapshot: GraphVersion) -> bool:
        """True for a state that the original wrote."""
        pin = Pin(path=MANIFEST, version=snapshot.manifest_version, branch=snapshot.fork)
        return format_of(self._tables.open(pin)).is_original

    def commits(self, branch: BranchName) -> CommitLog:
        """Every commit in the history of the branch, as of its last refresh."""
        return self._reader(branch).index.commits

    def find_key(self, branch: BranchName, key: str) -> CommitRecord | None:
        """The commit that carried an idempotency key, if any, as of the last refresh."""
        return self._reader(branch).index.commits.find_key(key)

    def perhaps_held(
        self, branch: BranchName, version: int, records: Iterable[Record]
    ) -> list[str]:
        """The keys of those records that the manifest may hold at a version.

        A reader that has folded a later version has more keys, never fewer.
        """
        reader = self._reader(branch)
        known = reader.has_folded(version)
        return [
            object_id(record)
            for record in records
            if not known or reader.index.perhaps_holds(record)
        ]

    def published(self, base: GraphVersion, records: tuple[Record, ...]) -> None:
        """Note the records that the state after `base` has beyond it."""
        reader = self._readers.get(base.branch)
        if reader is not None and reader.info.incarnation == base.incarnation:
            reader.published(base.manifest_version + 1, records)

    def _still_exists(self, info: BranchInfo) -> bool:
        """True if the branch still exists; otherwise what was read of it is forgotten."""
        if info.name == MAIN or not self._deleted.is_deleted(info.name, info.generation):
            return True
        self.forget(info.name)
        return False

    def still_exists(self, snapshot: GraphVersion) -> bool:
        """True if the branch of a snapshot still exists and was not deleted meanwhile."""
        if snapshot.fork is None:
            return True
        return self.has_branch(snapshot.branch, snapshot.generation)

    def has_branch(self, name: BranchName, generation: int) -> bool:
        """True if this branch of a name is neither deleted nor renamed."""
        return not self._deleted.is_deleted(name, generation)

    def _reader(self, branch: BranchName) -> BranchReader:
        with self._lock:
            reader = self._readers.get(branch)
        if reader is None:
            info = self.branch(branch)
            fresh = self._new_reader(info)
            with self._lock:
                reader = self._readers.setdefault(branch, fresh)
        return reader

    def _new_reader(self, info: BranchInfo) -> BranchReader:
        ancestry = self._ancestry(info)
        return BranchReader(
            self._tables, self._originals, info, ancestry, self._clock, self.remember
        )

    def _ancestry(self, info: BranchInfo) -> tuple[BranchName, ...]:
        """The names under which the manifest has the head of a branch, or of its parents."""
        chain = []
        while info.parent is not None:
            chain.append(BranchName(branch_parts(str(info.fork))[0]))
            info = self._parent(info, info.parent)
        return (*chain, MAIN)

    def _parent(self, info: BranchInfo, name: BranchName) -> BranchInfo:
        """The origin of a branch, found by its fork: its name may now be that of another one."""
        parent = self._parent_fork(info)
        if parent is None:
            return self.branch(name)
        fork = self._tables.fork_info(MANIFEST, parent)
        if fork is None:
            text = f"what branch '{info.name}' was made from, '{name}', is not stored any more"
            raise NotFound(Code.NOT_FOUND, text, branch=name)
        return self._info(parent, fork)

    def _parent_fork(self, info: BranchInfo) -> str | None:
        """The fork that a branch was made from, if need be by way of its staging ref."""
        if info.staging_ref is None:
            return info.parent_fork
        staged = self._tables.fork_info(MANIFEST, info.staging_ref)
        return None if staged is None else staged.parent_branch

    def remember(self, snapshot: GraphVersion) -> None:
        """Keep a snapshot at hand that will be asked for again by its version."""
        with self._lock:
            self._past[snapshot.incarnation, snapshot.manifest_version] = snapshot
            while len(self._past) > tuning.active.past_versions_max:
                self._past.popitem(last=False)
