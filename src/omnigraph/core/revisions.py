"""Revisions: the names of states, and the one place where they are resolved.

A revision is a commit id, a tag or a branch, each perhaps with `~n` for n commits before it, or a
time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, TypeAlias

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.manifest.refs import tag_of, tags_of
from omnigraph.core.repository import Repository
from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.lang.source import did_you_mean
from omnigraph.types import MAIN, ULID, BranchName, CommitId

Revision: TypeAlias = str | datetime

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STEPS: Final = re.compile(r"[0-9]{0,6}")
# No branch or tag has a colon in its name, so a time of day is never taken for one.
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:.*")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_time(text: str) -> datetime:
    """The time that a text in ISO 8601 means; without a zone it is in UTC.

    Raises:
        InvalidInput: It is no time.
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError as error:
        message = f"a time is written like 2024-05-01T12:00:00Z, not {text!r:.80}"
        raise InvalidInput(Code.INPUT_INVALID, message, time=text) from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


class Revisions:
    """Resolves revisions of one graph."""

    __slots__ = ("_repo",)

    def __init__(self, repo: Repository) -> None:
        """Resolve states of this graph."""
        self._repo = repo

    def resolve(self, revision: object, branch: BranchName = MAIN) -> GraphVersion:
        """The state that a revision names.

        Args:
            revision: A commit id, a tag, a branch, each perhaps with `~n`, or a time: a `datetime`
                with a time zone, or a text in ISO 8601.
            branch: The branch whose state at a time is meant, and where a commit is looked for
                first. `~n` alone starts from its newest commit.

        Raises:
            NotFound: There is no such state; the message names what is spelled alike.
            InvalidInput: It is no revision, or a `datetime` without a time zone.
        """
        if isinstance(revision, datetime):
            return self._at_time(revision, branch)
        if not isinstance(revision, str):
            message = f"a revision is a text or a datetime, not {type(revision).__name__}"
            raise InvalidInput(Code.INPUT_INVALID, message)
        if _TIME.fullmatch(revision):
            return self._at_time(parse_time(revision), branch)
        name, tilde, steps = revision.partition("~")
        if tilde and not _STEPS.fullmatch(steps):
            message = f"{revision!r:.200}: behind '~' stands how many commits to go back"
            raise InvalidInput(Code.INPUT_INVALID, message, revision=revision)
        found = self._named(name, branch) if name or not tilde else self._repo.snapshot(branch)
        return self._before(found, int(steps or "1"), revision) if tilde else found

    def _named(self, name: str, branch: BranchName) -> GraphVersion:
        missing: NotFound | None = None
        if ULID.fullmatch(name):
            try:
                return self._repo.snapshot_at(CommitId(name), branch)
            except NotFound as error:
                missing = error
        known = BranchName(name)
        if known == MAIN:
            return self._repo.snapshot(known)
        refs = self._repo.snapshot(MAIN).refs
        tag = tag_of(refs, name)
        if tag is not None:
            return self._repo.snapshot_at(tag.commit, tag.branch)
        if self._repo.has_branch(known):
            return self._repo.snapshot(known)
        if missing is not None:
            raise missing
        near = did_you_mean(name, (*self._repo.branches.list(), *tags_of(refs)))
        if _DAY.fullmatch(name):
            near = f"a time has a time of day, too: {name}T00:00:00Z"
        message = f"there is no commit, tag or branch '{name}'" + (f"; {near}" if near else "")
        raise NotFound(Code.NOT_FOUND, message, revision=name)

    def _before(self, version: GraphVersion, steps: int, revision: str) -> GraphVersion:
        history = [commit.id for commit in islice(self._repo.history(version), steps + 1)]
        if len(history) <= steps:
            message = f"{revision!r} goes back {steps} commits, and there are {len(history) - 1}"
            raise NotFound(Code.NOT_FOUND, message, revision=revision)
        return self._repo.snapshot_at(history[steps], version.branch)

    def _at_time(self, time: datetime, branch: BranchName) -> GraphVersion:
        """The newest state of a branch that was made at a time, or before it."""
        if time.tzinfo is None:
            message = "a datetime needs a time zone: datetime(2024, 5, 1, 12, tzinfo=timezone.utc)"
            raise InvalidInput(Code.INPUT_INVALID, message, time=time.isoformat())
        limit = (time - _EPOCH) // timedelta(microseconds=1)
        now = self._repo.snapshot(branch)
        for commit in self._repo.history(now):
            if commit.created_at <= limit:
                return self._repo.snapshot_at(commit.id, branch)
        message = f"branch '{branch}' has no commit at {time.isoformat()} or before"
        raise NotFound(Code.NOT_FOUND, message, branch=branch, time=time.isoformat())
