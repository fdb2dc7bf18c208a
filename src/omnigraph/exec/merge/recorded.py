"""The details that the commit of a merge, a revert or a reset keeps for calls that repeat it."""

from __future__ import annotations

from omnigraph.core.commits.keys import key_reused
from omnigraph.core.commits.records import CommitRecord
from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.errors import JsonValue
from omnigraph.exec.merge.requests import (
    Merged,
    MergeOutcome,
    MergeRequest,
    ResetRequest,
    RevertRequest,
)
from omnigraph.types import CommitId

# The details of such a commit, besides the commits that a merge brought along.
REVERTED = "reverted"
RESET_TO, FORMER_HEAD = "reset_to", "former_head"
OUTCOME, BASE, COUNTS = "outcome", "base", "counts"


def details_of(done: Merged) -> dict[str, JsonValue]:
    """The details of a commit from which the result of the call can be read again."""
    return {
        OUTCOME: done.outcome.value,
        BASE: str(done.base),
        COUNTS: {k: [c.inserted, c.updated, c.deleted] for k, c in done.counts.items()},
    }


def recorded(commit: CommitRecord, request: MergeRequest | RevertRequest | ResetRequest) -> Merged:
    """The result of an earlier call, read from its commit, if it was the same call."""
    details = commit.details
    counts = details.get(COUNTS)
    assert request.key is not None, "only a call with a key was made before"
    request.key.check(commit)
    if not isinstance(counts, dict):
        raise key_reused(commit)
    source = commit.merged_parent_id or details.get(REVERTED) or details.get(RESET_TO)
    return Merged(
        outcome=MergeOutcome(str(details[OUTCOME])),
        base=CommitId(str(details[BASE])),
        source=CommitId(str(source)),
        commit=commit,
        counts={key: ChangeCounts.of(numbers) for key, numbers in counts.items()},
        replayed=True,
    )
