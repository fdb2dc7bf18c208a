"""Transactions: their states, their result, and the `with` block that they live in."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from omnigraph.errors import Code, InvalidInput
from omnigraph.results.commits import Commit, ResultWarning

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionResult(Generic[T]):
    """The result of a transaction.

    Attributes:
        commit: The commit that made its changes visible; None when it changed nothing.
        affected_nodes: How many different nodes were inserted, changed or deleted.
        affected_edges: The same for edges, cascades included.
        replayed: An earlier transaction with the same idempotency key had done it already; this is
            what it did.
        warnings: What the caller should know.
        vectors_missing: How many vectors were left null because no embedding provider is
            configured.
        value: What the function of `transact` returned; None for a `with` block.
    """

    commit: Commit | None
    affected_nodes: int
    affected_edges: int
    value: T
    replayed: bool = False
    warnings: tuple[ResultWarning, ...] = ()
    vectors_missing: int = 0


class TransactionState(StrEnum):
    """The state of a transaction."""

    NEW = "new"
    OPEN = "open"
    FAILED = "failed"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"


class TransactionBlock(ABC):
    """The life of a transaction: one `with` block of one thread, and one result.

    A subclass begins and commits it.
    """

    def __init__(self, branch: str) -> None:
        """Make one that has not begun."""
        self._branch = branch
        self._state = TransactionState.NEW
        self._thread = threading.get_ident()
        self._base: str | None = None
        self._result: TransactionResult[None] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(branch={self.branch!r}, state={self.state!r})"

    @property
    def branch(self) -> str:
        """The branch that it changes."""
        return self._branch

    @property
    def state(self) -> str:
        """`new`, `open`, `failed`, `committed` or `rolled_back`."""
        return self._state.value

    @property
    def base(self) -> str:
        """The id of the commit that it started from."""
        if self._base is None:
            text = "the transaction has not begun; use it in a `with` block"
            raise transaction_refused(text, self.state)
        return self._base

    @property
    def result(self) -> TransactionResult[None]:
        """The result, once it is committed."""
        if self._result is None:
            text = f"a transaction that is {self.state} has no result"
            raise transaction_refused(text, self.state)
        return self._result

    def __enter__(self) -> Self:
        if self._state is not TransactionState.NEW:
            text = "a transaction is used in one `with` block, once"
            raise transaction_refused(text, self.state)
        self._thread = threading.get_ident()
        self._base = self._begin()
        self._state = TransactionState.OPEN
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._state is TransactionState.ROLLED_BACK:
            return
        if error is not None:
            self._end(TransactionState.ROLLED_BACK)
            return
        try:
            self._require_open()
            result = self._commit()
        except BaseException:
            self._end(TransactionState.FAILED)
            raise
        self._end(TransactionState.COMMITTED)
        self._result = result

    def rollback(self) -> None:
        """Drop all changes and end the transaction; the rest of its block cannot use it."""
        if self._state is not TransactionState.FAILED:
            self._require_open()
        self._end(TransactionState.ROLLED_BACK)

    def _result_with(self, value: T) -> TransactionResult[T]:
        """The result of a function that ran in the block."""
        if self._state is TransactionState.ROLLED_BACK:
            return TransactionResult(commit=None, affected_nodes=0, affected_edges=0, value=value)
        done: TransactionResult[Any] = self.result
        return replace(done, value=value)

    @abstractmethod
    def _begin(self) -> str:
        """Begin; returns the id of the commit that it starts from."""

    @abstractmethod
    def _commit(self) -> TransactionResult[None]:
        """Commit all changes."""

    def _end(self, state: TransactionState) -> None:
        self._state = state

    def _require_open(self) -> None:
        if self._thread != threading.get_ident():
            text = "a transaction belongs to the thread that began it"
            raise transaction_refused(text, "thread")
        if self._state is TransactionState.FAILED:
            text = (
                "a call of this transaction failed half-way, so it cannot be committed; start over"
            )
            raise transaction_refused(text, self.state)
        if self._state is not TransactionState.OPEN:
            text = "the transaction has not begun" if self._base is None else "it has ended"
            raise transaction_refused(f"{text}: {self.state}", self.state)


def transaction_refused(text: str, reason: str) -> InvalidInput:
    """The error of a call that a transaction in this state does not allow."""
    return InvalidInput(Code.TRANSACTION_INVALID, text, reason=reason)
