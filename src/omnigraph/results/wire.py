"""Results as JSON, with the names that clients know, and back.

The server writes with these functions and the client reads with them. The shapes are also the
schemas of the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NotRequired, TypedDict

from omnigraph.dataplane.counts import ChangeCounts, Counts
from omnigraph.errors import JsonValue
from omnigraph.exec.merge.conflicts import ConflictKind, MergeConflict
from omnigraph.results.changes import Change
from omnigraph.results.commits import Branch, Commit, ResultWarning, Tag, time_of
from omnigraph.results.json_values import json_value
from omnigraph.results.merging import MergeResult
from omnigraph.results.writes import LoadResult, MutationResult

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class CommitOutput(TypedDict):
    """A commit."""

    graph_commit_id: str
    graph_branch: str
    created_at: int
    kind: str
    graph_manifest_version: NotRequired[int]
    parent_commit_id: NotRequired[str]
    merged_parent_commit_id: NotRequired[str]
    actor_id: NotRequired[str]
    idempotency_key: NotRequired[str]
    message: NotRequired[str]


class WarningOutput(TypedDict):
    """A warning about something that was done."""

    code: str
    message: str
    count: int


class ChangeOutput(TypedDict):
    """The answer of a changing query."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    commit: CommitOutput | None
    replayed: bool
    warnings: list[WarningOutput]
    vectors_missing: int
    actor_id: NotRequired[str]
    graph_commit_id: NotRequired[str]


class LoadedType(TypedDict):
    """The numbers of one type of a load."""

    name: str
    entities_loaded: int
    inserted: int
    updated: int
    deleted: int


class LoadOutput(TypedDict):
    """The answer of a load."""

    branch: str
    branch_created: bool
    mode: str
    nodes: list[LoadedType]
    edges: list[LoadedType]
    total_entities: int
    commit: CommitOutput
    graph_commit_id: str
    rows: int
    bytes: int
    seconds: float
    engine: str
    reason: str
    replayed: bool
    warnings: list[WarningOutput]
    vectors_missing: int
    uri: NotRequired[str]
    base_branch: NotRequired[str]
    actor_id: NotRequired[str]


class BranchOutput(TypedDict):
    """A branch."""

    name: str
    head: str
    protected: bool
    parent: NotRequired[str]


class TagOutput(TypedDict):
    """A name for a commit."""

    name: str
    graph_commit_id: str
    branch: str
    created_at: int
    actor_id: NotRequired[str]
    message: NotRequired[str]


class CountsOutput(TypedDict):
    """Numbers of changed entities of one type."""

    inserted: int
    updated: int
    deleted: int


class MergeOutput(TypedDict):
    """The answer of a merge or a revert."""

    source: str
    target: str
    outcome: str
    base: str
    counts: dict[str, CountsOutput]
    replayed: bool
    commit: CommitOutput | None
    merge_conflicts: NotRequired[list[dict[str, Any]]]
    settled: NotRequired[list[dict[str, Any]]]
    graph_commit_id: NotRequired[str]
    actor_id: NotRequired[str]
    branch_deleted: NotRequired[bool]
    branch_delete_error: NotRequired[str]


class TypeOutput(TypedDict):
    """A type by its name."""

    name: str


class EntityImage(TypedDict):
    """The values of an entity at one side of a change."""

    properties: dict[str, Any]
    endpoints: NotRequired[dict[str, Any]]


class EntityChangeOutput(TypedDict):
    """The change of one entity."""

    kind: str
    type: TypeOutput
    id: str
    op: str
    changed: list[str]
    before: NotRequired[EntityImage]
    after: NotRequired[EntityImage]


def microseconds(moment: datetime) -> int:
    """A moment as it is stored."""
    return (moment - _EPOCH) // _MICROSECOND


def commit_json(commit: Commit, version: int | None = None) -> CommitOutput:
    """A commit as JSON."""
    found: CommitOutput = {
        "graph_commit_id": commit.id,
        "graph_branch": commit.branch,
        "created_at": microseconds(commit.created_at),
        "kind": commit.kind,
    }
    if version is not None:
        found["graph_manifest_version"] = version
    if commit.parent_id is not None:
        found["parent_commit_id"] = commit.parent_id
    if commit.merged_parent_id is not None:
        found["merged_parent_commit_id"] = commit.merged_parent_id
    if commit.actor is not None:
        found["actor_id"] = commit.actor
    if commit.idempotency_key is not None:
        found["idempotency_key"] = commit.idempotency_key
    if commit.message is not None:
        found["message"] = commit.message
    return found


def read_commit(found: Mapping[str, Any]) -> Commit:
    """A commit of JSON."""
    return Commit(
        id=found["graph_commit_id"],
        parent_id=found.get("parent_commit_id"),
        merged_parent_id=found.get("merged_parent_commit_id"),
        branch=found["graph_branch"],
        actor=found.get("actor_id"),
        created_at=time_of(found["created_at"]),
        idempotency_key=found.get("idempotency_key"),
        kind=found["kind"],
        message=found.get("message"),
    )


def written_commit(commit: Commit | None) -> dict[str, Any]:
    """The fields of an answer that name the commit of a write, if it made one."""
    if commit is None:
        return {"commit": None}
    return {"commit": commit_json(commit), "graph_commit_id": commit.id}


def _maybe_commit(found: Mapping[str, Any] | None) -> Commit | None:
    return None if found is None else read_commit(found)


def warnings_json(warnings: Iterable[ResultWarning]) -> list[WarningOutput]:
    """Warnings."""
    return [{"code": item.code, "message": item.message, "count": item.count} for item in warnings]


def read_warnings(found: Sequence[Mapping[str, Any]]) -> tuple[ResultWarning, ...]:
    """Warnings, as a server has reported them."""
    return tuple(ResultWarning(**item) for item in found)


def change_json(
    done: MutationResult, branch: str, query_name: str, version: int | None = None
) -> ChangeOutput:
    """The result of a changing query as JSON."""
    commit = done.commit
    found: ChangeOutput = {
        "branch": branch,
        "query_name": query_name,
        "affected_nodes": done.affected_nodes,
        "affected_edges": done.affected_edges,
        "commit": None if commit is None else commit_json(commit, version),
        "replayed": done.replayed,
        "warnings": warnings_json(done.warnings),
        "vectors_missing": done.vectors_missing,
    }
    if commit is not None:
        found["graph_commit_id"] = commit.id
        if commit.actor is not None:
            found["actor_id"] = commit.actor
    return found


def read_change(found: Mapping[str, Any]) -> MutationResult:
    """The result of a changing query of JSON."""
    return MutationResult(
        affected_nodes=found["affected_nodes"],
        affected_edges=found["affected_edges"],
        commit=_maybe_commit(found["commit"]),
        replayed=found["replayed"],
        warnings=read_warnings(found["warnings"]),
        vectors_missing=found["vectors_missing"],
    )


def loaded_types(done: LoadResult, kind: str) -> list[LoadedType]:
    """The counts of a load for the types of one kind, `node` or `edge`, as JSON."""
    return [
        {
            "name": key.removeprefix(f"{kind}:"),
            "entities_loaded": counts.inserted + counts.updated,
            "inserted": counts.inserted,
            "updated": counts.updated,
            "deleted": counts.deleted,
        }
        for key, counts in done.counts.items()
        if key.startswith(f"{kind}:")
    ]


def load_json(done: LoadResult, base: str | None = None, version: int | None = None) -> LoadOutput:
    """The result of a load as JSON."""
    found: LoadOutput = {
        "branch": done.commit.branch,
        "branch_created": done.branch_created,
        "mode": done.mode,
        "nodes": loaded_types(done, "node"),
        "edges": loaded_types(done, "edge"),
        "total_entities": sum(c.inserted + c.updated for c in done.counts.values()),
        "commit": commit_json(done.commit, version),
        "graph_commit_id": done.commit.id,
        "rows": done.rows,
        "bytes": done.bytes,
        "seconds": done.seconds,
        "engine": done.engine,
        "reason": done.reason,
        "replayed": done.replayed,
        "warnings": warnings_json(done.warnings),
        "vectors_missing": done.vectors_missing,
    }
    if done.commit.actor is not None:
        found["actor_id"] = done.commit.actor
    if base is not None:
        found["base_branch"] = base
    return found


def read_load(found: Mapping[str, Any]) -> LoadResult:
    """The result of a load of JSON."""
    counts = {
        f"{kind}:{item['name']}": Counts(
            inserted=item["inserted"], updated=item["updated"], deleted=item["deleted"]
        )
        for kind in ("edge", "node")
        for item in found[f"{kind}s"]
    }
    return LoadResult(
        commit=read_commit(found["commit"]),
        mode=found["mode"],
        counts=counts,
        branch_created=found["branch_created"],
        engine=found["engine"],
        reason=found["reason"],
        rows=found["rows"],
        bytes=found["bytes"],
        seconds=found["seconds"],
        replayed=found["replayed"],
        warnings=read_warnings(found["warnings"]),
        vectors_missing=found["vectors_missing"],
    )


def branch_json(branch: Branch) -> BranchOutput:
    """A branch as JSON."""
    found: BranchOutput = {
        "name": branch.name,
        "head": branch.head,
        "protected": branch.protected,
    }
    if branch.parent is not None:
        found["parent"] = branch.parent
    return found


def read_branch(found: Mapping[str, Any]) -> Branch:
    """A branch of JSON."""
    return Branch(
        name=found["name"],
        parent=found.get("parent"),
        head=found["head"],
        protected=found["protected"],
    )


def tag_json(tag: Tag) -> TagOutput:
    """A tag as JSON."""
    found: TagOutput = {
        "name": tag.name,
        "graph_commit_id": tag.commit,
        "branch": tag.branch,
        "created_at": microseconds(tag.created_at),
    }
    if tag.actor is not None:
        found["actor_id"] = tag.actor
    if tag.message is not None:
        found["message"] = tag.message
    return found


def read_tag(found: Mapping[str, Any]) -> Tag:
    """A tag of JSON."""
    return Tag(
        name=found["name"],
        commit=found["graph_commit_id"],
        branch=found["branch"],
        actor=found.get("actor_id"),
        created_at=time_of(found["created_at"]),
        message=found.get("message"),
    )


def counts_json(counts: Mapping[str, ChangeCounts]) -> dict[str, CountsOutput]:
    """Numbers of changes by type as JSON."""
    return {
        key: {"inserted": item.inserted, "updated": item.updated, "deleted": item.deleted}
        for key, item in counts.items()
    }


def read_counts(found: Mapping[str, Mapping[str, int]]) -> dict[str, ChangeCounts]:
    """Numbers of changes by type of JSON."""
    return {key: ChangeCounts(**item) for key, item in found.items()}


def merge_json(done: MergeResult) -> MergeOutput:
    """The result of a merge as JSON."""
    found: MergeOutput = {
        "source": done.source,
        "target": done.into,
        "outcome": done.outcome,
        "base": done.base,
        "counts": counts_json(done.counts),
        "replayed": done.replayed,
        "commit": None if done.commit is None else commit_json(done.commit),
    }
    if done.conflicts:
        found["merge_conflicts"] = [dict(item.as_json()) for item in done.conflicts]
    if done.settled:
        found["settled"] = [
            {**item.as_json(), "choice": json_value(choice)} for item, choice in done.settled
        ]
    if done.commit is not None:
        found["graph_commit_id"] = done.commit.id
        if done.commit.actor is not None:
            found["actor_id"] = done.commit.actor
    if done.branch_deleted or done.branch_delete_error is not None:
        found["branch_deleted"] = done.branch_deleted
    if done.branch_delete_error is not None:
        found["branch_delete_error"] = done.branch_delete_error
    return found


def read_merge(found: Mapping[str, Any]) -> MergeResult:
    """The result of a merge of JSON."""
    return MergeResult(
        outcome=found["outcome"],
        commit=_maybe_commit(found["commit"]),
        source=found["source"],
        into=found["target"],
        base=found["base"],
        counts=read_counts(found["counts"]),
        conflicts=tuple(map(_read_conflict, found.get("merge_conflicts", ()))),
        settled=tuple((_read_conflict(each), each["choice"]) for each in found.get("settled", ())),
        replayed=found["replayed"],
        branch_deleted=found.get("branch_deleted", False),
        branch_delete_error=found.get("branch_delete_error"),
    )


def _read_conflict(found: Mapping[str, Any]) -> MergeConflict:
    return MergeConflict(
        kind=ConflictKind(found["kind"]),
        entity_kind=found["entity_kind"],
        type=found["type_name"],
        id=found["entity_id"],
        properties=tuple(found["properties"]),
        message=found["message"],
        base=found["base"],
        ours=found["ours"],
        theirs=found["theirs"],
    )


def entity_change_json(change: Change) -> EntityChangeOutput:
    """The change of one entity as JSON."""
    found: EntityChangeOutput = {
        "kind": change.kind,
        "type": {"name": change.type},
        "id": change.id,
        "op": change.operation,
        "changed": list(change.changed),
    }
    if change.before is not None:
        found["before"] = _image(change.kind, change.before)
    if change.after is not None:
        found["after"] = _image(change.kind, change.after)
    return found


def _image(kind: str, values: Mapping[str, Any]) -> EntityImage:
    if kind == "node":
        return {"properties": json_value(values)}
    ends = {name: json_value(values[name]) for name in ("from", "to") if name in values}
    rest = {name: value for name, value in values.items() if name not in ends}
    return {"properties": json_value(rest), "endpoints": ends}


def read_entity_change(found: Mapping[str, Any]) -> Change:
    """The change of one entity of JSON; dates stay texts."""
    return Change(
        kind=found["kind"],
        type=found["type"]["name"],
        id=found["id"],
        operation=found["op"],
        changed=tuple(found["changed"]),
        before=_read_image(found.get("before")),
        after=_read_image(found.get("after")),
    )


def _read_image(found: Mapping[str, Any] | None) -> Mapping[str, JsonValue] | None:
    if found is None:
        return None
    return {**found.get("endpoints", {}), **found["properties"]}
