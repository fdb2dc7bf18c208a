"""Requests to merge, to revert and to reset, and the result of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.core.commits.keys import CallKey
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.revisions import Revision
from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.exec.merge.conflicts import Choice, MergeConflict, Resolve
from omnigraph.types import BranchName, CommitId


class MergeOutcome(StrEnum):
    """The ways in which a merge can end."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """A branch, the branch that it is merged into, and the terms of the merge."""

    source: BranchName
    into: BranchName
    resolve: Resolve
    by_row: bool = False
    dry_run: bool = False
    actor: str | None = None
    message: str | None = None
    key: CallKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertRequest:
    """A commit to be taken back, and the branch on which that happens."""

    commit: Revision
    branch: BranchName
    resolve: Resolve
    dry_run: bool = False
    actor: str | None = None
    message: str | None = None
    key: CallKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """A branch, the state that it gets back, and the head that the caller demands."""

    branch: BranchName
    to: Revision
    if_head: CommitId | None = None
    dry_run: bool = False
    actor: str | None = None
    message: str | None = None
    key: CallKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The result of a merge.

    Attributes:
        outcome: How it ended.
        base: The merge base.
        source: The commit that was brought in, taken back or returned to.
        commit: The commit that it made; None for a dry run and when there was nothing to do.
        counts: What it changed on the branch that it was merged into, by table key.
        conflicts: What stands in its way; only a dry run has any.
        settled: The conflicts that were settled, and by which choices.
        replayed: An earlier call with the same idempotency key had done it already.
    """

    outcome: MergeOutcome
    base: CommitId
    source: CommitId
    commit: CommitRecord | None
    counts: Mapping[str, ChangeCounts]
    conflicts: tuple[MergeConflict, ...] = ()
    settled: tuple[tuple[MergeConflict, Choice], ...] = ()
    replayed: bool = False
