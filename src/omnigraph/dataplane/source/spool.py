"""Temporary copies of inputs that can be read only once, or only by this process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from omnigraph.dataplane.source.formats import MAGIC_BYTES
from omnigraph.errors import Code, InvalidInput
from omnigraph.store.io.streams import open_output

PIECE_BYTES: Final = 8 << 20
_ROWS_MAX: Final = 1 << 17


class Scratch:
    """A folder for temporary files, made when the first one is wanted. `close` removes it."""

    def __init__(self) -> None:
        """The folder is made with the first file."""
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def new(self) -> str:
        """A path that nobody else uses."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix="omnigraph-input-", ignore_cleanup_errors=True
            )
        self._count += 1
        return os.path.join(self._folder.name, f"{self._count:06d}")

    def close(self) -> None:
        """Remove every file; closing twice is fine."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()


def spool_stream(stream: Any, name: str, path: str) -> bytes:
    """Copy a binary stream to a file; return its first bytes.

    Raises:
        InvalidInput: The stream gives text.
    """
    head = b""
    with open_output(path, durable=False) as output:
        while piece := stream.read(PIECE_BYTES):
            if isinstance(piece, str):
                raise InvalidInput(
                    Code.INPUT_INVALID, f"{name} gives text; open it in binary mode", file=name
                )
            if len(head) < MAGIC_BYTES:
                head += bytes(piece[:MAGIC_BYTES])
            output.write(piece)
    return head[:MAGIC_BYTES]


def spool_lines(lines: Iterable[bytes], path: str) -> int:
    """Write lines to a file; return its size."""
    with open_output(path, durable=False) as output:
        for line in lines:
            output.write(line)
        return output.tell()


def spool_batches(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    uri: str,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Write batches as an Arrow IPC file; return its size.

    Large batches are divided, so that a task need not take more of them than it wants.
    """
    with open_output(uri, storage_options, durable=False) as output:
        with pa.ipc.new_file(output, schema) as writer:
            for batch in batches:
                for piece in pieces(batch):
                    writer.write_batch(piece)
        return output.tell()


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in slices of not too many bytes and rows."""
    rows = batch.num_rows
    count = max(1, -(-batch.nbytes // PIECE_BYTES), -(-rows // _ROWS_MAX))
    for number in range(count):
        start, stop = rows * number // count, rows * (number + 1) // count
        if stop > start:
            yield batch.slice(start, stop - start)
