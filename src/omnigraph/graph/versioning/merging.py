"""Results of merges, tables of conflicts, and files of resolutions, as the facade shows them."""

from __future__ import annotations

from omnigraph.exec.merge.conflicts import Resolve, resolver
from omnigraph.exec.merge.requests import Merged
from omnigraph.exec.merge.resolution_file import Resolution, ResolutionFile, file_of, read_text
from omnigraph.graph.values import commit_of
from omnigraph.results.merging import MergeResult


def as_resolve(given: Resolution | None) -> Resolve:
    """The resolution of conflicts, as a caller says it; a file is read.

    Raises:
        InvalidInput: It is nothing of that kind, or a line of the file is wrong.
        NotFound: There is no such file.
    """
    if isinstance(given, ResolutionFile):
        return given
    path = file_of(given)
    return resolver(given) if path is None else ResolutionFile.parse(str(path), read_text(path))


def merge_result(done: Merged, source: str, into: str) -> MergeResult:
    """The result of a merge, as users see it."""
    return MergeResult(
        outcome=done.outcome.value,
        commit=None if done.commit is None else commit_of(done.commit),
        source=source,
        into=into,
        base=str(done.base),
        counts=done.counts,
        conflicts=done.conflicts,
        settled=done.settled,
        replayed=done.replayed,
    )
