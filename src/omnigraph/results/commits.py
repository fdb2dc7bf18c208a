"""Commits, branches and tags, as users see them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One atomic change of a graph.

    Attributes:
        id: A ULID; commits of one branch sort by time.
        parent_id: The commit it was made on top of; None for the first one.
        merged_parent_id: The head of the branch that it merged, if it is a merge.
        branch: Where it was made.
        actor: Who made it, if that was given.
        created_at: When, in UTC.
        idempotency_key: The caller's name of the operation, if one was given.
        kind: What made it: `mutation`, `load`, `schema_apply` and so on.
        message: What it is about, if that was given.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for a commit.

    Attributes:
        name: The name.
        commit: The id of the commit.
        branch: The branch on which the commit was found.
        actor: Who made the tag, if that was given.
        created_at: When, in UTC.
        message: What it is about, if that was given.
    """

    name: str
    commit: str
    branch: str
    actor: str | None
    created_at: datetime
    message: str | None
