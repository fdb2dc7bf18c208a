"""The head that `if_commit` requires, given the maintenance of a branch since that commit."""

from __future__ import annotations

from typing import Final

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.requirements import head_moved
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.repository import Repository
from omnigraph.types import CommitId

# Their commits change how fast an answer comes, never what it is.
_MAINTENANCE: Final = frozenset({WriterKind.ENSURE_INDICES, WriterKind.OPTIMIZE})


def required_head(repo: Repository, base: GraphVersion, wanted: CommitId | None) -> CommitId | None:
    """Returns the head that a write requires: that of its base, if it still has the wanted content.

    Indexes may be built and files compacted after the commit that a caller has seen. A large load
    does that itself, so a caller that names its commit must not fail for it.

    Raises:
        PreconditionFailed: Another commit has changed the content since, or the branch never had
            the wanted one.
    """
    if wanted is None:
        return None
    at, commits = base.head, repo.manifest.commits(base.branch)
    while at != wanted:
        commit = commits.get(at)
        if commit is None or commit.kind not in _MAINTENANCE or commit.parent_id is None:
            raise head_moved(base, wanted)
        at = commit.parent_id
    return base.head
