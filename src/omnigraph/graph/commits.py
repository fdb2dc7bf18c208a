"""History: the commits of a graph, as the facade shows them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from omnigraph.core.engine import Engine
from omnigraph.graph.values import Commit, commit_of
from omnigraph.types import BranchName, CommitId


class Commits:
    """The commits of one graph; `graph.commits`."""

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        """Show the history of this engine."""
        self._engine = engine

    def list(
        self, branch: str = "main", *, actor: str | None = None, limit: int | None = None
    ) -> list[Commit]:
        """The commits of a branch, newest first.

        Args:
            branch: Which branch.
            actor: Only what this actor did.
            limit: At most so many.
        """
        return list(islice(self.walk(branch, actor=actor), limit))

    def walk(self, branch: str = "main", *, actor: str | None = None) -> Iterator[Commit]:
        """The commits of a branch, newest first, one at a time."""
        return map(commit_of, self._engine.commits(BranchName(branch), actor=actor))

    def show(self, commit: str) -> Commit:
        """One commit by its id, whatever branch it was made on."""
        return commit_of(self._engine.commit_info(CommitId(commit)))
