"""The facade: an open graph. Each call pins one base and delegates.

What a query or a mutation does not need is imported by the first call that does: a process that
opens a graph and reads it does not wait for merges, algorithms and the data plane.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Self

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.retry import following_schema
from omnigraph.core.revisions import Revision
from omnigraph.exec.mutate.mutator import Mutated, MutationRequest
from omnigraph.exec.read.profile import Profile
from omnigraph.exec.read.rows import Rows
from omnigraph.graph.arguments import commit_terms, seconds, token
from omnigraph.graph.context import GraphContext
from omnigraph.graph.plan_cache import types_of
from omnigraph.graph.snapshot import Snapshot
from omnigraph.graph.values import commit_of, mutation_of
from omnigraph.graph.versioning.diff_calls import DiffCalls
from omnigraph.graph.versioning.tags import Tags
from omnigraph.lang.query.params import bind
from omnigraph.policy.authorization import Permission
from omnigraph.results.writes import IndexResult, MutationResult
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.types import (
    MAIN,
    AccessChoice,
    Actor,
    BranchName,
    CommitMessage,
    EngineChoice,
)

if TYPE_CHECKING:
    from omnigraph.graph.algorithms.calls import Algorithms
    from omnigraph.graph.branch_handle import BranchHandle
    from omnigraph.graph.schema import Schema
    from omnigraph.graph.versioning.branches import Branches
    from omnigraph.graph.versioning.changes import ChangeFeed
    from omnigraph.graph.versioning.commits import Commits
    from omnigraph.results.recovery import RecoveryResult


class Graph(DiffCalls):
    """An open graph. Safe to share between threads; a context manager that closes itself.

    Made by `omnigraph.init` and `omnigraph.open`.

    Example:
        ```python
        with og.open("people.omni") as graph:
            graph.mutate('query add() { insert Person { name: "Di" } }')
            for row in graph.query("query all() { match { $p: Person } return { $p.name } }"):
                print(row["p.name"])
        ```

    Attributes:
        tags: Names for commits.
    """

    def __init__(
        self, parts: GraphContext, *, actor: str | None = None, branch: BranchName = MAIN
    ) -> None:
        """Wrap a repository; use `omnigraph.open` instead."""
        super().__init__(parts, actor, branch)
        self._last: tuple[GraphVersion, Snapshot] | None = None
        self.tags = Tags(parts.repo, self._authorizer, self._actor)

    @cached_property
    def algorithms(self) -> Algorithms:
        """PageRank, components, communities, shortest paths, triangles."""
        from omnigraph.graph.algorithms.calls import Algorithms  # noqa: PLC0415

        return Algorithms(self._parts, self._pins, self._authorizer, self._actor)

    @cached_property
    def branches(self) -> Branches:
        """Make, list, merge and delete branches."""
        from omnigraph.graph.versioning.branches import Branches  # noqa: PLC0415

        runner = self._running_merge
        return Branches(self._repo, self._authorizer, self._actor, self._branch, runner)

    @cached_property
    def commits(self) -> Commits:
        """The history."""
        from omnigraph.graph.versioning.commits import Commits  # noqa: PLC0415

        return Commits(self._repo, self._authorizer, self.diff, self._branch)

    @cached_property
    def changes(self) -> ChangeFeed:
        """The change feed."""
        from omnigraph.graph.versioning.changes import ChangeFeed  # noqa: PLC0415

        clock, between = self._parts.clock, self._changes_between
        return ChangeFeed(self._repo, self._authorizer, clock, between, self._branch)

    @cached_property
    def schema(self) -> Schema:
        """Show and change the schema."""
        from omnigraph.graph.schema import Schema  # noqa: PLC0415

        return Schema(self._parts, self._pins, self._authorizer, self._actor, self._branch)

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self.mode!r})"

    def __enter__(self) -> Self:
        self._repo.require_open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._repo.root.uri

    @property
    def mode(self) -> str:
        """`rw`, or `r` for reading only."""
        return self._repo.mode.value

    def branch(self, name: str) -> BranchHandle:
        """The graph as one branch shows it: every call is for that branch if it names no other.

        Example:
            ```python
            graph.branches.create("agent/42")
            agent = graph.branch("agent/42")
            agent.mutate('query add() { insert Person { name: "Cy" } }')
            assert agent.snapshot().counts["node:Person"] == 3
            assert agent.merge(into="main").outcome == "fast_forward"
            ```

        Raises:
            NotFound: There is no such branch.
        """
        # It is made of this class.
        from omnigraph.graph.branch_handle import BranchHandle  # noqa: PLC0415

        self._authorizer.ask(Permission.READ, wanted := BranchName(name))
        known = self._repo.snapshot(wanted).branch
        return BranchHandle(self._parts, actor=self._actor, branch=known)

    def acting_as(self, actor: str | None) -> Graph:
        """The same open graph on behalf of another actor; it is closed with this one."""
        return Graph(self._parts, actor=actor, branch=self._branch)

    # -- reading -----------------------------------------------------------------------------------

    def query(  # noqa: PLR0913
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        at: Revision | None = None,
        access: AccessChoice = "auto",
        engine: EngineChoice = "auto",
        spark: object = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> Rows:
        """Run a reading query against the newest state of a branch, or an older one.

        Example:
            ```python
            rows = graph.query(
                "query q($a: I32) { match { $p: Person  $p.age > $a } return { $p.name as name } }",
                {"a": 35},
            )
            assert rows.to_pylist() == [{"name": "Ada"}]
            ```

        Args:
            text: One or several queries.
            params: The values of the declared parameters.
            name: Which query to run, when the text has several.
            branch: Which branch to read.
            at: A commit, a tag, a time or `main~3` to read instead; see `snapshot`.
            access: `auto`, `dense` or `direct`: how to reach the data in this process. The answer
                is the same.
            engine: `inprocess`, `spark`, or `auto`, which takes Spark when the query cannot keep
                within `query_bytes_max` here. The answer is the same; on Spark it is computed
                when it is asked for, and `to_spark()` gives it as a DataFrame.
            spark: A Spark master or session; by default `OMNIGRAPH_SPARK_MASTER`, or this machine.
            timeout: After how many seconds the query ends with an error; None for never.
            cancel: Ends the query when another thread calls its `cancel()`. With this or a
                timeout the whole result is read before the call returns.

        Raises:
            InvalidInput: The text, a name or a parameter is wrong; it says where.
            NotFound: There is no such branch or commit.
            LimitExceeded: The query needs more memory than it may use, or its time is up.
            Cancelled: It was cancelled.
        """
        pinned = self.snapshot(branch, at=at)
        return pinned.query(
            text,
            params,
            name=name,
            access=access,
            engine=engine,
            spark=spark,
            timeout=timeout,
            cancel=cancel,
        )

    def explain(
        self,
        text: str,
        *,
        name: str | None = None,
        branch: str | None = None,
        at: Revision | None = None,
    ) -> str:
        """The plan of a query and how it would reach the data, as text.

        Example:
            ```python
            print(graph.explain("query all() { match { $p: Person } return { $p.name } }"))
            ```
        """
        return self.snapshot(branch, at=at).explain(text, name=name)

    def profile(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        at: Revision | None = None,
        access: AccessChoice = "auto",
    ) -> Profile:
        """Run a query and report what each operator did: rows, time, and the path taken.

        Example:
            ```python
            profile = graph.profile("query q() { match { $p: Person } return { count($p) as n } }")
            assert profile.rows[0]["n"] == 2
            print(profile)
            ```
        """
        return self.snapshot(branch, at=at).profile(text, params, name=name, access=access)

    def snapshot(
        self, branch: str | None = None, *, at: Revision | None = None, version: int | None = None
    ) -> Snapshot:
        """Pin one moment, to read several things of the same state.

        Example:
            ```python
            before = graph.snapshot()
            graph.mutate('query more() { insert Person { name: "Cy" } }')
            assert before.counts["node:Person"] == 2
            assert graph.snapshot().counts["node:Person"] == 3
            ```

        Args:
            branch: The newest state of this branch.
            at: An older state instead: a commit, a tag or a branch, each perhaps with `~n` for n
                commits before it, or a time (a `datetime` with a time zone, or a text such as
                `2024-05-01T12:00:00Z`; without a zone it is in UTC): the newest commit of the
                branch at that time.
            version: The state of the branch at this version of its manifest, instead.
        """
        pinned = self._pinned(branch, at, version)
        last = self._last
        if last is not None and last[0] is pinned:
            return last[1]
        snapshot = Snapshot(self._parts, pinned, self._plans(pinned), self._authorizer)
        self._last = (pinned, snapshot)
        return snapshot

    # -- changing ----------------------------------------------------------------------------------

    def mutate(  # noqa: PLR0913
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
        retries: int | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> MutationResult:
        """Run a changing query: all of it is one commit, or nothing happens.

        When others change the same types at the same time, it is evaluated anew on what they left,
        so it does what it would do if it ran alone after them.

        Example:
            ```python
            result = graph.mutate(
                "query age($n: String, $a: I32) { update Person set { age: $a } where name = $n }",
                {"n": "Bo", "a": 30},
            )
            assert result.affected_nodes == 1 and result.commit is not None
            ```

        Args:
            text: One or several queries.
            params: The values of the declared parameters.
            name: Which query to run, when the text has several.
            branch: Which branch to change.
            actor: Who does it; the actor of the handle if not given.
            if_commit: Only if this commit is still the newest of the branch, apart from indexes and
                compactions.
            idempotency_key: Names the operation, so that repeating it does it once.
            message: What the commit is about, to be read in the history.
            retries: How often it starts over when others come first; by default what the setting
                `write_retries` says. With 0, and always with `if_commit`, it does not.
            timeout: After how many seconds the query ends with an error, if it has not begun to
                commit by then; nothing has changed in that case. A commit is never broken off.
            cancel: The same, when another thread calls its `cancel()`.

        Raises:
            InvalidInput: The text, a name or a parameter is wrong; it says where.
            ConstraintViolated: The result would break rules of the schema; it lists all of them.
            Conflict: Others came first, as often as it may start over; `details["attempts"]` says
                how often it was tried.
            PreconditionFailed: The branch has changed since `if_commit`.
            Forbidden: The graph is open for reading only.
            LimitExceeded: It would change more than one query may, or its time is up.
            Cancelled: It was cancelled.
        """
        who = self._actor if actor is None else Actor(actor)
        known = self._on(branch)
        terms = commit_terms(
            WriterKind.MUTATION,
            actor=who,
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            message=message,
        )
        policy = self._repo.retry.with_retries(retries)
        self._authorizer.ask(Permission.CHANGE, known, actor=who)

        def attempt() -> Mutated:
            pinned = self._repo.snapshot(known)
            plans = self._plans(pinned)
            plan = plans.change(text, name)
            self._authorizer.ask(Permission.CHANGE, known, types=types_of(plan), actor=who)
            request = MutationRequest(
                plan=plan,
                params=bind(plan.params, params or {}),
                catalog=plans.catalog,
                terms=terms,
            )
            return self._parts.mutator.mutate(request, pinned, retries=retries)

        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            done = attempt() if retries == 0 else following_schema(attempt, policy)
        return mutation_of(done)

    def ensure_indices(
        self,
        *,
        branch: str | None = None,
        actor: str | None = None,
        message: str | None = None,
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> IndexResult:
        """Build every index that is missing or damaged; one commit, or none.

        Example:
            ```python
            assert graph.ensure_indices().commit is not None
            assert graph.ensure_indices().commit is None
            ```

        Args:
            branch: Whose tables.
            actor: Who does it; the actor of the handle if not given.
            message: What the commit is about, to be read in the history.
            timeout: After how many seconds it ends with an error, if it has not begun to commit;
                None for never. It is looked at between two indexes.
            cancel: The same, when another thread calls its `cancel()`.
        """
        from omnigraph.core.maintenance.indices import ensure_indices  # noqa: PLC0415

        who = self._actor if actor is None else Actor(actor)
        self._authorizer.ask(Permission.MAINTAIN, self._on(branch), actor=who)
        about = None if message is None else CommitMessage(message)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            report = ensure_indices(self._repo, self._on(branch), actor=who, message=about)
        commit = None if report.published is None else commit_of(report.published.commit)
        pending = tuple((item.table_key, item.column, item.reason) for item in report.pending)
        return IndexResult(commit=commit, built=report.built, pending=pending)

    def refresh(self) -> None:
        """Settle what dead writers left half-done, as every write and every opening does, too."""
        self._authorizer.ask(Permission.MAINTAIN)
        self._repo.refresh()

    def recover(self) -> RecoveryResult:
        """Settle what dead writers left behind, look at every table, and say what was found.

        Opening a graph, `refresh` and every write settle what stands in their way, so this is
        seldom needed. It also takes back versions of tables that were not published and no write
        accounts for, and lists the files that power cuts left unfinished.

        Example:
            ```python
            found = graph.recover()
            for write in found.writes:
                print(write.operation_id, write.outcome, write.explanation)
            assert found.is_settled
            ```

        Raises:
            Forbidden: The handle is for reading only.
            Corrupt: An intent cannot be read; it says which and what to do.
        """
        from omnigraph.graph.maintenance.reports import recovery_result  # noqa: PLC0415

        self._authorizer.ask(Permission.MAINTAIN)
        settled = (*self._repo.settled_on_open, *self._repo.recover())
        return recovery_result(settled, self._repo.set_aside())

    def close(self) -> None:
        """Close the handle and free its memory. Closing twice is fine.

        Afterwards whatever would read or write storage is refused with the code `closed`, through
        snapshots and results, too. Values that were read stay.
        """
        self._repo.close()
        self._last = None
        self._parts.views.close()
