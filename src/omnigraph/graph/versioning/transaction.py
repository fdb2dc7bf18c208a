"""Transactions: several queries and changes on one state of a branch, and one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Literal, TypeVar

from omnigraph.core.layout import table_key
from omnigraph.core.retry import with_retries
from omnigraph.errors import Busy, Code, Conflict, ConstraintViolated, InvalidInput
from omnigraph.exec.mutate.mutator import CommitTerms
from omnigraph.exec.mutate.transaction import OpenTransaction, begin
from omnigraph.exec.read.rows import Rows
from omnigraph.graph.arguments import instance, seconds, token
from omnigraph.graph.context import GraphContext
from omnigraph.graph.pins import Pins
from omnigraph.graph.plan_cache import PlanCache, types_of
from omnigraph.graph.values import commit_of, warnings_of
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.query.params import bind
from omnigraph.policy.authorization import Authorizer, Permission
from omnigraph.results.transactions import (
    TransactionBlock,
    TransactionResult,
    TransactionState,
    transaction_refused,
)
from omnigraph.results.writes import MutationResult
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.types import AccessChoice, BranchName

T = TypeVar("T")
# The transactions that are open, by thread and branch. Those without a reference are forgotten.
OpenOnes = MutableMapping[tuple[int, str], "Transaction"]


class Transaction(TransactionBlock):
    """An open transaction; made by `graph.transaction`, for a `with` block and for one thread.

    Its queries see its own changes, and nothing that others commit meanwhile. The end of the block
    judges all rules of the schema and commits; an exception drops everything.

    Example:
        ```python
        with graph.transaction(message="Bo moves") as tx:
            tx.mutate('query add() { insert Person { name: "Cy", age: 1 } }')
            rows = tx.query("query q() { match { $p: Person } return { count($p) as n } }")
            assert rows[0]["n"] == 3
        assert tx.result.commit.message == "Bo moves"
        ```
    """

    def __init__(
        self,
        parts: GraphContext,
        pins: Pins,
        authorizer: Authorizer,
        branch: BranchName,
        terms: CommitTerms,
        others: OpenOnes,
    ) -> None:
        """Use `graph.transaction` instead."""
        super().__init__(str(branch))
        self._authorizer = authorizer
        self._parts = parts
        self._pins = pins
        self._name = branch
        self._terms = terms
        self._others = others
        self._open: OpenTransaction | None = None
        self._plans: PlanCache | None = None

    # -- begin and end -----------------------------------------------------------------------------

    def _begin(self) -> str:
        if self._key in self._others:
            text = f"this thread has a transaction on branch '{self.branch}' already"
            raise transaction_refused(text, "nested")
        parts = self._parts
        self._open = begin(
            parts.repo,
            parts.mutator,
            parts.queries,
            parts.embeddings,
            parts.repo.snapshot(self._name),
            self._terms,
        )
        self._plans = self._pins.plans(self._open.base)
        self._others[self._key] = self
        return str(self._open.base.head)

    def _commit(self) -> TransactionResult[None]:
        done = self._working().commit()
        return TransactionResult(
            commit=None if done.commit is None else commit_of(done.commit),
            affected_nodes=done.affected_nodes,
            affected_edges=done.affected_edges,
            value=None,
            replayed=done.replayed,
            warnings=warnings_of(done.missing),
            vectors_missing=sum(item.count for item in done.missing),
        )

    def _end(self, state: TransactionState) -> None:
        super()._end(state)
        self._others.pop(self._key, None)

    @property
    def _key(self) -> tuple[int, str]:
        return self._thread, self.branch

    def _working(self) -> OpenTransaction:
        """The work so far, if the transaction may go on."""
        self._require_open()
        assert self._open is not None
        return self._open

    def _require_open(self) -> None:
        super()._require_open()
        self._parts.repo.require_open()

    def _ask(self, action: Permission, types: frozenset[str]) -> None:
        self._authorizer.ask(action, self._name, types=types, actor=self._terms.actor)

    # -- its calls ---------------------------------------------------------------------------------

    def mutate(
        self, text: str, params: Mapping[str, object] | None = None, *, name: str | None = None
    ) -> MutationResult:
        """Run a changing query on what the transaction has made so far.

        The rules of the schema are judged when the transaction ends. If the query fails after it
        has begun to change things, the transaction cannot be committed any more.

        Example:
            ```python
            with graph.transaction() as tx:
                delete = 'query d() { delete Person where name = "Bo" }'
                assert tx.mutate(delete).affected_nodes == 1
                assert tx.mutate(delete).affected_nodes == 0
            ```

        Args:
            text: One or several queries.
            params: The values of the declared parameters.
            name: Which query to run, when the text has several.

        Returns:
            How many entities this query touched. The commit comes with the end of the transaction.

        Raises:
            InvalidInput: The text, a name or a parameter is wrong; the transaction goes on.
        """
        work = self._working()
        assert self._plans is not None
        plan = self._plans.change(text, name)
        self._ask(Permission.CHANGE, types_of(plan))
        bound = bind(plan.params, params or {})
        try:
            touched = work.mutate(plan, bound)
        except BaseException:
            self._state = TransactionState.FAILED
            raise
        return _touched(touched)

    def load(
        self,
        source: object,
        mode: Literal["append", "merge"] = "append",
        *,
        format: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> MutationResult:
        """Load a small table into the transaction; its later queries see the rows.

        What it takes is what `graph.load` takes, but for frames of Spark, and at most 100,000 rows.
        Values are judged when the transaction ends, as those of changing queries are.

        Example:
            ```python
            with graph.transaction() as tx:
                tx.load({"Person": [{"name": "Di"}, {"name": "Ed"}]})
                rows = tx.query("query q() { match { $p: Person } return { count($p) as n } }")
                assert rows[0]["n"] == 4
            ```

        Args:
            source: Rows by type (`{"Person": [...]}`), Arrow tables, data frames, or files.
            mode: `append`: entities that exist are violations. `merge`: they get what the rows
                name.
            format: The format of files whose names do not show it.
            storage_options: How to reach object storage.

        Returns:
            How many entities it touched. The commit comes with the end of the transaction.

        Raises:
            ConstraintViolated: Rows are no entities of the schema, or have a key that exists; the
                transaction goes on without any of them.
            LimitExceeded: There are too many rows for a transaction.
            InvalidInput: The source or the mode is wrong; the transaction goes on.
        """
        from omnigraph.dataplane.load.small_load import read_small  # noqa: PLC0415

        work = self._working()
        if mode not in ("append", "merge"):
            text = f"a transaction loads by 'append' or 'merge', not {mode!r:.80}"
            raise InvalidInput(Code.INPUT_INVALID, text)
        is_merge = mode == "merge"
        small = read_small(
            source,
            work.catalog,
            self._parts.repo.ids.new(),
            partial=is_merge,
            format=format,
            storage_options=storage_options,
        )
        types = {table_key(item.entity.kind, item.entity.name) for item in small.entities}
        self._ask(Permission.CHANGE, frozenset(types))
        try:
            return _touched(work.load(small, is_merge=is_merge))
        except ConstraintViolated:
            raise  # nothing of it was taken
        except BaseException:
            self._state = TransactionState.FAILED
            raise

    def query(
        self,
        text: str,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        access: AccessChoice = "auto",
        timeout: float | None = None,
        cancel: CancelToken | None = None,
    ) -> Rows:
        """Run a reading query on the state that the transaction has made so far, in this process.

        Example:
            ```python
            with graph.transaction() as tx:
                tx.mutate('query q() { update Person set { age: 50 } where name = "Bo" }')
                ask = "query q() { match { $p: Person { age: 50 } } return { $p.name as name } }"
                assert tx.query(ask).to_pylist() == [{"name": "Bo"}]
            ```

        Args:
            text: One or several queries.
            params: The values of the declared parameters.
            name: Which query to run, when the text has several.
            access: `auto`, `dense` or `direct`: how to reach the data. The answer is the same.
            timeout: After how many seconds the query ends with an error; None for never.
            cancel: Ends the query when another thread calls its `cancel()`.

        Raises:
            InvalidInput: The text, a name or a parameter is wrong; it says where.
            ConstraintViolated: A required value or the node at an end of an edge is missing so far.
            LimitExceeded: The query needs more memory than it may use, or its time is up.
            Cancelled: It was cancelled.
        """
        work = self._working()
        assert self._plans is not None
        compiled = self._plans.reading(text, name)
        self._ask(Permission.READ, compiled.types)
        bound = bind(compiled.plan.params, params or {})
        with limited(self._parts.clock, seconds(timeout), token(cancel)):
            found = work.reader(compiled.plan).run(compiled.program, bound, access, None)
            # What is read later would be read without a limit.
            return found.settled() if timeout is not None or cancel is not None else found


class _Raised(Exception):
    """Carries an error of the function through the retries, which are not for it."""

    def __init__(self, error: Conflict | Busy) -> None:
        super().__init__(str(error))
        self.error = error


def transact(
    fn: Callable[[Transaction], T],
    make: Callable[[], Transaction],
    parts: GraphContext,
    branch: BranchName,
    retries: int | None,
) -> TransactionResult[T]:
    """Run a function in a transaction, anew on the newest state when others came first."""
    instance(fn, Callable, "`transact` takes a function of a transaction")  # type: ignore[arg-type]
    policy = parts.repo.retry.with_retries(retries)

    def attempt(losses: int, is_stale: bool) -> TransactionResult[T]:
        with make() as tx:
            try:
                value = fn(tx)
            except (Conflict, Busy) as error:
                raise _Raised(error) from error
        return tx._result_with(value)

    try:
        return with_retries(
            attempt, root=parts.repo.root.uri, branch=branch, policy=policy, name="transaction"
        )
    except _Raised as carried:
        raise carried.error from None


def _touched(touched: Mapping[EntityRef, int]) -> MutationResult:
    counts = {
        kind: sum(count for ref, count in touched.items() if ref.kind == kind)
        for kind in ("node", "edge")
    }
    return MutationResult(affected_nodes=counts["node"], affected_edges=counts["edge"], commit=None)
