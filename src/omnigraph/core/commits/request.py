"""A commit request: everything that publishing a write takes, as one value.

The writer makes it, its intent stores it, and the publisher and recovery take it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from omnigraph.core.commits.records import CommitRecord, Record
from omnigraph.core.commits.requirements import Requirement
from omnigraph.core.commits.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """A commit, the branch that it is for, what it depends on, and the rows that it publishes.

    Attributes:
        commit: What the commit is; publishing it adds the parent.
        target: The branch.
        requires: What must still hold when it is published.
        records: The rows that it writes beside the commit and the head.
        schema_digest: The schema that it puts in force; None: no other.
        moves_head: Whether the commit becomes the head of the branch; one that sets a ref does not.
    """

    commit: CommitRecord
    target: Target
    requires: tuple[Requirement, ...]
    records: tuple[Record, ...] = ()
    schema_digest: str | None = None
    moves_head: bool = True

    def with_records(self, records: Iterable[Record]) -> CommitRequest:
        """The request with more rows, which come before its own."""
        return replace(self, records=(*records, *self.records))
