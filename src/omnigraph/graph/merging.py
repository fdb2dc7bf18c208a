"""The result of a merge, as the facade shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.exec.changes.table_changes import ChangeCounts
from omnigraph.exec.merge.conflicts import MergeConflict
from omnigraph.exec.merge.merger import Merged
from omnigraph.graph.values import Commit, commit_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """The result of a merge, done or only planned.

    Attributes:
        outcome: `already_up_to_date`, `fast_forward` or `merged`.
        commit: The commit that it made; None for a dry run, and when there was nothing to do.
        source: The branch that was merged.
        into: The branch that it was merged into.
        base: The commit from which both sides have changed since; of several, the latest.
        counts: What it changes on the branch that it is merged into, by type (`node:Person`).
        conflicts: What stands in its way; only a dry run has any, otherwise they are an error.
        replayed: An earlier call with the same idempotency key had done it already; this is what
            it did.
        branch_deleted: The source was deleted afterwards.
        branch_delete_error: Why it was not, although that was asked for.
    """

    outcome: str
    commit: Commit | None
    source: str
    into: str
    base: str
    counts: Mapping[str, ChangeCounts]
    conflicts: tuple[MergeConflict, ...] = ()
    replayed: bool = False
    branch_deleted: bool = False
    branch_delete_error: str | None = None

    def __str__(self) -> str:
        lines = [f"{self.source} into {self.into}: {self.outcome.replace('_', ' ')}"]
        for key, counts in self.counts.items():
            numbers = (("+", counts.inserted), ("~", counts.updated), ("-", counts.deleted))
            lines.append(f"  {key}  " + " ".join(f"{s}{n:,}" for s, n in numbers if n))
        lines += [f"  {item.kind.value}: {item.message}" for item in self.conflicts]
        return "\n".join(lines)


def merge_result(done: Merged, source: str, into: str) -> MergeResult:
    """The result of a merge, as users see it."""
    return MergeResult(
        outcome=done.outcome.value,
        commit=None if done.commit is None else commit_of(done.commit),
        source=source,
        into=into,
        base=str(done.base),
        counts=done.counts,
        conflicts=done.conflicts,
        replayed=done.replayed,
    )
