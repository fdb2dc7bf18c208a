"""The reports of upkeep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedTable:
    """A table, or another folder of the graph, and what a clean-up removed of it.

    Attributes:
        path: Its folder below the graph; `__manifest` is the history itself.
        type: The type that it belongs to, such as `node:Person`; None for other folders, and for
            types that were dropped.
        versions: How many old versions went.
        forks: How many forks of deleted branches went.
        files: How many files went.
        bytes: How large they were.
        error: Why something stays that should have gone; None if all is well.
    """

    path: str
    type: str | None
    versions: int
    forks: int
    files: int
    bytes: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    """The result of `cleanup`.

    Attributes:
        tables: What went of each table; those of which nothing went are left out.
        states: How many states of the graph can still be read.
        dry_run: Nothing was removed.
    """

    tables: tuple[CleanedTable, ...]
    states: int
    dry_run: bool

    @property
    def versions(self) -> int:
        """The number of old versions of tables that went."""
        return sum(table.versions for table in self.tables)

    @property
    def files(self) -> int:
        """The number of files that went."""
        return sum(table.files for table in self.tables)

    @property
    def bytes(self) -> int:
        """The number of bytes that became free."""
        return sum(table.bytes for table in self.tables)
