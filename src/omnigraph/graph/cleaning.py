"""The report of `graph.cleanup()`: what went, or would go, table by table."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.core.cleanup.cleaner import Cleaned, CleanedPart
from omnigraph.results.upkeep import CleanedTable, CleanupResult


def cleanup_result(done: Cleaned, keys: Mapping[str, str], *, dry_run: bool) -> CleanupResult:
    """The report of a clean-up; `keys` names the type of each table by its folder."""
    tables = tuple(_table(part, keys) for part in done.parts)
    return CleanupResult(tables=tables, states=done.states, dry_run=dry_run)


def _table(part: CleanedPart, keys: Mapping[str, str]) -> CleanedTable:
    return CleanedTable(
        path=part.path,
        type=keys.get(part.path),
        versions=part.versions,
        forks=part.forks,
        files=part.files,
        bytes=part.bytes,
        error=part.error,
    )
