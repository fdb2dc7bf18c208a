"""Blame: the commits of a branch that changed one entity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.repository import Repository
from omnigraph.core.schema.alignment import TypeState, type_state
from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.changes.table_changes import Operation
from omnigraph.exec.changes.diff import table_changes
from omnigraph.lang.catalog.model import EntityType
from omnigraph.runtime import cancellation


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """A commit, and what it did to an entity."""

    commit: CommitRecord
    operation: Operation
    changed: tuple[str, ...]


def blame(
    repo: Repository,
    version: GraphVersion,
    entity: EntityType,
    entity_id: str,
) -> Iterator[EntityChange]:
    """Yield the commits that changed an entity, newest first, back to the one that inserted it.

    Commits are compared with their first parents, so a merge stands for what it brought along. Of
    a commit that has not touched the type only the versions of tables are looked at, of others the
    rows that they changed. A change of the schema is no change of the entity: what it renames or
    fills is the same before and after.

    Args:
        repo: The graph.
        version: The state to start from.
        entity: The type, as that state has it.
        entity_id: The id of the entity.
    """
    newer = version
    for commit in repo.history(version):
        cancellation.check()
        if commit.parent_id is None:
            return
        older = repo.snapshot_at(commit.parent_id, version.branch)
        before, after = (
            type_state(each, repo.schema(each).catalog, entity) for each in (older, newer)
        )
        if after is None:
            return
        is_same = before is not None and before.pin == after.pin
        found = None if is_same else _change(repo, before, after, entity_id)
        newer = older
        if found is None:
            continue
        operation, changed = found
        yield EntityChange(commit=commit, operation=operation, changed=changed)
        if operation is Operation.INSERT:
            return


def _change(
    repo: Repository, before: TypeState | None, after: TypeState, entity_id: str
) -> tuple[Operation, tuple[str, ...]] | None:
    with storage_errors():
        diff = repo.type_diff(before, after, after.entity)
        batch = table_changes(diff, after.entity).of(entity_id)
    if batch is None:
        return None
    operation, changed = (batch.column(name)[0].as_py() for name in ("operation", "changed"))
    return Operation(operation), tuple(changed)
