"""The target of an export: a file that appears when it is complete, or a stream."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO

from omnigraph.core.storage_errors import public
from omnigraph.dataplane.export.model import STREAM
from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.streams import Output, open_output


class _Stream:
    """A file object of the caller; bytes are counted, and it is never closed."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._written = 0
        self.closed = False

    def write(self, data: Any, /) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        while len(rest):
            taken = self._file.write(rest)
            # An unbuffered file may take a part; many others say nothing.
            rest = rest[len(rest) if taken is None else taken :]
        self._written += size
        return size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        return

    def tell(self) -> int:
        return self._written


def open_target(
    target: str | BinaryIO, uri: str, storage_options: Mapping[str, str]
) -> AbstractContextManager[Output]:
    """Open what takes the output.

    Args:
        target: As the user gave it; counts where it is a stream.
        uri: The address; counts where it is none.
        storage_options: How to reach it.
    """
    if uri != STREAM:
        return open_file(uri, storage_options)
    return _open_stream(_standard_output() if isinstance(target, str) else target)


@contextmanager
def open_file(uri: str, storage_options: Mapping[str, str]) -> Iterator[Output]:
    """Open a file or object; one of the same name is replaced at the end, and only then.

    Raises:
        InvalidInput: There cannot be a file of this name.
        NotFound: There is no such bucket.
        Unavailable: Storage failed.
    """
    try:
        # Not synced: an export can be made again, and waiting for the disk would take longest.
        with open_output(uri, storage_options, durable=False) as output:
            yield output
    except StorageFailure as failure:
        text = f"cannot write {uri!r}: {failure.text}"
        if failure.kind in (FailureKind.INVALID, FailureKind.EXISTS):
            raise InvalidInput(Code.INPUT_INVALID, text, target=uri) from failure
        if failure.kind is FailureKind.NOT_FOUND:
            raise NotFound(Code.NOT_FOUND, text, target=uri) from failure
        raise public(failure) from failure


def _standard_output() -> Any:
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        raise InvalidInput(Code.INPUT_INVALID, "there is no standard output that takes bytes")
    # What was printed before comes first.
    sys.stdout.flush()
    return buffer


@contextmanager
def _open_stream(file: Any) -> Iterator[Output]:
    stream = _Stream(file)
    yield stream
    if callable(getattr(file, "flush", None)):
        file.flush()
    stream.closed = True
