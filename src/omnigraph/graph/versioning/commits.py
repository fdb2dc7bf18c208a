"""History: the commits of a graph, as the facade shows them, and the log drawn as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from omnigraph.core.commits.lineage import Node, newest_first
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.repository import Repository
from omnigraph.graph.arguments import whole_number
from omnigraph.graph.values import commit_of
from omnigraph.graph.versioning.diff import Diff
from omnigraph.policy.authorization import Authorizer, Permission
from omnigraph.results.commits import Commit
from omnigraph.types import MAIN, BranchName, CommitId


class Commits:
    """The commits of one graph; `graph.commits`."""

    __slots__ = ("_authorizer", "_branch", "_diff", "_repo")

    def __init__(
        self,
        repo: Repository,
        authorizer: Authorizer,
        diff: Callable[[str, str], Diff],
        branch: BranchName = MAIN,
    ) -> None:
        """Show the history of this repository; `diff` compares two of its commits."""
        self._repo = repo
        self._authorizer = authorizer
        self._diff = diff
        self._branch = branch

    def list(
        self, branch: str | None = None, *, actor: str | None = None, limit: int | None = None
    ) -> list[Commit]:
        """The commits of a branch, newest first.

        Example:
            ```python
            newest = graph.commits.list(limit=1)[0]
            assert newest.id == graph.snapshot().commit
            ```

        Args:
            branch: Which branch; by default `main`.
            actor: Only what this actor did.
            limit: At most so many.
        """
        most = None if limit is None else whole_number(limit, "a limit", 0)
        return list(islice(self.walk(branch, actor=actor), most))

    def walk(self, branch: str | None = None, *, actor: str | None = None) -> Iterator[Commit]:
        """The commits of a branch, newest first, one at a time."""
        known = self._branch if branch is None else BranchName(branch)
        self._authorizer.ask(Permission.READ, known)
        return map(commit_of, self._repo.commits(known, actor=actor))

    def log(
        self,
        branch: str | None = None,
        *,
        branches: Sequence[str] | None = None,
        limit: int = 20,
    ) -> str:
        """The newest commits as a graph of lines, with those that merges brought along.

        Of commits of deleted branches only the ids are known.

        Example:
            ```python
            graph.branches.create("draft")
            graph.mutate('query q() { insert Person { name: "Cy" } }', branch="draft")
            graph.branches.merge("draft")
            assert "(main) branch_merge" in graph.commits.log(limit=2)
            ```

        Args:
            branch: Which branch.
            branches: These branches instead.
            limit: At most so many commits.
        """
        most = whole_number(limit, "a limit", 1)
        known = self._branch if branch is None else BranchName(branch)
        names = [BranchName(name) for name in branches] if branches else [known]
        heads: dict[str, list[str]] = {}
        for name in names:
            self._authorizer.ask(Permission.READ, name)
            heads.setdefault(str(self._repo.snapshot(name).head), []).append(str(name))
        find = self._repo.whole_ancestry().find
        commits = islice(newest_first(find, map(CommitId, heads)), most)
        return "".join(f"{line}\n" for line in drawn(list(commits), heads))

    def show(self, commit: str) -> Commit:
        """One commit by its id, of any branch.

        Example:
            ```python
            commit = graph.commits.show(graph.snapshot().commit)
            assert commit.branch == "main"
            ```
        """
        self._authorizer.ask(Permission.READ)
        found = commit_of(self._repo.commit_info(CommitId(commit)))
        self._authorizer.ask(Permission.READ, found.branch)
        return found

    def version(self, commit: str) -> int | None:
        """The version of the manifest that a commit made; None if it was not recorded."""
        found = self.show(commit)
        log = self._repo.manifest.commits(BranchName(found.branch))
        return log.manifest_version(CommitId(commit))

    def changes(self, commit: str) -> Diff:
        """The changes that a commit made to the state of its first parent, in a stable order.

        `Diff.after` goes on behind a change, so they can be read page by page.

        Example:
            ```python
            graph.mutate('query more() { insert Person { name: "Cy" } }')
            changes = graph.commits.changes(graph.snapshot().commit)
            assert [change.id for change in changes] == ["Cy"]
            ```
        """
        found = self.show(commit)
        return self._diff(found.parent_id or found.id, found.id)


def drawn(commits: Sequence[Node], heads: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the lines of the graph, newest commit first.

    A lane is a column of the drawing. It leads from a commit down to the next one that is a parent
    of it. A parent that is not among the commits ends its lane.

    Args:
        commits: The commits; a commit stands before its parents.
        heads: The branches whose newest commit a commit is, by its id.
    """
    known = {commit.id for commit in commits}
    lanes: list[str] = []  # the commit that each lane leads to
    for commit in commits:
        if commit.id not in lanes:
            lanes.append(commit.id)
        lane = lanes.index(commit.id)
        marks = " ".join("*" if each == lane else "|" for each in range(len(lanes)))
        yield f"{marks}  {_described(commit, heads.get(commit.id, ()))}"
        yield from _go_on(lanes, lane, commit, known)


def _go_on(lanes: list[str], lane: int, commit: Node, known: set[CommitId]) -> Iterator[str]:
    """Lead the lane of a commit to its parents, and join lanes that lead to the same commit."""
    merged, parent = commit.merged_parent_id, commit.parent_id
    if merged is not None and merged in known and merged not in lanes:
        yield "| " * lane + "|\\" + " \\" * (len(lanes) - lane - 1)
        lanes.insert(lane + 1, merged)
    if parent is None or parent not in known:
        if lane < len(lanes) - 1:
            yield "| " * lane + " /" * (len(lanes) - lane - 1)
        del lanes[lane]
        return
    lanes[lane] = parent
    first = lanes.index(parent)
    last = len(lanes) - 1 - lanes[::-1].index(parent)
    if first != last:
        yield "| " * first + "|" + "_|" * (last - first - 1) + "/" + " /" * (len(lanes) - last - 1)
        del lanes[last]


def _described(commit: Node, heads: Sequence[str]) -> str:
    if not isinstance(commit, CommitRecord):
        return f"{commit.id}  of a deleted branch"
    names = f"({', '.join(heads)}) " if heads else ""
    actor = "" if commit.actor is None else f" by {commit.actor}"
    message = "" if commit.message is None else f": {commit.message.splitlines()[0]}"
    return f"{commit.id}  {names}{commit.kind}{actor}{message}"
