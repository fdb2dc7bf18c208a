"""Idempotency keys: a call that is repeated under its key gets the outcome of the first one.

A commit carries the key of its call, and a digest of what the call asked for. So a repetition is
distinguished from another call that took the same key by mistake.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from omnigraph.core.commits.commit_log import CommitLog
from omnigraph.core.commits.records import CommitRecord
from omnigraph.errors import Code, Conflict, JsonValue

REQUEST: Final = "request"  # the detail of a commit that has the digest
RESULT: Final = "result"  # the detail that has what the first call returned, if the commit does not


@dataclass(frozen=True, slots=True)
class CallKey:
    """The idempotency key of a call, and a digest of its arguments."""

    key: str
    digest: str

    @classmethod
    def of(cls, key: str | None, operation: str, *asked: JsonValue) -> CallKey | None:
        """The key of a call; None for a call without one.

        What is asked for is given as the caller wrote it: `main~1` is another commit when the call
        is repeated.
        """
        if key is None:
            return None
        text = json.dumps([operation, *asked])
        return cls(key, blake2b(text.encode(), digest_size=16).hexdigest())

    def done(self, commits: CommitLog) -> CommitRecord | None:
        """The commit of an earlier call with this key.

        Raises:
            Conflict: That call asked for something else (code `idempotency_key_reused`).
        """
        found = commits.find_key(self.key)
        if found is not None:
            self.check(found)
        return found

    def check(self, commit: CommitRecord) -> None:
        """Refuse a commit with the same key that another request has made."""
        if commit.details.get(REQUEST) != self.digest:
            raise key_reused(commit)


def keyed(commit: CommitRecord, key: CallKey | None) -> CommitRecord:
    """A commit that carries the key of its call, if there is one."""
    if key is None:
        return commit
    details = {**commit.details, REQUEST: key.digest}
    return replace(commit, idempotency_key=key.key, details=details)


def key_reused(commit: CommitRecord) -> Conflict:
    """The error of a key that another operation has taken already."""
    text = f"the idempotency key names another operation already, commit {commit.id}"
    return Conflict(Code.IDEMPOTENCY_KEY_REUSED, text, commit=commit.id)
