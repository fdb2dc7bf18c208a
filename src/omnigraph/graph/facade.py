"""The facade: an open graph. Each call pins one base and delegates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.retry import following_schema
from omnigraph.core.revisions import Revision
from omnigraph.core.schema.alignment import counterpart
from omnigraph.core.upkeep.indices import ensure_indices
from omnigraph.dataplane.export.plan import chosen_types
from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.exec.changes.blame import blame
from omnigraph.exec.changes.diff import DiffRequest, GraphDiff
from omnigraph.exec.mutate.mutator import Mutated, Request
from omnigraph.exec.read.profile import Profile
from omnigraph.exec.read.rows import Rows
from omnigraph.graph.algorithms.calls import Algorithms
from omnigraph.graph.arguments import instance, seconds, token, whole_number
from omnigraph.graph.context import GraphContext
from omnigraph.graph.languages import types_of
from omnigraph.graph.schema import Schema
from omnigraph.graph.snapshot import Snapshot
from omnigraph.graph.upkeep.calls import UpkeepCalls
from omnigraph.graph.upkeep.reports import recovery_result
from omnigraph.graph.values import commit_of, mutation_of
from omnigraph.graph.versioning.branches import Branches
from omnigraph.graph.versioning.changes import ChangeFeed, type_token
from omnigraph.graph.versioning.commits import Commits
from omnigraph.graph.versioning.diff import Diff, operation
from omnigraph.graph.versioning.tags import Tags
from omnigraph.lang.catalog.model import EntityType
from omnigraph.lang.query.params import bind
from omnigraph.policy.door import Permission
from omnigraph.results.changes import BlameLine, OperationName
from omnigraph.results.recovery import RecoveryResult
from omnigraph.results.writes import IndexResult, MutationResult
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.types import (
    MAIN,
    AccessChoice,
    Actor,
    BranchName,
    CommitId,
    CommitMessage,
    EngineChoice,
    IdempotencyKey,
)

if TYPE_CHECKING:
    from omnigraph.graph.branch_handle import BranchHandle


class Graph(UpkeepCalls):
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
        algorithms: PageRank, components, communities, shortest paths, triangles.
        branches: Make, list, merge and delete branches.
        tags: Names for commits.
        commits: The history.
        changes: The change feed.
        schema: Show and change the schema.
    """

    def __init__(
        self, parts: GraphContext, *, actor: str | None = None, branch: BranchName = MAIN
    ) -> None:
        """Wrap a repository; use `omnigraph.open` instead."""
        super().__init__(parts, actor, branch)
        self._last: tuple[GraphVersion, Snapshot] | None = None
        self.algorithms = Algorithms(parts, self._pins, self._door, self._actor)
        self.branches = Branches(parts.repo, self._door, self._actor, branch, self._running_merge)
        self.tags = Tags(parts.repo, self._door, self._actor)
        self.commits = Commits(parts.repo, self._door, self.diff, branch)
        self.schema = Schema(parts, self._pins, self._door, self._actor, branch)
        self.changes = ChangeFeed(
            parts.repo,
            self._door,
            parts.clock,
            self._changes_between,
            branch,
        )

    def __repr__(self) -> str:
        return f"Graph({self.uri!r}, mode={self.mode!r})"

    def __enter__(self) -> Self:
        self._repo.require_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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

        self._door.ask(Permission.READ, wanted := BranchName(name))
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
        """Run a query and tell what each operator did: rows, time, and the path taken.

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
        snapshot = Snapshot(self._parts, pinned, self._language(pinned), self._door)
        self._last = (pinned, snapshot)
        return snapshot

    def diff(
        self,
        older: Revision | Snapshot,
        newer: Revision | Snapshot | None = None,
        *,
        types: Sequence[str] | None = None,
        operations: Collection[OperationName] | None = None,
        kind: Literal["node", "edge"] | None = None,
    ) -> Diff:
        """Compare two states of the graph, entity by entity.

        Only files that the two states do not share are looked at. Where the schema changed in
        between, the older state is read as the newer schema has it: with the new names, and with
        what stored rows got in new properties. So a change of the schema alone changes no entity.

        Example:
            ```python
            before = graph.snapshot()
            graph.mutate('query more() { insert Person { name: "Cy" } }')
            diff = graph.diff(before, "main")
            assert diff.counts["node:Person"].inserted == 1
            assert [change.id for change in diff] == ["Cy"]
            print(diff)
            ```

        Args:
            older: The state that the changes start from: a snapshot, or a name as for
                `snapshot(at=...)`: a branch, a commit, a tag, `main~3`, a time.
            newer: The state that they lead to; by default the newest one.
            types: Only these types, by name or as `node:Person`.
            operations: Only `insert`, `update` or `delete`.
            kind: Only nodes, or only edges.

        Raises:
            NotFound: There is no such branch or commit.
            InvalidInput: There is no such type, operation or kind.
        """
        if kind not in (None, "node", "edge"):
            text = f"the kind is 'node' or 'edge', not {kind!r:.80}"
            raise InvalidInput(Code.INPUT_INVALID, text)
        states = (self._revision(older), self._revision(newer or self._branch))
        chosen = chosen_types(self._language(states[1]).catalog, types)
        of_kind = [item for item in chosen if kind in (None, item.kind)]
        return self._diff(*states, of_kind, operations)

    def _changes_between(
        self,
        older: str,
        newer: str,
        types: Collection[str] | None,
        operations: Collection[OperationName] | None,
    ) -> Diff:
        """Compare two commits; types by what tells them apart, whatever they are called there."""
        states = (self._revision(older), self._revision(newer))
        catalog = self._language(states[1]).catalog
        known = (*catalog.nodes, *catalog.edges)
        chosen = [item for item in known if types is None or type_token(item) in types]
        return self._diff(*states, chosen, operations)

    def _diff(
        self,
        older: GraphVersion,
        newer: GraphVersion,
        types: Sequence[EntityType],
        operations: Collection[OperationName] | None,
    ) -> Diff:
        catalogs = [self._language(state).catalog for state in (older, newer)]
        for state, catalog in zip((older, newer), catalogs, strict=True):
            called = (counterpart(catalog, item) for item in types)
            keys = [table_key(item.kind, item.name) for item in called if item is not None]
            self._door.ask(Permission.READ, state.branch, types=keys)
        request = DiffRequest(
            older=older,
            newer=newer,
            catalog=catalogs[1],
            older_catalog=catalogs[0],
            types=frozenset(table_key(item.kind, item.name) for item in types),
        )
        wanted = None if operations is None else frozenset(map(operation, operations))
        return Diff(GraphDiff(self._repo, request), str(older.head), str(newer.head), wanted)

    def blame(
        self,
        type_name: str,
        id: str,
        *,
        branch: str | None = None,
        at: Revision | None = None,
        limit: int | None = None,
    ) -> list[BlameLine]:
        """The commits that changed one entity, newest first, back to the one that inserted it.

        Of each commit only the rows that it changed are looked at. What a merge brought along is
        the merge's.

        Example:
            ```python
            change = 'query q() { update Person set { age: 30 } where name = "Bo" }'
            graph.mutate(change, message="a birthday")
            newest = graph.blame("Person", "Bo")[0]
            assert (newest.operation, newest.changed) == ("update", ("age",))
            assert newest.commit.message == "a birthday"
            ```

        Args:
            type_name: The type, by name or as `node:Person`.
            id: The id of the entity.
            branch: Which branch; by default `main`.
            at: An older state to start from; see `snapshot`.
            limit: At most so many commits.

        Raises:
            NotFound: No commit has changed such an entity.
            InvalidInput: There is no such type.
        """
        most = None if limit is None else whole_number(limit, "a limit", 1)
        instance(id, str, "an id is a text")
        pinned = self._pinned(branch, at)
        types = chosen_types(self._language(pinned).catalog, [type_name])
        if len(types) > 1:
            text = f"'{type_name}' is a node type and an edge type: say which, node:{type_name}"
            raise InvalidInput(Code.INPUT_INVALID, text, type=type_name)
        chosen = types[0]
        self._door.ask(Permission.READ, pinned.branch, types=[table_key(chosen.kind, chosen.name)])
        found = islice(blame(self._repo, pinned, chosen, id), most)
        lines = [
            BlameLine(
                commit=commit_of(each.commit), operation=each.operation.value, changed=each.changed
            )
            for each in found
        ]
        if not lines:
            text = f"no commit of branch '{pinned.branch}' has changed {type_name} {id!r:.80}"
            raise NotFound(Code.NOT_FOUND, text, type=type_name, id=id)
        return lines

    def _revision(self, state: Revision | Snapshot) -> GraphVersion:
        return (
            state.pinned
            if isinstance(state, Snapshot)
            else self._pins.revision(state, self._branch)
        )

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
            if_commit: Only if this commit is still the newest of the branch.
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
            PreconditionFailed: `if_commit` is not the newest commit.
            Forbidden: The graph is open for reading only.
            LimitExceeded: It would change more than one query may, or its time is up.
            Cancelled: It was cancelled.
        """
        who = self._actor if actor is None else Actor(actor)
        known = self._on(branch)
        head = None if if_commit is None else CommitId(if_commit)
        key = None if idempotency_key is None else IdempotencyKey(idempotency_key)
        again = None if retries is None else whole_number(retries, "retries", 0)
        self._door.ask(Permission.CHANGE, known, actor=who)

        def attempt() -> Mutated:
            pinned = self._repo.snapshot(known)
            language = self._language(pinned)
            plan = language.change(text, name)
            self._door.ask(Permission.CHANGE, known, types=types_of(plan), actor=who)
            request = Request(
                plan=plan,
                params=bind(plan.params, params or {}),
                catalog=language.catalog,
                actor=who,
                if_commit=head,
                idempotency_key=key,
                message=None if message is None else CommitMessage(message),
            )
            return self._parts.mutator.mutate(request, pinned, retries=again)

        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            done = attempt() if again == 0 else following_schema(attempt, self._repo.retry)
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
        who = self._actor if actor is None else Actor(actor)
        self._door.ask(Permission.MAINTAIN, self._on(branch), actor=who)
        about = None if message is None else CommitMessage(message)
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            report = ensure_indices(self._repo, self._on(branch), actor=who, message=about)
        commit = None if report.published is None else commit_of(report.published.commit)
        pending = tuple((item.table_key, item.column, item.reason) for item in report.pending)
        return IndexResult(commit=commit, built=report.built, pending=pending)

    def refresh(self) -> None:
        """Settle what dead writers left half-done, as every write and every opening does, too."""
        self._door.ask(Permission.MAINTAIN)
        self._repo.refresh()

    def recover(self) -> RecoveryResult:
        """Settle whatever dead writers left behind, look at every table, and say what was found.

        Opening a graph, `refresh` and every write settle what stands in their way, so this is
        seldom needed. It also takes back versions of tables that nobody published and no write
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
        self._door.ask(Permission.MAINTAIN)
        settled = (*self._repo.settled_on_open, *self._repo.recover())
        return recovery_result(settled, self._repo.set_aside())

    def close(self) -> None:
        """Close the handle and let go of memory. Closing twice is fine.

        Afterwards whatever would read or write storage is refused with the code `closed`, through
        snapshots and results, too. Values that were read stay.
        """
        self._repo.close()
        self._last = None
        self._parts.views.close()
