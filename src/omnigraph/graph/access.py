"""Which way a query reaches the data: looking up a few entities, or loading whole types first.

Looking up is like renting and loading like buying: nobody knows how often a process will ask. So a
process rents until it has paid the price of buying, and then buys. Whatever comes, it never spends
more than twice of what was necessary.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from threading import Lock
from typing import Final

from omnigraph.lang.ir.expr import EntityRef

# Types of so many rows are loaded sooner than an index finds a few of them.
ROWS_LOADED_AT_ONCE: Final = 20_000
# What reading and sorting one row of a type takes, measured on nodes and on edges.
NANOSECONDS_A_ROW: Final = 500


class Access(StrEnum):
    """How a query reaches the data; the answer never depends on it."""

    AUTO = "auto"
    DENSE = "dense"  # whole columns and adjacency in memory
    DIRECT = "direct"  # the store's indexes, for the few entities that are touched


class Rent:
    """How long a process has been looking up entities of which types. Thread-safe."""

    __slots__ = ("_lock", "_paid")

    def __init__(self) -> None:
        """Start with nothing paid."""
        self._lock = Lock()
        self._paid: dict[str, int] = {}

    def pay(self, entities: Iterable[EntityRef], nanoseconds: int) -> None:
        """A query has looked up entities of these types for so long."""
        with self._lock:
            for entity in entities:
                key = entity.table_key
                self._paid[key] = self._paid.get(key, 0) + nanoseconds

    def is_worth_it(self, entities: Iterable[EntityRef], rows_to_load: int) -> bool:
        """Whether looking up is still cheaper than loading so many rows."""
        if rows_to_load <= ROWS_LOADED_AT_ONCE:
            return False
        paid = max((self._paid.get(entity.table_key, 0) for entity in entities), default=0)
        return paid < rows_to_load * NANOSECONDS_A_ROW
