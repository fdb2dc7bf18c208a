"""The result of a transaction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

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
