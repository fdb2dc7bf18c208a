"""Blame: the commits of a branch that changed one entity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from omnigraph.core.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.records import Commit
from omnigraph.core.repository import Repository
from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.changes.table_changes import Operation
from omnigraph.exec.changes.diff import table_changes
from omnigraph.lang.catalog.model import EntityType
from omnigraph.runtime import cancellation


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """A commit, and what it did to an entity."""

    commit: Commit
    operation: Operation
    changed: tuple[str, ...]


def blame(
    repo: Repository,
    version: GraphVersion,
    entity_at: Callable[[GraphVersion], EntityType | None],
    entity_id: str,
) -> Iterator[EntityChange]:
    """Yield the commits that changed an entity, newest first, back to the one that inserted it.

    Commits are compared with their first parents, so a merge stands for what it brought along. Of
    a commit that has not touched the type only the versions of tables are looked at, of others the
    rows that they changed. A change of the schema is no change of the entity.

    Args:
        repo: The graph.
        version: The state to start from.
        entity_at: The type at a state; None when the schema does not have it there.
        entity_id: The id of the entity.
    """
    newer = version
    for commit in repo.history(version):
        cancellation.check()
        if commit.parent_id is None:
            return
        older = repo.snapshot_at(commit.parent_id, version.branch)
        entity = entity_at(newer)
        if entity is None:
            return
        found = _change(repo, older, newer, entity, entity_id)
        newer = older
        if found is None:
            continue
        operation, changed = found
        yield EntityChange(commit=commit, operation=operation, changed=changed)
        if operation is Operation.INSERT:
            return


def _change(
    repo: Repository,
    older: GraphVersion,
    newer: GraphVersion,
    entity: EntityType,
    entity_id: str,
) -> tuple[Operation, tuple[str, ...]] | None:
    key = table_key(entity.kind, entity.name)
    before, after = older.tables.get(key), newer.tables.get(key)
    is_same_schema = older.schema_digest == newer.schema_digest
    if before is None or after is None or before == after or not is_same_schema:
        return None
    with storage_errors():
        batch = table_changes(repo.table_diff(before, after), entity).of(entity_id)
    if batch is None:
        return None
    operation, changed = (batch.column(name)[0].as_py() for name in ("operation", "changed"))
    return Operation(operation), tuple(changed)
