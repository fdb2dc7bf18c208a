"""The way out for storage failures: what `store` says in its own words becomes a public error.

Only for places where nothing that a write promised can have moved; where something may have, the
write path speaks for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import Code, GraphError, Internal, Unavailable
from omnigraph.store.failures import FailureKind, StorageFailure


@contextmanager
def storage_errors() -> Iterator[None]:
    """Translate the failures of a block."""
    try:
        yield
    except StorageFailure as failure:
        raise public(failure) from failure


def public(failure: StorageFailure) -> GraphError:
    """The public error of a failure that had no effect."""
    details = {"verb": failure.verb, "place": failure.place, "kind": failure.kind.value}
    if failure.kind is FailureKind.INVALID:
        return Internal(Code.INTERNAL, f"storage refused the request: {failure}", **details)
    return Unavailable(Code.UNAVAILABLE, f"storage failed: {failure}", **details)
