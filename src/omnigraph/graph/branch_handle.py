"""A graph as one of its branches shows it."""

from __future__ import annotations

from typing import Any

from omnigraph.core.revisions import Revision
from omnigraph.graph.facade import Graph
from omnigraph.results.merging import MergeResult, ResetResult


class BranchHandle(Graph):
    """One branch of an open graph, with every call of the graph. Made by `Graph.branch`.

    A call that takes `branch=` is for this branch unless it names another one, and `~n` in `at=`
    counts from its newest commit. The handle is closed with its graph.
    """

    def __repr__(self) -> str:
        return f"BranchHandle({self.uri!r}, {self.name!r}, mode={self.mode!r})"

    @property
    def name(self) -> str:
        """The name of the branch."""
        return str(self._branch)

    def merge(self, into: str = "main", **terms: Any) -> MergeResult:
        """Bring the changes of this branch into another one; see `Branches.merge`.

        Args:
            into: The branch that gets them.
            terms: The other arguments of `Branches.merge`.
        """
        return self.branches.merge(self.name, into, **terms)

    def revert(self, commit: str, **terms: Any) -> MergeResult:
        """Take back what a commit of this branch changed; see `Branches.revert`."""
        return self.branches.revert(commit, self.name, **terms)

    def reset(self, to: Revision, **terms: Any) -> ResetResult:
        """Give this branch the state of an older commit back; see `Branches.reset`."""
        return self.branches.reset(self.name, to, **terms)

    def close(self) -> None:
        """Leave the graph open: the handle ends with it."""
