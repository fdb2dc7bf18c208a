"""Values of the layers below, turned into the results that the facade returns."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.core.commits.records import CommitRecord
from omnigraph.embed.missing import MissingVectors
from omnigraph.embed.provider import PROVIDER_VARIABLE
from omnigraph.exec.mutate.mutator import Mutated
from omnigraph.results.commits import Commit, ResultWarning, time_of
from omnigraph.results.writes import MutationResult


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
        kind=str(record.kind),  # a writer leaves its enum here
        message=record.message,
    )


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
