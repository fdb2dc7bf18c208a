"""Results of calls that change a graph, or copy it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.dataplane.counts import Counts
from omnigraph.dataplane.progress import StageFigures
from omnigraph.results.commits import Commit, ResultWarning


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
class CopyResult:
    """The result of a copy.

    Attributes:
        uri: Where the copy is.
        commit: The id of the newest commit of the branch that was copied, or of `main`.
        branches: The branches that the copy has.
        files: How many files it has.
        bytes: How many bytes were copied now.
        reused: How many of the files an earlier attempt had brought there.
        engine: What it ran on: `inprocess` or `spark`.
        reason: Why.
        seconds: How long it took.
    """

    uri: str
    commit: str
    branches: tuple[str, ...]
    files: int
    bytes: int
    reused: int
    engine: str
    reason: str
    seconds: float


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
