"""The calls of `Graph` that open transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from omnigraph.core.journal.intent import WriterKind
from omnigraph.graph.arguments import commit_terms
from omnigraph.graph.bulk.blobs import BlobCalls
from omnigraph.graph.context import GraphContext
from omnigraph.graph.versioning.transaction import Transaction, transact
from omnigraph.policy.authorization import Permission
from omnigraph.results.transactions import TransactionResult
from omnigraph.types import MAIN, Actor, BranchName

T = TypeVar("T")


class TransactionCalls(BlobCalls):
    """The part of `Graph` that opens transactions."""

    def __init__(self, parts: GraphContext, actor: str | None, branch: BranchName = MAIN) -> None:
        """Work on these parts, on behalf of an actor, on a branch where a call names no other."""
        super().__init__(parts, actor, branch)
        self._transactions: WeakValueDictionary[tuple[int, str], Transaction] = (
            WeakValueDictionary()
        )

    def transaction(
        self,
        branch: str | None = None,
        *,
        message: str | None = None,
        actor: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> Transaction:
        """Open a transaction: queries and changes on one state of a branch, and one commit.

        It is optimistic: others are not kept out, and what they commit meanwhile is not seen. If
        that changes what the transaction has read or writes, its commit is refused.

        Example:
            ```python
            with graph.transaction(message="Bo is one year older") as tx:
                ask = 'query q() { match { $p: Person { name: "Bo" } } return { $p.age as age } }'
                age = tx.query(ask)[0]["age"]
                tx.mutate(
                    'query q($a: I32) { update Person set { age: $a } where name = "Bo" }',
                    {"a": (age or 0) + 1},
                )
            assert tx.result.affected_nodes == 1
            ```

        Args:
            branch: Which branch to change.
            message: What the commit is about, to be read in the history.
            actor: Who does it; the actor of the handle if not given.
            if_commit: Only if this commit is still the newest of the branch, apart from indexes and
                compactions.
            idempotency_key: Names the operation, so that repeating it does it once. A repeated
                transaction runs on the state that the first one ran on.

        Raises:
            ConstraintViolated: The changes together break rules of the schema; raised by the end
                of the block.
            Conflict: Others have changed what it read or writes, or deleted the branch; raised by
                the end of the block. `transact` starts over instead.
            PreconditionFailed: The branch has changed since `if_commit`.
            InvalidInput: It is used after its end, by another thread, or inside another one
                (code `transaction_invalid`).
        """
        terms = commit_terms(
            WriterKind.TRANSACTION,
            actor=self._actor if actor is None else Actor(actor),
            if_commit=if_commit,
            idempotency_key=idempotency_key,
            message=message,
        )
        known = self._on(branch)
        self._authorizer.ask(Permission.CHANGE, known, actor=terms.actor)
        self._repo.require_writable()
        return Transaction(
            self._parts, self._pins, self._authorizer, known, terms, self._transactions
        )

    def transact(
        self,
        fn: Callable[[Transaction], T],
        *,
        branch: str | None = None,
        message: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        retries: int | None = None,
    ) -> TransactionResult[T]:
        """Run a function in a transaction; when others came first, run it again on what they left.

        The function may run several times, so it should do nothing but use the transaction.

        Example:
            ```python
            def birthday(tx):
                ask = 'query q() { match { $p: Person { name: "Bo" } } return { $p.age as age } }'
                age = (tx.query(ask)[0]["age"] or 0) + 1
                change = 'query q($a: I32) { update Person set { age: $a } where name = "Bo" }'
                tx.mutate(change, {"a": age})
                return age

            done = graph.transact(birthday)
            assert done.commit is not None and done.value > 0
            ```

        Args:
            fn: Is called with the transaction; what it returns is the `value` of the result.
            branch: Which branch to change.
            message: What the commit is about, to be read in the history.
            actor: Who does it; the actor of the handle if not given.
            idempotency_key: Names the operation, so that repeating it does it once.
            retries: How often it starts over; by default what the setting `write_retries` says.

        Raises:
            Conflict: Others came first, as often as it may start over; `details["attempts"]` says
                how often it was tried.
            ConstraintViolated: The changes together break rules of the schema.
        """

        def make() -> Transaction:
            return self.transaction(
                branch, message=message, actor=actor, idempotency_key=idempotency_key
            )

        return transact(fn, make, self._parts, self._on(branch), retries)
