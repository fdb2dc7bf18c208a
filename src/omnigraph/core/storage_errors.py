"""Translates failures of the store into public errors.

Only for places where nothing that a write promised can have moved; where something may have, the
write path reports it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from omnigraph.errors import (
    Code,
    Corrupt,
    Forbidden,
    Gone,
    GraphError,
    Internal,
    JsonValue,
    Unavailable,
)
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.storage_calls import StorageCall

# Reading rows of a version that could be opened.
_READING = frozenset({StorageCall.TABLE_SCAN, StorageCall.TABLE_TAKE})
_REMEDY = (
    "restore it from a backup; what does not depend on it can still be read: other branches "
    "(`branch=`) and older commits (`at=`), to be queried or exported"
)
_CREDENTIALS = (
    "check the credentials (`storage_options=`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) "
    "and what they are allowed to do"
)
_MISSING = f"If an old snapshot has outlived its files, take a new one. Otherwise: {_REMEDY}"


class _Translation:
    """Translates on the way out of a block; a generator would take four times as long."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StorageFailure):
            raise public(error) from error


_TRANSLATION: Final = _Translation()


def storage_errors() -> AbstractContextManager[None]:
    """Translate the failures of a block."""
    return _TRANSLATION


def public(failure: StorageFailure) -> GraphError:
    """The public error of a failure that had no effect."""
    details = {"verb": failure.verb, "place": failure.place, "kind": failure.kind.value}
    if failure.is_denied:
        text = f"the storage refuses access ({failure.verb} of {failure.place!r}): {failure.text}"
        return Forbidden(Code.STORAGE_DENIED, f"{text}; {_CREDENTIALS}", **details)
    match failure.kind:
        case FailureKind.INVALID:
            return Internal(Code.INTERNAL, f"storage refused the request: {failure}", **details)
        case FailureKind.CORRUPT:
            return damaged(failure.place, failure.text, **details)
        case FailureKind.NOT_FOUND if failure.verb in _READING:
            text = f"a file of {failure.place!r} is missing: {failure.text}. {_MISSING}"
            return Gone(Code.GONE, text, path=failure.place, **details)
        case _:
            return Unavailable(Code.UNAVAILABLE, f"storage failed: {failure}", **details)


def not_stored(path: str, version: int, **details: JsonValue) -> Gone:
    """The error of a pinned version of a table that is missing."""
    text = f"version {version} of {path!r} is not stored any more. {_MISSING}"
    return Gone(Code.GONE, text, path=path, version=version, **details)


def missing_version(path: str, what: str, **details: JsonValue) -> Corrupt:
    """The error of a version file that the head of a branch needs."""
    text = f"{path!r} is missing: it is {what}. What to do: {_REMEDY}"
    return Corrupt(Code.CORRUPT, text, path=path, **details)


def branch_files_missing(branch: str, place: str) -> Corrupt:
    """The error of a branch that is recorded and has no version: records come last and go first."""
    text = f"the files of branch '{branch}' are missing: restore {place} from a copy"
    return Corrupt(Code.CORRUPT, text, branch=branch, path=place)


def damaged(path: str, reason: str, **details: JsonValue) -> Corrupt:
    """The error of a file or table that cannot be what was written: where, and what to do."""
    text = f"{path!r} is damaged: {reason}. What to do: {_REMEDY}"
    return Corrupt(Code.CORRUPT, text, path=path, **details)
