"""The changes of successive commits of a branch, many small ones read together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.layout import table_key
from omnigraph.core.repository import Repository
from omnigraph.core.schema.alignment import type_state
from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.changes.commit_window import CommitWindow, RowChange
from omnigraph.exec import tuning
from omnigraph.exec.changes.diff import blobs_of, image_columns
from omnigraph.lang.catalog.model import EntityType
from omnigraph.runtime import cancellation
from omnigraph.store.reading.table_diff import TableDiff

# The changes of one commit, in the order of a diff.
CommitChanges = list[tuple[EntityType, RowChange]]


def changes_of_commits(
    repo: Repository, states: Sequence[GraphVersion], types: Sequence[EntityType], wanted: int
) -> list[CommitChanges]:
    """The changes of the first of some commits, as many as are small enough to be read together.

    Args:
        repo: The graph.
        states: The state before the first commit, and that of each commit; one schema for all.
        types: The types that are reported, in the order of a diff.
        wanted: So many changes are enough.

    Returns:
        The changes of each commit, oldest first. Fewer than there are commits, perhaps none.
    """
    windows = [CommitWindow(image_columns(each)) for each in types]
    done = events = 0
    for older, newer in pairwise(states):
        cancellation.check()
        if newer.schema_digest != older.schema_digest:
            break
        diffs = {
            place: _diff(repo, older, newer, entity)
            for place, entity in enumerate(types)
            if _pin(older, entity) != _pin(newer, entity)
        }
        rows = sum(each.count for each in windows) + sum(each.count for each in diffs.values())
        is_small = all(
            CommitWindow.takes(diff) and not blobs_of(types[place]) for place, diff in diffs.items()
        )
        if not is_small or rows > tuning.active.feed_rows_max:
            break
        for place, diff in diffs.items():
            windows[place].add(done, diff)
            # Perhaps more than there are: a fold lists rows on both sides that have not changed.
            events += max(diff.added.count, diff.removed.count)
        done += 1
        if events >= wanted:
            break
    found: list[CommitChanges] = [[] for _ in range(done)]
    for entity, window in zip(types, windows, strict=True):
        with storage_errors():
            for change in window.changes():
                found[change.commit].append((entity, change))
    return found


def _pin(version: GraphVersion, entity: EntityType) -> TablePin:
    return version.pin(table_key(entity.kind, entity.name))


def _diff(
    repo: Repository, older: GraphVersion, newer: GraphVersion, entity: EntityType
) -> TableDiff:
    catalog = repo.schema(newer).catalog
    before, after = (type_state(each, catalog, entity) for each in (older, newer))
    assert after is not None, "its catalog has it"
    return repo.type_diff(before, after, entity)
