"""The manifests of a graph: its branches, their newest states, and the older ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import READ_COLUMNS, CommitRecord
from omnigraph.core.commits.requirements import branch_replaced
from omnigraph.core.layout import MANIFEST
from omnigraph.core.manifest.branch_info import MAIN_INFO, BranchInfo
from omnigraph.core.manifest.branch_reader import BranchReader
from omnigraph.core.manifest.deleted_branches import DeletedBranches
from omnigraph.core.manifest.formats import format_of
from omnigraph.core.manifest.newest_states import NewestStates
from omnigraph.core.manifest.original_formats import Originals
from omnigraph.core.manifest.successive_states import PUBLISHED, states_between
from omnigraph.core.storage_errors import missing_version, not_stored
from omnigraph.errors import Code, Corrupt, Gone, NotFound
from omnigraph.runtime import telemetry
from omnigraph.runtime.clock import Clock
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin, Tables
from omnigraph.types import MAIN, BranchName, CommitId

# Kinds of commits that never change the schema.
_ROWS_ALONE = frozenset({"mutation", "load", "transaction"})


class Manifest(NewestStates):
    """The manifests of one graph, one per branch. Thread-safe."""

    def __init__(
        self,
        tables: Tables,
        deleted: DeletedBranches,
        originals: Originals,
        settle_torn: Callable[[GraphVersion], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Read through these tables; what power cuts left in them is judged by `settle_torn`."""
        super().__init__(tables, deleted, originals, settle_torn, clock)
        self._walker: BranchReader | None = None  # has read an older state last

    def at_version(self, branch: BranchName, version: int) -> GraphVersion:
        """The state of a branch at an older manifest version.

        What is older than the branch is answered by the branch that it was made from.
        """
        asked = self.branch(branch)
        return self._at(self._holder(asked, version), version, asked)

    def holder(self, branch: BranchName, version: int) -> BranchInfo:
        """The branch whose manifest has a version: a branch itself, or what it was made from."""
        return self._holder(self.branch(branch), version)

    def place_of(self, branch: BranchName, commit: CommitId) -> GraphVersion | None:
        """The place of the state of a commit; None when only the id of the commit is known.

        Tables and schema are those of the newest state of the branch.
        """
        version = self.commits(branch).manifest_version(commit)
        if version is None:
            return None
        fork = self.holder(branch, version).fork  # it may be older than the branch
        return replace(self.snapshot(branch), head=commit, manifest_version=version, fork=fork)

    def origins(self, branch: BranchName) -> tuple[BranchInfo, ...]:
        """A branch, the one that it was made from, and so on to main."""
        found = [self.branch(branch)]
        while (parent := found[-1].parent) is not None:
            found.append(self._parent(found[-1], parent))
        return tuple(found)

    def _holder(self, info: BranchInfo, version: int) -> BranchInfo:
        while info.parent is not None and version <= info.parent_version:
            info = self._parent(info, info.parent)
        return info

    def at_state(self, fork: str | None, version: int) -> GraphVersion:
        """The state at a version of the manifest, on main or on the fork that a branch is."""
        if fork is None:
            return self._at(MAIN_INFO, version, MAIN_INFO)
        found = self._tables.fork_info(MANIFEST, fork)
        if found is None:
            raise NotFound(Code.NOT_FOUND, f"there is no fork {fork!r} of the manifest", fork=fork)
        # Also of a deleted branch whose files stay.
        return self._at(self._info(fork, found), version, MAIN_INFO)

    def _at(self, info: BranchInfo, version: int, asked: BranchInfo) -> GraphVersion:
        """A state of a branch, if the one that was asked for it still exists."""
        with self._lock:
            known = self._past.get((info.incarnation, version))
            reader = self._readers.get(info.name)
        # It is read again for a branch that was renamed since.
        if known is not None and (known.branch, known.generation) == (info.name, info.generation):
            return known
        if reader is not None and reader.info == info and reader.is_at(version):
            return reader.known()
        # History is read upwards: of the next state only what is new is read.
        with self._lock:
            walker, self._walker = self._walker, None
        if walker is None or walker.info != info or walker.loaded > version:
            walker = self._new_reader(info)
        try:
            snapshot = walker.load(version)
        except StorageFailure as failure:
            if failure.kind is FailureKind.NOT_FOUND:
                raise self.missing_state(info.name, info.fork, version) from failure
            raise
        with self._lock:
            self._walker = walker
        # What it was made from may be deleted; those files are there as long as the branch is.
        if not self._still_exists(asked):
            raise branch_replaced(asked.name)
        self.remember(snapshot)
        return snapshot

    def missing_state(self, name: BranchName, fork: str | None, version: int) -> Gone | NotFound:
        """The error of a version of the manifest of a branch that is missing."""
        last = self._tables.head(MANIFEST, fork)
        if 0 < version <= last:
            text = (
                f"a clean-up has removed the state of branch '{name}' at manifest version "
                f"{version}: read the newest one, or start a feed over with "
                "`graph.changes.baseline()`"
            )
            return Gone(Code.GONE, text, branch=name, version=version)
        text = f"branch '{name}' has no manifest version {version}, the newest is {last}"
        return NotFound(Code.NOT_FOUND, text, branch=name, version=version)

    def heads(self) -> Iterator[GraphVersion]:
        """The newest state of every branch, without those that are deleted meanwhile."""
        for name in self.names():
            try:
                yield self.snapshot(name)
            except NotFound:
                telemetry.count("manifest.branch_gone")

    def missing_table(self, pin: Pin, table_key: str) -> Corrupt | Gone:
        """The error of a version of a table that is missing: a head needs it, or it went."""
        same = (pin.path, pin.version, pin.branch)
        for head in self.heads():
            if any(same == (at.path, at.version, at.table_branch) for at in head.tables.values()):
                file = self._tables.version_file(pin)
                what = f"version {pin.version} of {table_key}, which branch '{head.branch}' needs"
                return missing_version(file, what, table_key=table_key, version=pin.version)
        return not_stored(pin.path, pin.version, table_key=table_key)

    def at_commit(self, commit: CommitId, hint: BranchName = MAIN) -> GraphVersion:
        """The state that a commit published, looked for on `hint` first."""
        branch = self.find(commit, hint)
        version = None if branch is None else self.commits(branch).manifest_version(commit)
        if branch is None or version is None:
            raise NotFound(Code.NOT_FOUND, f"commit {commit} does not exist", commit=commit)
        found = self.at_version(branch, version)
        if found.head != commit:
            text = f"commit {commit} is on no branch and has no state"
            raise NotFound(Code.NOT_FOUND, text, commit=commit)
        return found

    def at_commits(
        self, branch: BranchName, start: CommitId, commits: Sequence[CommitRecord]
    ) -> list[GraphVersion]:
        """The states of successive commits of a branch, the one they were made on first.

        Args:
            branch: The branch.
            start: The commit that the first one was made on.
            commits: The commits, oldest first; as many as belong together.
        """
        ids = [start, *(commit.id for commit in commits)]
        return self._derived(branch, ids, commits) or [
            self.at_commit(commit, branch) for commit in ids
        ]

    def _derived(
        self, branch: BranchName, ids: Sequence[CommitId], commits: Sequence[CommitRecord]
    ) -> list[GraphVersion] | None:
        """The states of commits that change only rows, if the last one gives the others."""
        log = self.commits(branch)
        versions = [log.manifest_version(each) for each in ids]
        known = [each or 0 for each in versions]
        is_plain = all(commit.kind in _ROWS_ALONE for commit in commits)
        info = self.branch(branch)
        # Nothing else may have been published in between.
        if not is_plain or known != list(range(known[0], known[0] + len(ids))):
            return None
        if known[0] <= info.parent_version:
            return None
        if not all(self._tables.has_version(MANIFEST, each, info.fork) for each in known):
            return None
        first, last = (self.at_commit(each, branch) for each in (ids[0], ids[-1]))
        table = self._tables.open(Pin(path=MANIFEST, version=known[-1], branch=info.fork))
        if format_of(table).is_original:
            return None
        rows = table.read(READ_COLUMNS, filter=PUBLISHED)
        found = states_between(first, last, list(zip(ids[1:], known[1:], strict=True)), rows)
        return None if found is None else [first, *found]

    def find(self, commit: CommitId, hint: BranchName = MAIN) -> BranchName | None:
        """A branch whose history has a commit, `hint` first."""
        if self._has(hint, commit):
            return hint
        others = (branch for branch in self.names() if branch != hint)
        return next((branch for branch in others if self._has(branch, commit)), None)

    def _has(self, branch: BranchName, commit: CommitId) -> bool:
        try:
            self.snapshot(branch)
        except NotFound:
            telemetry.count("manifest.branch_gone")  # deleted or renamed since it was named
            return False
        return commit in self.commits(branch)

    def at_kept_commit(self, commit: CommitId) -> GraphVersion | None:
        """The state of a commit of a deleted branch whose files are still there."""
        for info in self.deleted_branches():
            try:
                version = self.log_of(info).manifest_version(commit)
                if version is not None and version > info.parent_version:
                    reader = self._new_reader(info)
                    return reader.load(version)
            except StorageFailure as failure:
                if failure.kind is not FailureKind.NOT_FOUND:
                    raise
        return None
