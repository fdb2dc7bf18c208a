"""Output of commands about commits, branches, tags, changes and results, as plain values.

The names are those of the wire, so that a program reads the same from a command as from a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.cli.results import plain_row
from omnigraph.errors import JsonValue

if TYPE_CHECKING:
    import omnigraph as og


def commit_record(commit: og.Commit) -> dict[str, JsonValue]:
    """A commit."""
    return {
        "graph_commit_id": commit.id,
        "parent_commit_id": commit.parent_id,
        "merged_parent_commit_id": commit.merged_parent_id,
        "graph_branch": commit.branch,
        "actor_id": commit.actor,
        "created_at": commit.created_at.isoformat().replace("+00:00", "Z"),
        "kind": commit.kind,
        "message": commit.message,
    }


def branch_record(branch: og.Branch) -> dict[str, JsonValue]:
    """A branch."""
    return {
        "name": branch.name,
        "parent": branch.parent,
        "graph_commit_id": branch.head,
        "protected": branch.protected,
    }


def tag_record(tag: og.Tag) -> dict[str, JsonValue]:
    """A tag."""
    return {
        "name": tag.name,
        "graph_commit_id": tag.commit,
        "graph_branch": tag.branch,
        "actor_id": tag.actor,
        "created_at": tag.created_at.isoformat().replace("+00:00", "Z"),
        "message": tag.message,
    }


def change_line(change: og.Change) -> str:
    """A change on one line; values as JSON says them, wherever it was read."""
    before, after = (
        None if image is None else plain_row(image) for image in (change.before, change.after)
    )
    return str(replace(change, before=before, after=after))


def change_record(change: og.Change) -> dict[str, JsonValue]:
    """The change of an entity."""
    return {
        "kind": change.kind,
        "type": change.type,
        "id": change.id,
        "operation": change.operation,
        "changed": list(change.changed),
        "before": None if change.before is None else plain_row(change.before),
        "after": None if change.after is None else plain_row(change.after),
    }


def counts_record(counts: Mapping[str, og.ChangeCounts]) -> dict[str, JsonValue]:
    """Numbers of changes by type."""
    return {
        key: {"inserted": each.inserted, "updated": each.updated, "deleted": each.deleted}
        for key, each in counts.items()
    }


def merge_record(done: og.MergeResult) -> dict[str, JsonValue]:
    """The result of a merge or of a revert."""
    return {
        "outcome": done.outcome,
        "graph_commit_id": None if done.commit is None else done.commit.id,
        "source": done.source,
        "into": done.into,
        "base": done.base,
        "counts": counts_record(done.counts),
        "conflicts": [
            {
                "kind": item.kind.value,
                "type": item.type,
                "id": item.id,
                "properties": list(item.properties),
                "message": item.message,
                "base": None if item.base is None else plain_row(item.base),
                "ours": None if item.ours is None else plain_row(item.ours),
                "theirs": None if item.theirs is None else plain_row(item.theirs),
            }
            for item in done.conflicts
        ],
        "branch_deleted": done.branch_deleted,
        "branch_delete_error": done.branch_delete_error,
    }


def warning_records(warnings: Sequence[og.ResultWarning]) -> list[JsonValue]:
    """Warnings of a result."""
    return [{"code": item.code, "message": item.message, "count": item.count} for item in warnings]
