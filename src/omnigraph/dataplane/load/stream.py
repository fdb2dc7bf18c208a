"""Batches of a stream: which of them the graph has taken already.

Spark gives a batch again after a failure, and all of them from number 0 on when the checkpoint of
the query is lost; what a number stands for may be something else then. So a batch is known by the
name of its stream, its number and the fingerprint of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Final

from omnigraph.core.commits.records import CommitRecord
from omnigraph.dataplane.load.fingerprint import NOTHING, Fingerprint, spelled
from omnigraph.dataplane.load.request import StreamBatch
from omnigraph.errors import JsonValue
from omnigraph.runtime import telemetry
from omnigraph.types import IdempotencyKey

STREAM: Final = "stream"  # in the details of a commit
_NAME, _QUERY, _BATCH = "name", "query", "batch"
_NUMBER_MAX: Final = (1 << 63) - 1


def check_stream_name(name: str) -> None:
    """Check that keys of batches can be made of a name.

    Raises:
        InvalidInput: It is too long, or not printable.
    """
    _key(StreamBatch(stream=name, number=_NUMBER_MAX), spelled(NOTHING))


def batch_key(
    batch: StreamBatch,
    rows: Fingerprint,
    *,
    find: Callable[[str], CommitRecord | None],
    newest_first: Callable[[], Iterable[CommitRecord]],
) -> IdempotencyKey:
    """The idempotency key of a batch: that of an earlier commit only if it is the same batch.

    A query whose checkpoint was lost repeats the batches of another query, with the same numbers
    and rows, until it brings something new. From then on its batches are its own: rows that happen
    to be those of an old batch of the same number may have come to change something back.

    Args:
        batch: The batch.
        rows: The fingerprint of its rows.
        find: The commit of the branch that has a key.
        newest_first: The commits of the branch.
    """
    content = spelled(rows)
    key = _key(batch, content)
    known = find(key)
    if known is None or batch.query is None:
        return key
    taken_by = _told(known).get(_QUERY)
    if taken_by == batch.query:
        return key
    if not any(_is_of(batch, commit) for commit in newest_first()):
        telemetry.count("stream.repeated")
        telemetry.logger.warning(
            "batch %d of stream '%s' is known from another query, as commit %s; was the checkpoint "
            "lost?",
            batch.number,
            batch.stream,
            known.id,
        )
        return key
    own = blake2b(f"{content} {batch.query}".encode(), digest_size=16).hexdigest()
    return _key(batch, own)


def recorded(batch: StreamBatch) -> dict[str, JsonValue]:
    """The details that a commit records of the batch that it holds."""
    return {_NAME: batch.stream, _QUERY: batch.query, _BATCH: batch.number}


def _is_of(batch: StreamBatch, commit: CommitRecord) -> bool:
    """True if a commit holds a batch of the same query."""
    told = _told(commit)
    return (told.get(_NAME), told.get(_QUERY)) == (batch.stream, batch.query)


def _told(commit: CommitRecord) -> Mapping[str, JsonValue]:
    found = commit.details.get(STREAM)
    return found if isinstance(found, Mapping) else {}


def _key(batch: StreamBatch, content: str) -> IdempotencyKey:
    return IdempotencyKey(f"stream:{batch.stream}:{batch.number}:{content}")
