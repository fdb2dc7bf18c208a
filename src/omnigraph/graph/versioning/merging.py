"""Results of merges, tables of conflicts, and files of resolutions, as the facade shows them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from omnigraph.errors import Code, InvalidInput, LimitExceeded, NotFound
from omnigraph.exec.merge.conflicts import Choice, MergeConflict, Resolve, Side, resolver
from omnigraph.exec.merge.requests import Merged
from omnigraph.exec.merge.resolution_file import ResolutionFile
from omnigraph.graph.values import commit_of
from omnigraph.results.merging import MergeResult

# What settles conflicts: a side, a function, or a file of resolutions.
Resolution = Side | Callable[[MergeConflict], Choice | None] | str | os.PathLike[str]

_FILE_SUFFIX: Final = ".jsonl"
_FILE_BYTES_MAX: Final = 256 << 20


def as_resolve(given: Resolution | None) -> Resolve:
    """The resolution of conflicts, as a caller says it; a file is read.

    Raises:
        InvalidInput: It is nothing of that kind, or a line of the file is wrong.
        NotFound: There is no such file.
    """
    is_path = isinstance(given, os.PathLike)
    if is_path or (isinstance(given, str) and given.endswith(_FILE_SUFFIX)):
        return _read(Path(given))  # type: ignore[arg-type]
    return resolver(given)


def _read(path: Path) -> ResolutionFile:
    try:
        size = path.stat().st_size
        if size > _FILE_BYTES_MAX:
            text = f"{path} has {size:,} bytes, a file of resolutions at most {_FILE_BYTES_MAX:,}"
            raise LimitExceeded(
                Code.LIMIT_EXCEEDED, text, bound="resolution_file_bytes", limit=_FILE_BYTES_MAX
            )
        with path.open(encoding="utf-8") as file:
            return ResolutionFile.parse(str(path), file)
    except UnicodeDecodeError as error:
        raise InvalidInput(Code.INPUT_INVALID, f"{path} is no text in UTF-8") from error
    except OSError as error:
        text = f"the file of resolutions {path} cannot be read: {error.strerror}"
        raise NotFound(Code.FILE_NOT_FOUND, text, path=str(path)) from error


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
