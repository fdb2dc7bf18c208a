"""Results that the facade returns: plain, frozen values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from omnigraph.core.records import Commit as CommitRecord
from omnigraph.dataplane.load.request import Counts
from omnigraph.dataplane.progress import StageFigures
from omnigraph.embed.missing import MissingVectors
from omnigraph.embed.provider import PROVIDER_VARIABLE
from omnigraph.exec.mutate.mutator import Mutated

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One atomic change of a graph.

    Attributes:
        id: A ULID; commits of one branch sort by time.
        parent_id: The commit it was made on top of; None for the first one.
        merged_parent_id: The head of the branch that it merged, if it is a merge.
        branch: Where it was made.
        actor: Who made it, if somebody said so.
        created_at: When, in UTC.
        idempotency_key: The caller's name of the operation, if one was given.
        kind: What made it: `mutation`, `load`, `schema_apply` and so on.
        message: What it is about, if somebody said so.
    """

    id: str
    parent_id: str | None
    merged_parent_id: str | None
    branch: str
    actor: str | None
    created_at: datetime
    idempotency_key: str | None
    kind: str
    message: str | None = None


def time_of(microseconds: int) -> datetime:
    """A stored time, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def commit_of(record: CommitRecord) -> Commit:
    """A commit as users see it."""
    return Commit(
        id=str(record.id),
        parent_id=None if record.parent_id is None else str(record.parent_id),
        merged_parent_id=None if record.merged_parent_id is None else str(record.merged_parent_id),
        branch=str(record.branch),
        actor=record.actor,
        created_at=time_of(record.created_at),
        idempotency_key=record.idempotency_key,
        kind=record.kind,
        message=record.message,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch.

    Attributes:
        name: Its name.
        parent: The branch that it was made from; None for main.
        head: The id of its newest commit.
        protected: It can be neither deleted nor reset.
    """

    name: str
    parent: str | None
    head: str
    protected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultWarning:
    """A warning about something that was done.

    Attributes:
        code: What it is; `embedding_provider_missing`: vectors were left null.
        message: The same for people, with what to do about it.
        count: How many entities it is about.
    """

    code: str
    message: str
    count: int


def warnings_of(missing: Sequence[MissingVectors]) -> tuple[ResultWarning, ...]:
    """Warnings about vectors that could not be computed."""
    return tuple(
        ResultWarning(
            code="embedding_provider_missing",
            message=(
                f"{item.table_key.partition(':')[2]}.{item.property} is null in {item.count:,} "
                f"entities that have its text: no embedding provider is configured; set "
                f"{PROVIDER_VARIABLE}, then `graph.embed()` or `omnigraph embed` computes them"
            ),
            count=item.count,
        )
        for item in missing
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationResult:
    """The result of a changing query.

    Attributes:
        affected_nodes: How many different nodes were inserted, changed or deleted.
        affected_edges: The same for edges, cascades included.
        commit: The commit that made it visible; None when nothing matched, so nothing changed.
        replayed: An earlier call with the same idempotency key had done it already; this is what
            it did.
        warnings: What the caller should know.
        vectors_missing: How many vectors were left null because no embedding provider is
            configured.
    """

    affected_nodes: int
    affected_edges: int
    commit: Commit | None
    replayed: bool = False
    warnings: tuple[ResultWarning, ...] = ()
    vectors_missing: int = 0


def mutation_of(done: Mutated) -> MutationResult:
    """The result of a changing query, as users see it."""
    return MutationResult(
        affected_nodes=done.affected_nodes,
        affected_edges=done.affected_edges,
        commit=None if done.commit is None else commit_of(done.commit),
        replayed=done.replayed,
        warnings=warnings_of(done.missing),
        vectors_missing=sum(item.count for item in done.missing),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult:
    """The result of `ensure_indices`.

    Attributes:
        commit: The commit that took the indexes into use; None when none was missing.
        built: Type and name of each index that was built.
        pending: Type, property and reason of each index that cannot be built yet.
    """

    commit: Commit | None
    built: tuple[tuple[str, str], ...]
    pending: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The result of a load.

    Attributes:
        commit: The one commit that made all of it visible.
        mode: `append`, `merge` or `overwrite`.
        counts: By type (`node:Person`), how many entities were inserted, updated and deleted.
        branch_created: The branch was made by the same commit.
        engine: What it ran on: `inprocess` or `spark`.
        reason: Why.
        rows: How many rows were read.
        bytes: How many bytes of input were read.
        seconds: How long it took.
        stages: What each stage did, in their order.
        replayed: An earlier call with the same idempotency key had done it already; this is what
            it did.
        warnings: What the caller should know.
        vectors_missing: How many vectors were left null because no embedding provider is
            configured.
    """

    commit: Commit
    mode: str
    counts: Mapping[str, Counts]
    branch_created: bool
    engine: str
    reason: str
    rows: int
    bytes: int
    seconds: float
    stages: tuple[StageFigures, ...] = ()
    replayed: bool = False
    warnings: tuple[ResultWarning, ...] = ()
    vectors_missing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedResult:
    """The result of `embed`.

    Attributes:
        commit: The last commit that it made; None when there was nothing to compute.
        commits: How many it made, one per batch.
        vectors: How many vectors were computed, by `node:Doc.vector`.
        skipped: How many entities others changed or removed meanwhile; they are left as they are.
        engine: What it ran on: `inprocess` or `spark`.
        reason: Why.
        seconds: How long it took.
    """

    commit: Commit | None
    commits: int
    vectors: Mapping[str, int]
    skipped: int
    engine: str
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The result of an export.

    Attributes:
        commit: The id of the commit whose state it is.
        files: The files, in the order of their content; `-` for a stream.
        rows: By type (`node:Person`), how many entities.
        bytes: How many bytes were written.
        engine: What it ran on: `inprocess` or `spark`.
        reason: Why.
        seconds: How long it took.
        stages: What each stage did, in their order.
    """

    commit: str
    files: tuple[str, ...]
    rows: Mapping[str, int]
    bytes: int
    engine: str
    reason: str
    seconds: float
    stages: tuple[StageFigures, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeResult:
    """The result of `optimize`.

    Attributes:
        commit: The commit that took the result into use; None when there was nothing to gain.
        fragments: By type, how many fragments its table had before and has now.
        indexes: Type and name of each index that was built or brought up to date.
        pending: Type, property and reason of each index that cannot be built yet.
        engine: What it ran on: `inprocess` or `spark`.
        reason: Why.
        seconds: How long it took.
    """

    commit: Commit | None
    fragments: Mapping[str, tuple[int, int]]
    indexes: tuple[tuple[str, str], ...]
    pending: tuple[tuple[str, str, str], ...]
    engine: str
    reason: str
    seconds: float
