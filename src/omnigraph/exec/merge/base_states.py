"""The states of merge bases."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.lineage import Lookup, merge_bases_of_all
from omnigraph.core.repository import Repository
from omnigraph.core.storage_errors import storage_errors
from omnigraph.errors import Code, Gone, NotFound
from omnigraph.exec.merge.recorded import OUTCOME
from omnigraph.exec.merge.requests import MergeOutcome
from omnigraph.types import BranchName, CommitId


def state_of(
    repo: Repository, base: CommitId, into: BranchName, source: BranchName
) -> GraphVersion:
    """The state of a merge base of two branches.

    Raises:
        Gone: It belongs to a branch that is deleted, and is not stored any more.
    """
    try:
        return repo.snapshot_at(base, source)
    except NotFound:
        return _same_state(repo, base, into, source)


@dataclass(frozen=True, slots=True)
class Origins:
    """The states that several merge bases come from; None where there are several, or it is gone.

    Attributes:
        nearest: The one that every two of them share; what each has changed since is its own.
        common: The latest that all of them share, the same if there is only one.
    """

    nearest: GraphVersion | None = None
    common: GraphVersion | None = None

    @classmethod
    def of(
        cls,
        repo: Repository,
        find: Lookup,
        bases: Sequence[CommitId],
        into: BranchName,
        source: BranchName,
    ) -> Origins:
        """Look for them, behind the merge bases of two branches."""
        if len(bases) == 1:
            return cls()
        roots = merge_bases_of_all(find, bases)
        nearest = _only_one(repo, roots, into, source)
        while len(roots) > 1:
            older = merge_bases_of_all(find, roots)
            if not older or max(older) >= max(roots):
                break
            roots = older
        return cls(nearest, nearest or _only_one(repo, roots, into, source))


NO_ORIGINS: Final = Origins()


def _only_one(
    repo: Repository, roots: Collection[CommitId], into: BranchName, source: BranchName
) -> GraphVersion | None:
    if len(roots) != 1:
        return None
    try:
        return state_of(repo, next(iter(roots)), into, source)
    except Gone:
        return None


def _same_state(repo: Repository, base: CommitId, *branches: BranchName) -> GraphVersion:
    """The state of a commit of a deleted branch: kept, or that of a fast-forward to it."""
    with storage_errors():
        kept = repo.manifest.at_kept_commit(base)
    if kept is not None:
        return kept
    for branch in branches:
        for commit in repo.commits(branch):
            is_forward = commit.details.get(OUTCOME) == MergeOutcome.FAST_FORWARD.value
            if commit.merged_parent_id == base and is_forward:
                # What it made of the branch is the state that it merged.
                found = repo.snapshot_at(commit.id, branch)
                return replace(found, head=base)
    text = (
        f"the state of commit {base}, the latest that both sides share, is not stored any "
        "more: it belongs to a branch that was merged into both and deleted"
    )
    raise Gone(Code.GONE, text, commit=base)
