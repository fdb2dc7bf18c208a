"""Temporary copies of inputs that can be read only once, or only by this process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.source.formats import MAGIC_BYTES
from omnigraph.errors import Code, InvalidInput
from omnigraph.store.io.streams import open_output

PIECE_BYTES: Final = 8 << 20
_ROWS_MAX: Final = 1 << 17
_LINE_BYTES: Final = 64 << 10  # that are read at once in search of the end of a line


class Scratch:
    """A folder for temporary files, made when the first one is wanted. `close` removes it."""

    def __init__(self) -> None:
        """The folder is made with the first file."""
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def new(self) -> str:
        """A path that is not in use."""
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


class StreamSpool:
    """Copies a binary stream to files: all of it, or so much at a time, up to the end of a line."""

    def __init__(self, stream: Any, name: str) -> None:
        """Copy this stream, which messages call so; its first bytes are read already."""
        self._stream = stream
        self._name = name
        self._rest = b""
        self.is_ended = False
        head: list[bytes] = []
        while sum(map(len, head)) < MAGIC_BYTES and (piece := self._next(_LINE_BYTES)):
            head.append(piece)
        self._rest = b"".join(head)
        self.is_ended = False
        self.head = self._rest[:MAGIC_BYTES]

    def copy(self, path: str, bytes_min: int | None = None) -> None:
        """Copy to a file: at least so many bytes and the rest of a line, or all there are.

        Raises:
            InvalidInput: The stream gives text.
        """
        with open_output(path, durable=False) as output:
            done, piece = 0, b""
            while bytes_min is None or done < bytes_min:
                piece = self._next(PIECE_BYTES if bytes_min is None else bytes_min - done)
                if not piece:
                    return
                done += len(piece)
                output.write(piece)
            while not piece.endswith(b"\n"):
                piece = self._next(_LINE_BYTES)
                if not piece:
                    return
                end = piece.find(b"\n") + 1 or len(piece)
                piece, self._rest = piece[:end], piece[end:]
                output.write(piece)

    def _next(self, size: int) -> bytes:
        if self._rest:
            piece, self._rest = self._rest[:size], self._rest[size:]
            return piece
        found = self._stream.read(min(size, PIECE_BYTES))
        if isinstance(found, str):
            text = f"{self._name} gives text; open it in binary mode"
            raise InvalidInput(Code.INPUT_INVALID, text, file=self._name)
        self.is_ended = not found
        return bytes(found or b"")


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

    Large batches are divided, so that a task need not take more of them than it needs.
    """
    with open_output(uri, storage_options, durable=False) as output:
        with pa.ipc.new_file(output, schema) as writer:
            for batch in batches:
                for piece in pieces(batch):
                    writer.write_batch(piece)
        return output.tell()


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in slices of not too many bytes and rows, as they are spelled out."""
    rows = batch.num_rows
    count = max(1, -(-spelled_out_bytes(batch) // PIECE_BYTES), -(-rows // _ROWS_MAX))
    if min(count, rows) <= 1:
        yield from [batch] if rows else []
        return
    count = min(count, rows)
    for number in range(count):
        start, stop = rows * number // count, rows * (number + 1) // count
        # A few rows may have most of the bytes.
        yield from pieces(batch.slice(start, stop - start))


def spelled_out_bytes(batch: pa.RecordBatch) -> int:
    """The bytes of a batch when dictionaries and runs are spelled out."""
    return sum(map(_spelled_out_bytes, batch.columns))


def _spelled_out_bytes(column: pa.Array) -> int:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _spelled_out_bytes(column.storage)
    if pa.types.is_dictionary(kind):
        sizes = pc.take(_value_bytes(column.dictionary), column.indices)
        total = int(pc.sum(sizes).as_py() or 0)
        return total + int(column.indices.nbytes)
    if pa.types.is_run_end_encoded(kind):
        ends = np.minimum(column.run_ends.to_numpy() - column.offset, len(column)).clip(0)
        sizes = _value_bytes(column.values).to_numpy(zero_copy_only=False)
        return int((np.diff(ends, prepend=0) * np.nan_to_num(sizes)).sum())
    if pa.types.is_list(kind):
        return int(column.nbytes) if _is_plain(kind) else _spelled_out_bytes(column.flatten())
    if pa.types.is_struct(kind) and not _is_plain(kind):
        return sum(map(_spelled_out_bytes, column.flatten()))
    return int(column.nbytes)


def _is_plain(kind: pa.DataType) -> bool:
    """True if nothing within a type is a dictionary or has runs."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return False
    return all(_is_plain(kind.field(place).type) for place in range(kind.num_fields))


def _value_bytes(values: pa.Array) -> pa.Array:
    """The bytes of each value; of nested ones those of all, since any could be the large one."""
    kind = values.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        values = values.cast(pa.large_binary())
    if _has_lengths(values.type):
        return pc.binary_length(values).cast(pa.int64())
    try:
        size = max(1, kind.bit_width // 8)
    except ValueError:
        size = _spelled_out_bytes(values)
    return pa.repeat(pa.scalar(size, pa.int64()), len(values))


def _has_lengths(kind: pa.DataType) -> bool:
    tests = pa.types.is_string, pa.types.is_large_string, pa.types.is_binary
    return any(test(kind) for test in (*tests, pa.types.is_large_binary))
