"""Where the bytes go: a file that appears when it is complete, or a stream that somebody gave."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, BinaryIO

from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.export.model import STREAM
from omnigraph.store.streams import Output, open_output


class _Stream:
    """A file object of somebody else: counted, never closed."""

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
    return _open_stream(sys.stdout.buffer if isinstance(target, str) else target)


@contextmanager
def open_file(uri: str, storage_options: Mapping[str, str]) -> Iterator[Output]:
    """Open a file or object; whatever has its name is replaced at the end, and only then."""
    with storage_errors(), open_output(uri, storage_options, durable=False) as output:
        yield output


@contextmanager
def _open_stream(file: Any) -> Iterator[Output]:
    stream = _Stream(file)
    yield stream
    if callable(getattr(file, "flush", None)):
        file.flush()
    stream.closed = True
