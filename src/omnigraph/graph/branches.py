"""Branches, as the facade shows them."""

from __future__ import annotations

from omnigraph.core.repository import Repository
from omnigraph.errors import Code, NotFound
from omnigraph.graph.values import Branch
from omnigraph.types import BranchName, CommitId


class Branches:
    """The branches of one graph; `graph.branches`."""

    __slots__ = ("_repo",)

    def __init__(self, repo: Repository) -> None:
        """Show and change the branches of this repository."""
        self._repo = repo

    def create(self, name: str, from_: str = "main", *, at: str | None = None) -> Branch:
        """Make a branch. It takes one small write, however large the graph is.

        Example:
            ```python
            made = graph.branches.create("agent/42")
            assert (made.parent, made.head) == ("main", graph.snapshot().commit)
            ```

        Args:
            name: Letters, digits, `.`, `-`, `_`, and slashes between segments.
            from_: The branch to start from.
            at: A commit of that branch to start from, instead of its newest one.
        """
        commit = None if at is None else CommitId(at)
        made, source = BranchName(name), BranchName(from_)
        if commit is not None:
            self._repo.snapshot(source)
            if commit not in self._repo.manifest.commits(source):
                text = f"branch '{source}' has no commit {commit}"
                raise NotFound(Code.NOT_FOUND, text, branch=source, commit=commit)
        self._repo.create_branch(made, source=source, commit=commit)
        return self.show(made)

    def list(self) -> list[str]:
        """The names of all branches, sorted.

        Example:
            ```python
            assert graph.branches.list() == ["main"]
            ```
        """
        self._repo.require_open()
        return [str(name) for name in self._repo.branches.list()]

    def show(self, name: str) -> Branch:
        """One branch."""
        branch = BranchName(name)
        snapshot = self._repo.snapshot(branch)
        info = self._repo.manifest.branch(branch)
        parent = None if info.parent is None else str(info.parent)
        return Branch(name=str(branch), parent=parent, head=str(snapshot.head))

    def delete(self, name: str) -> None:
        """Delete a branch; its commits that no other branch shares go with it.

        Example:
            ```python
            graph.branches.create("draft")
            graph.branches.delete("draft")
            ```
        """
        self._repo.delete_branch(BranchName(name))
