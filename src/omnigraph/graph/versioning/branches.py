"""Branches, as the facade shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Literal

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.keys import RESULT, CallKey
from omnigraph.core.repository import Repository
from omnigraph.core.revisions import Revision, Revisions
from omnigraph.errors import Code, GraphError, InvalidInput, JsonValue, NotFound
from omnigraph.exec.merge.merger import Merger
from omnigraph.exec.merge.requests import Merged, MergeRequest, ResetRequest, RevertRequest
from omnigraph.exec.merge.resolution_file import Resolution, as_resolve
from omnigraph.exec.merge.tasks import Running
from omnigraph.graph.arguments import key_of
from omnigraph.graph.values import commit_of
from omnigraph.policy.authorization import Authorizer, Permission
from omnigraph.results.commits import Branch
from omnigraph.results.merging import MergeResult, ResetResult
from omnigraph.types import MAIN, Actor, BranchName, CommitId, CommitMessage


class Branches:
    """The branches of one graph; `graph.branches`."""

    __slots__ = ("_actor", "_authorizer", "_branch", "_merger", "_repo")

    def __init__(
        self,
        repo: Repository,
        authorizer: Authorizer,
        actor: str | None = None,
        branch: BranchName = MAIN,
        running: Running | None = None,
    ) -> None:
        """Show and change the branches of this repository, on behalf of an actor.

        Large merges run on what `running` opens.
        """
        self._repo = repo
        self._authorizer = authorizer
        self._actor = actor
        self._branch = branch
        self._merger = Merger(repo, running=running)

    def create(
        self,
        name: str,
        from_: str = "main",
        *,
        at: Revision | None = None,
        idempotency_key: str | None = None,
    ) -> Branch:
        """Make a branch. It takes one small write, however large the graph is.

        Example:
            ```python
            made = graph.branches.create("agent/42")
            assert (made.parent, made.head) == ("main", graph.snapshot().commit)
            ```

        Args:
            name: Letters, digits, `.`, `-`, `_`, and slashes between segments.
            from_: The branch to start from.
            at: An older state to start from: a commit of that branch, a tag, a time or
                `main~3`; see `Graph.snapshot`.
            idempotency_key: Names the operation, so that repeating it does it once.
        """
        made, source = BranchName(name), BranchName(from_)
        self._authorizer.ask(Permission.BRANCH_CREATE, made, source=source)
        key = key_of(idempotency_key, "branch_create", name, from_, None if at is None else str(at))
        if key is not None:
            find = partial(self._start_version, at, source)
            return _branch(self._repo.keyed_branches.create(made, find, key, self._actor))
        start = self._start_version(at, source)
        info = self._repo.create_branch(made, start=start)
        return Branch(
            name=str(made),
            parent=str(info.parent),
            head=str(start.head),
            protected=self._repo.refs.is_protected(made),
        )

    def _start_version(self, at: Revision | None, source: BranchName) -> GraphVersion:
        if at is None:
            return self._repo.snapshot(source)
        return self._repo.snapshot_at(self._start(at, source), source)

    def _start(self, at: Revision, source: BranchName) -> CommitId:
        """The commit that a branch starts from; one that is named by its id is of the source."""
        commit = Revisions(self._repo).resolve(at, source).head
        if commit == at and commit not in self._repo.manifest.commits(source):
            text = f"branch '{source}' has no commit {commit}"
            raise NotFound(Code.NOT_FOUND, text, branch=source, commit=commit)
        return commit

    def list(self) -> list[str]:
        """The names of all branches, sorted.

        Example:
            ```python
            assert graph.branches.list() == ["main"]
            ```
        """
        self._authorizer.ask(Permission.READ)
        self._repo.require_open()
        return [str(name) for name in self._repo.branches.list()]

    def show(self, name: str) -> Branch:
        """One branch."""
        branch = BranchName(name)
        self._authorizer.ask(Permission.READ, branch)
        snapshot = self._repo.snapshot(branch)
        info = self._repo.manifest.branch(branch)
        parent = None if info.parent is None else str(info.parent)
        return Branch(
            name=str(branch),
            parent=parent,
            head=str(snapshot.head),
            protected=self._repo.refs.is_protected(branch),
        )

    def delete(
        self, name: str, *, if_head: str | None = None, idempotency_key: str | None = None
    ) -> None:
        """Delete a branch; its commits that no other branch shares go with it.

        That is refused while others were made from it, while it has writers, while one of
        its own commits has a tag, and for protected branches.

        Example:
            ```python
            made = graph.branches.create("draft")
            graph.branches.delete("draft", if_head=made.head)
            ```

        Args:
            name: The branch.
            if_head: Only if this commit is still the newest of the branch.
            idempotency_key: Names the operation, so that repeating it does it once.
                A branch that was made again since stays.

        Raises:
            Conflict: The branch is in use (code `branch_in_use`).
            PreconditionFailed: `if_head` is not its newest commit.
            Forbidden: It is protected (code `branch_protected`).
        """
        known = BranchName(name)
        self._authorizer.ask(Permission.BRANCH_DELETE, known)
        key = key_of(idempotency_key, "branch_delete", name, if_head)
        self._delete(known, None if if_head is None else CommitId(if_head), key, self._actor)

    def _delete(
        self, name: BranchName, if_head: CommitId | None, key: CallKey | None, actor: str | None
    ) -> None:
        if key is None:
            self._repo.delete_branch(name, if_head=if_head)
        else:
            self._repo.keyed_branches.delete(name, key, if_head=if_head, actor=actor)

    def rename(
        self,
        name: str,
        to: str,
        *,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Branch:
        """Give a branch another name. Its commits, tags and the branches made from it stay.

        A cursor of its change feed goes on; a handle that has the old name does not find the
        branch any more.

        Example:
            ```python
            graph.branches.create("draft")
            assert graph.branches.rename("draft", "spring/draft").parent == "main"
            assert graph.branches.list() == ["main", "spring/draft"]
            ```

        Args:
            name: The branch; not `main` and not a protected one.
            to: The new name, which no branch and no tag has.
            message: Why, for the records.
            actor: Who does it; the actor of the handle if not given.
            idempotency_key: Names the operation, so that repeating it does it once.

        Raises:
            Conflict: The new name is taken (`branch_exists`, `tag_exists`), or a writer is at work
                on the branch (`branch_in_use`).
            Forbidden: The branch is protected (code `branch_protected`).
        """
        known, made = BranchName(name), BranchName(to)
        who = self._actor if actor is None else Actor(actor)
        # It is what making the new one and deleting the old one would take.
        self._authorizer.ask(Permission.BRANCH_CREATE, made, source=known, actor=who)
        self._authorizer.ask(Permission.BRANCH_DELETE, known, actor=who)
        key = key_of(idempotency_key, "branch_rename", name, to)
        done = self._repo.refs.done(key)
        if done is not None:
            return _branch(done.details[RESULT])
        found = None if key is None else replace(self.show(known), name=str(made))
        self._repo.refs.rename_branch(
            known,
            made,
            actor=who,
            message=None if message is None else CommitMessage(message),
            key=key,
            result=None if found is None else asdict(found),
        )
        return found or self.show(made)

    def protect(
        self,
        name: str,
        *,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Branch:
        """Protect a branch: it is neither deleted, renamed nor reset. `main` is from the beginning.

        Example:
            ```python
            graph.branches.create("release")
            assert graph.branches.protect("release").protected
            ```

        Args:
            name: The branch.
            message: Why, for the records.
            actor: Who does it; the actor of the handle if not given.
            idempotency_key: Names the operation, so that repeating it does it once.
        """
        return self._protect(name, True, message, actor, idempotency_key)

    def unprotect(
        self,
        name: str,
        *,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> Branch:
        """Protect a branch no longer. `main` can be reset then, and never be deleted."""
        return self._protect(name, False, message, actor, idempotency_key)

    def _protect(
        self,
        name: str,
        protected: bool,
        message: str | None,
        actor: str | None,
        idempotency_key: str | None,
    ) -> Branch:
        known, who = BranchName(name), self._actor if actor is None else Actor(actor)
        self._authorizer.ask(Permission.BRANCH_PROTECT, known, actor=who)
        key = key_of(idempotency_key, "branch_protect", name, protected)
        done = self._repo.refs.done(key)
        if done is not None:
            return _branch(done.details[RESULT])
        found = None if key is None else replace(self.show(known), protected=protected)
        self._repo.refs.protect(
            known,
            protected=protected,
            actor=who,
            message=None if message is None else CommitMessage(message),
            key=key,
            result=None if found is None else asdict(found),
        )
        return found or self.show(name)

    def merge(  # noqa: PLR0913
        self,
        source: str,
        into: str = "main",
        *,
        resolve: Resolution | None = None,
        granularity: Literal["property", "row"] = "property",
        dry_run: bool = False,
        delete_branch: bool = False,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Bring the changes of one branch into another; one commit with two parents, or nothing.

        Entities are compared with the latest commit that both branches share. What one side
        changed is taken; what both sides changed to different values is a conflict. All rules of
        the schema hold for the result. Only files that the branches do not share are looked at.

        Example:
            ```python
            graph.branches.create("draft")
            graph.mutate('query q() { insert Person { name: "Cy" } }', branch="draft")
            done = graph.branches.merge("draft")
            assert done.outcome == "fast_forward"
            assert done.counts["node:Person"].inserted == 1
            ```

        Args:
            source: The branch whose changes are taken.
            into: The branch that gets them.
            resolve: How conflicts are settled: by `ours`, the branch that is merged into, by
                `theirs`, the source; by a function that is given each conflict and answers with
                one of these, with `base`, with a dictionary of values, or with None to leave it;
                or by a file (`.jsonl`), of which `MergeResult.write_resolutions` of a dry run
                writes the template.
            granularity: `property`: changes of different properties of one entity do not
                conflict. `row`: they do.
            dry_run: Say what would happen, conflicts included, and change nothing.
            delete_branch: Delete the source afterwards, unless it was written to since.
                If that is refused, the result says so.
            message: What the commit is about, to be read in the history.
            actor: Who does it; the actor of the handle if not given.
            idempotency_key: Names the operation, so that repeating it does it once.

        Raises:
            Conflict: The branches disagree (code `merge_conflict`); `error.conflicts` lists where.
            InvalidInput: A branch is merged into itself, an argument is wrong, or a line of the
                file of resolutions does not fit the conflicts that there are.
            NotFound: There is no such branch.
        """
        if granularity not in ("property", "row"):
            text = f"the granularity is 'property' or 'row', not {granularity!r:.80}"
            raise InvalidInput(Code.INPUT_INVALID, text)
        request = MergeRequest(
            source=BranchName(source),
            into=BranchName(into),
            resolve=as_resolve(resolve),
            by_row=granularity == "row",
            dry_run=dry_run,
            actor=self._actor if actor is None else Actor(actor),
            message=None if message is None else CommitMessage(message),
            key=key_of(idempotency_key, "branch_merge", source, into, granularity),
        )
        self._authorizer.ask(
            Permission.BRANCH_MERGE, request.into, source=request.source, actor=request.actor
        )
        if delete_branch:
            self._authorizer.ask(Permission.BRANCH_DELETE, request.source, actor=request.actor)
        merged = self._merger.merge(request)
        done = _merge_result(merged, str(request.source), str(request.into))
        if not delete_branch or dry_run:
            return done
        # Not the key of the merge: that is on its commit already.
        after = None if idempotency_key is None else f"{idempotency_key}, then delete"
        key = CallKey.of(after, "branch_delete", source, str(merged.source))
        try:
            self._delete(request.source, merged.source, key, request.actor)
        except GraphError as error:
            return replace(done, branch_delete_error=str(error))
        return replace(done, branch_deleted=True)

    def reset(
        self,
        name: str,
        to: Revision,
        *,
        if_head: str | None = None,
        dry_run: bool = False,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> ResetResult:
        """Give a branch the state of an older commit back, as a new commit.

        History stays: the former head is the parent of the new commit, and a reset is taken back
        by another one. Only files that the two states do not share are looked at.

        Example:
            ```python
            graph.branches.create("draft")
            graph.mutate('query q() { delete Person where name = "Bo" }', branch="draft")
            done = graph.branches.reset("draft", to="draft~1")
            assert done.counts["node:Person"].inserted == 1
            assert done.commit.parent_id == done.former_head
            ```

        Args:
            name: The branch; not a protected one.
            to: The state: a commit, a tag, `draft~1` or a time; see `Graph.snapshot`.
            if_head: Only if this commit is still the newest of the branch; otherwise the one that
                is found has to stay the newest until the reset is done. It never starts over.
            dry_run: Say what would change, and change nothing.
            message: What the commit is about, to be read in the history.
            actor: Who does it; the actor of the handle if not given.
            idempotency_key: Names the operation, so that repeating it does it once.

        Raises:
            Forbidden: The branch is protected (code `branch_protected`).
            PreconditionFailed: Another writer has written to the branch meanwhile.
            NotFound: There is no such branch or state.
        """
        branch, who = BranchName(name), self._actor if actor is None else Actor(actor)
        self._authorizer.ask(Permission.CHANGE, branch, actor=who)
        request = ResetRequest(
            branch=branch,
            to=to,
            if_head=None if if_head is None else CommitId(if_head),
            dry_run=dry_run,
            actor=who,
            message=None if message is None else CommitMessage(message),
            key=key_of(idempotency_key, "reset", name, str(to), if_head),
        )
        done = self._merger.reset(request)
        return ResetResult(
            branch=str(branch),
            to=str(done.source),
            former_head=str(done.base),
            commit=None if done.commit is None else commit_of(done.commit),
            counts=done.counts,
            replayed=done.replayed,
        )

    def revert(
        self,
        commit: Revision,
        branch: str | None = None,
        *,
        resolve: Resolution | None = None,
        dry_run: bool = False,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Take back what a commit changed, as a new commit.

        What later commits have changed, too, is a conflict, as in a merge: `ours` is the branch as
        it is, `theirs` the state before the commit. A merge commit is taken back as a whole. If
        nothing of it is left to be taken back, there is no commit.

        Example:
            ```python
            wrong = graph.mutate('query q() { delete Person where name = "Bo" }').commit
            done = graph.branches.revert(wrong.id)
            assert done.counts["node:Person"].inserted == 1
            ```

        Args:
            commit: The commit, of the history of the branch: its id, a tag or `main~1`.
            branch: The branch on which it is taken back.
            resolve: How conflicts are settled, as for `merge`.
            dry_run: Say what would happen, conflicts included, and change nothing.
            message: What the commit is about, to be read in the history.
            actor: Who does it; the actor of the handle if not given.
            idempotency_key: Names the operation, so that repeating it does it once.

        Raises:
            Conflict: Later commits have changed the same (code `merge_conflict`).
            InvalidInput: The commit is not in the history of the branch, or is its first one.
        """
        known = self._branch if branch is None else BranchName(branch)
        request = RevertRequest(
            commit=commit,
            branch=known,
            resolve=as_resolve(resolve),
            dry_run=dry_run,
            actor=self._actor if actor is None else Actor(actor),
            message=None if message is None else CommitMessage(message),
            key=key_of(idempotency_key, "revert", str(known), str(commit)),
        )
        self._authorizer.ask(Permission.CHANGE, request.branch, actor=request.actor)
        done = self._merger.revert(request)
        return _merge_result(done, str(done.source), str(request.branch))


def _branch(found: JsonValue) -> Branch:
    """The branch that a first call has returned, as it was recorded."""
    assert isinstance(found, Mapping), "every call with a key records it"
    parent = found["parent"]
    return Branch(
        name=str(found["name"]),
        parent=None if parent is None else str(parent),
        head=str(found["head"]),
        protected=bool(found["protected"]),
    )


def _merge_result(done: Merged, source: str, into: str) -> MergeResult:
    """The result of a merge, as users see it."""
    return MergeResult(
        outcome=done.outcome.value,
        commit=None if done.commit is None else commit_of(done.commit),
        source=source,
        into=into,
        base=str(done.base),
        counts=done.counts,
        conflicts=done.conflicts,
        settled=done.settled,
        replayed=done.replayed,
    )
