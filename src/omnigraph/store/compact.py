"""Compaction: fewer, larger fragments with the same rows.

Lance commits a compaction in two steps of its own and takes no identity for them, so it is not
staged and landed like a change. Row identities and row versions stay.
"""

from functools import partial
from typing import Final

from lance.optimize import Compaction as LanceCompaction

from omnigraph.store.calls import StorageCall, storage_call
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.files import Files
from omnigraph.store.gateway import Dataset, Gateway, read_commit, tree_path
from omnigraph.store.model import Compaction

__all__ = ["compact"]

_COMPACT: Final = StorageCall.TABLE_COMPACT.value
# One version reserves fragment numbers, the next one puts the fragments in place.
COMMITS: Final = 2


def compact(
    gateway: Gateway,
    files: Files,
    *,
    path: str,
    branch: str | None,
    target_rows: int,
    expected: int | None,
) -> Compaction | None:
    """Compact the head of a table; None when there is nothing to do."""
    place = tree_path(path, branch)
    handle = storage_call(StorageCall.TABLE_HEAD, place, lambda: gateway.open(path, None, branch))
    base = int(handle.version)
    if expected is not None and base != expected:
        text = f"head is {base}, expected {expected}"
        raise StorageFailure(FailureKind.CONFLICT, _COMPACT, place, text)
    plan = storage_call(
        StorageCall.TABLE_COMPACT,
        place,
        lambda: LanceCompaction.plan(handle, {"target_rows_per_fragment": target_rows}),
    )
    if not plan.num_tasks():
        return None
    indexes = _segments(handle)
    results = [
        storage_call(StorageCall.TABLE_WRITE, place, partial(task.execute, handle))
        for task in plan.tasks
    ]
    written = [fragment for result in results for fragment in result.new_fragments]
    files.sync(place, files.of_fragments(place, written))
    metrics = storage_call(
        StorageCall.TABLE_COMMIT, place, lambda: LanceCompaction.commit(handle, results)
    )
    version = int(handle.version)
    _sync(gateway, files, path, branch, handle, indexes)
    if expected is not None and version != expected + COMMITS:
        text = f"landed as version {version} instead of {expected + COMMITS}"
        raise StorageFailure(FailureKind.UNKNOWN, _COMPACT, place, text)
    return Compaction(version, metrics.fragments_removed, metrics.fragments_added)


def _sync(
    gateway: Gateway,
    files: Files,
    path: str,
    branch: str | None,
    handle: Dataset,
    indexes: set[str],
) -> None:
    place = tree_path(path, branch)
    head = int(handle.version)
    created = [name for uuid in _segments(handle) - indexes for name in files.of_index(place, uuid)]
    for version in range(head - COMMITS + 1, head + 1):
        at = storage_call(
            StorageCall.TABLE_OPEN, place, partial(gateway.open, path, version, branch)
        )
        commit = read_commit(at, place)
        if commit is not None:
            created.extend(
                files.of_commit(
                    place, version=version, read_version=commit.read_version, uuid=commit.uuid
                )
            )
    files.sync(place, created)


def _segments(handle: Dataset) -> set[str]:
    return {segment.uuid for index in handle.describe_indices() for segment in index.segments}
