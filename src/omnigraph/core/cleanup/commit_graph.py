"""The commits behind all branches of a graph, each looked up once, however many branches have it.

A branch has the commits of what it was made from in its own history. So fifty branches know most
commits fifty times, and looking at each branch by itself would take fifty times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import combinations

from omnigraph.core.cleanup.retention import CommitAt, StateAt
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.lineage import (
    MERGED_COMMITS,
    Ancestry,
    Node,
    ancestors,
    merge_bases,
    merge_bases_of_all,
)
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.manifest.branch_info import BranchInfo
from omnigraph.core.manifest.manifest import Manifest
from omnigraph.types import MAIN, BranchName, CommitId


@dataclass(frozen=True, slots=True)
class _Seen:
    """A commit, and a branch in whose history it is."""

    commit: CommitRecord
    branch: BranchName


class CommitGraph:
    """The commits behind some heads, as they were when the heads were read."""

    def __init__(
        self,
        manifest: Manifest,
        heads: Mapping[BranchName, GraphVersion],
        stored: Set[tuple[str, int]],
    ) -> None:
        """Look commits up in the histories of these branches.

        Args:
            manifest: Has read the heads.
            heads: The newest state of each branch.
            stored: The versions of the manifest that are there, by fork.
        """
        self._manifest = manifest
        self._heads = heads
        self._stored = stored
        # Most commits are in the history of main.
        self._order = sorted(heads, key=lambda branch: (branch != MAIN, branch))
        self._seen: dict[CommitId, _Seen | None] = {}
        self._at: dict[CommitId, CommitAt] = {}
        self._chains: dict[BranchName, tuple[BranchInfo, ...]] = {}
        self._nodes: dict[CommitId, Node | None] = {}
        self._ancestry = Ancestry(self._commit)

    # -- single commits ----------------------------------------------------------------------------

    def _find(self, commit: CommitId, hint: BranchName | None = None) -> _Seen | None:
        if commit not in self._seen:
            order = self._order if hint is None else [MAIN, hint, *self._order]
            self._seen[commit] = next(self._in_histories(commit, order), None)
        return self._seen[commit]

    def _in_histories(self, commit: CommitId, order: Iterable[BranchName]) -> Iterator[_Seen]:
        for branch in order:
            found = self._manifest.commits(branch).get(commit)
            if found is not None:
                yield _Seen(found, branch)

    def _commit(self, commit: CommitId) -> CommitRecord | None:
        seen = self._find(commit)
        return None if seen is None else seen.commit

    def _node(self, commit: CommitId) -> Node | None:
        if commit not in self._nodes:
            node = self._ancestry.find(commit)
            if node is None:
                return None  # a merge that is looked at later may list it
            self._nodes[commit] = node
        return self._nodes[commit]

    def state_of(self, commit: CommitId) -> StateAt | None:
        """The state of a commit; None for one of which only the id is known."""
        seen = self._find(commit)
        if seen is None:
            return None
        version = self._manifest.commits(seen.branch).manifest_version(commit)
        return None if version is None else self._state(seen.branch, version)

    def _state(self, branch: BranchName, version: int) -> StateAt:
        if branch not in self._chains:
            self._chains[branch] = self._manifest.origins(branch)
        chain = self._chains[branch]
        holder = next(
            info for info in chain if info.parent is None or version > info.parent_version
        )
        return StateAt(holder.fork or "", version)

    # -- lines -------------------------------------------------------------------------------------

    def line(self, branch: BranchName) -> Iterator[CommitAt]:
        """The first-parent commits of a branch that have a state, its head first."""
        at: CommitId | None = self._heads[branch].head
        while at is not None:
            seen = self._find(at, branch)
            found = None if seen is None else self._commit_at(seen)
            if seen is None or found is None:
                return
            yield found
            at = seen.commit.parent_id

    def _commit_at(self, seen: _Seen) -> CommitAt | None:
        commit = seen.commit
        if commit.id not in self._at:
            state = self.state_of(commit.id)
            if state is None:
                return None
            self._at[commit.id] = CommitAt(
                state=state,
                created_at=commit.created_at,
                kind=commit.kind,
                is_stored=(state.fork, state.version) in self._stored,
            )
        return self._at[commit.id]

    # -- merge bases -------------------------------------------------------------------------------

    def merge_bases(self) -> set[CommitId]:
        """The commits with which merging any two of the branches compares."""
        tips = {head.head: branch for branch, head in self._heads.items()}
        found = set(merge_bases_of_all(self._node, tips))
        # Older merges do not list what they brought along: about them a merge of two branches knows
        # what those two know, and may compare with an older commit.
        vague = {tip for tip in tips if self._is_vague(tip)} if self._has_unlisted() else set()
        for left, right in combinations(tips, 2):
            if left in vague or right in vague:
                logs = (self._manifest.commits(tips[tip]) for tip in (left, right))
                found |= merge_bases(Ancestry(*(log.get for log in logs)).find, left, right)
        return found

    def _has_unlisted(self) -> bool:
        return any(map(_is_unlisted, self._nodes.values()))

    def _is_vague(self, tip: CommitId) -> bool:
        return any(_is_unlisted(self._node(each)) for each in ancestors(self._node, tip))


def _is_unlisted(node: Node | None) -> bool:
    """True for a merge that does not record the commits that it brought along."""
    return (
        isinstance(node, CommitRecord)
        and node.merged_parent_id is not None
        and MERGED_COMMITS not in node.details
    )
