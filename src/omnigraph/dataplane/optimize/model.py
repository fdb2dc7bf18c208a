"""The result of an optimisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.core.maintenance.indices import PendingIndex
from omnigraph.core.publish.publisher import Published


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizedTable:
    """The result of an optimisation for the table of one type.

    Attributes:
        table_key: Whose table it is.
        fragments_before: In how many fragments its rows lay.
        fragments_after: In how many they lie now.
        built: The names of the indexes that were missing.
        folded: The names of the indexes that did not cover every row.
    """

    table_key: str
    fragments_before: int
    fragments_after: int
    built: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimized:
    """The result of an optimisation.

    Attributes:
        published: The one commit that took the result into use; None when nothing was to gain.
        tables: Every table that was looked at, by key.
        pending: The indexes that the schema declares and that cannot be built yet.
    """

    published: Published | None
    tables: tuple[OptimizedTable, ...]
    pending: tuple[PendingIndex, ...]

    @property
    def fragments(self) -> Mapping[str, tuple[int, int]]:
        """By table key, how many fragments there were and how many there are."""
        return {
            each.table_key: (each.fragments_before, each.fragments_after) for each in self.tables
        }

    @property
    def indexes(self) -> tuple[tuple[str, str], ...]:
        """Table key and name of each index that was built or brought up to date."""
        return tuple(
            (each.table_key, name) for each in self.tables for name in (*each.built, *each.folded)
        )
