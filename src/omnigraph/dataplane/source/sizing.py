"""The sizes of inputs once they are unpacked, estimated.

Bytes of packed files say little: 7 MB of Parquet may be 16 million rows. So files of Parquet are
asked for the number of their rows, and of what gzip or Zstandard packed the beginning is unpacked.
Of many files of a kind a few are looked at, and the others are taken to be like them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.dataplane.source.formats import ARROW_MAGIC
from omnigraph.dataplane.source.model import (
    Compression,
    FileInput,
    Format,
    Input,
    SmallFiles,
    StreamInput,
    TableInput,
    TypeRef,
)
from omnigraph.dataplane.source.paths import reading
from omnigraph.errors import GraphError
from omnigraph.store.io.streams import open_input

# How many files of a kind are looked at.
SAMPLED_FILES: Final = 16
# How much of a packed file is unpacked to see how much it grows, and to how much at most.
SAMPLED_BYTES: Final = 64 << 10
_PLAIN_BYTES_MAX: Final = 64 << 20
_PIECE_BYTES: Final = 64 << 10
# A record batch of an Arrow file is read to see how many rows there are, unless it is larger.
BATCH_BYTES: Final = 16 << 20
# A row of a plain file of lines has about so many bytes.
LINE_BYTES: Final = 128
# The growth of a byte by decompression where it was not measured.
_PACKED_FACTOR: Final = 6
_COLUMNAR_FACTOR: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of an input.

    Attributes:
        bytes: As it is stored.
        plain: Unpacked.
        rows: How many, where the format has the number; None for files of lines.
    """

    bytes: int
    plain: int
    rows: int | None = None

    @property
    def as_lines(self) -> int:
        """The number of bytes that its rows would have as plain lines."""
        return self.plain if self.rows is None else self.rows * LINE_BYTES


_Kind = tuple[Format, Compression, TypeRef | None]


class Sizes:
    """The sizes of the inputs of one operation; a few files are opened to estimate them."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        """Look at some files of each kind."""
        kinds: dict[_Kind, list[FileInput]] = {}
        for item in inputs:
            if isinstance(item, FileInput) and item.size and _is_packed(item):
                kinds.setdefault(_kind(item), []).append(item)
        self._seen: dict[str, Size] = {}
        self._like: dict[_Kind, Size] = {}
        for kind, files in kinds.items():
            step = -(-len(files) // SAMPLED_FILES)
            found = {item.uri: size for item in files[::step] if (size := _look(item)) is not None}
            self._seen |= found
            if found:
                self._like[kind] = _total(list(found.values()))

    def plain(self, item: Input) -> int | None:
        """The bytes of an input once it is unpacked; None if they are unknown."""
        if isinstance(item, FileInput) and not _is_packed(item):
            return item.size
        size = self.of(item)
        return None if size is None else size.plain

    def of(self, item: Input) -> Size | None:
        """The size of an input; None if it is unknown."""
        if isinstance(item, TableInput):
            size = int(item.table.nbytes)
            return Size(bytes=size, plain=size, rows=item.table.num_rows)
        if isinstance(item, SmallFiles):
            return Size(bytes=item.bytes, plain=item.bytes)
        if not isinstance(item, FileInput | StreamInput) or item.size is None:
            return None
        if isinstance(item, StreamInput):
            return Size(bytes=item.size, plain=item.size)
        if not _is_packed(item):
            return Size(bytes=item.size, plain=item.size)
        if (seen := self._seen.get(item.uri)) is not None:
            return seen
        like = self._like.get(_kind(item))
        if like is None:
            packed = _PACKED_FACTOR if item.compression is not Compression.NONE else 1
            columnar = _COLUMNAR_FACTOR if item.format in (Format.PARQUET, Format.ARROW) else 1
            return Size(bytes=item.size, plain=item.size * packed * columnar)
        rows = None if like.rows is None else -(-item.size * like.rows // like.bytes)
        plain = -(-item.size * like.plain // like.bytes)
        return Size(bytes=item.size, plain=plain, rows=rows)


def _kind(item: FileInput) -> _Kind:
    return item.format, item.compression, item.type


def _is_packed(item: FileInput) -> bool:
    # There may be very many files, and a tuple would have the texts of these words compared.
    is_columnar = item.format is Format.PARQUET or item.format is Format.ARROW
    return is_columnar or item.compression is not Compression.NONE


def _total(sizes: Sequence[Size]) -> Size:
    rows = [size.rows for size in sizes if size.rows is not None]
    return Size(
        bytes=sum(size.bytes for size in sizes),
        plain=sum(size.plain for size in sizes),
        rows=sum(rows) if len(rows) == len(sizes) else None,
    )


def _look(item: FileInput) -> Size | None:
    """The size by the footer of a file; None if it cannot be read: decoding reports why."""
    size = item.size or 0
    try:
        with reading(item.name), open_input(item.uri, item.storage_options, size=size) as file:
            if item.compression is not Compression.NONE:
                return _unpacked(file, item.compression, size)
            if item.format is Format.PARQUET:
                footer = pq.read_metadata(file)
                groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
                plain = sum(group.total_byte_size for group in groups)
                return Size(bytes=size, plain=max(size, plain), rows=footer.num_rows)
            return _batches(file, size)
    except (pa.ArrowException, OSError, EOFError, GraphError):
        return None


def _unpacked(file: pa.NativeFile, compression: Compression, size: int) -> Size:
    """Unpack the beginning; the rest grows alike."""
    head = file.read(SAMPLED_BYTES)
    stream = pa.CompressedInputStream(pa.BufferReader(head), compression.value)
    plain = 0
    # Where the beginning is cut off, Arrow raises.
    with suppress(pa.ArrowException, OSError, EOFError):
        while plain < _PLAIN_BYTES_MAX and (piece := stream.read(_PIECE_BYTES)):
            plain += len(piece)
    return Size(bytes=size, plain=max(size, plain * size // max(1, len(head))))


def _batches(file: pa.NativeFile, size: int) -> Size | None:
    """An Arrow file lists its batches; all are taken to be like the first."""
    if file.read(len(ARROW_MAGIC)) != ARROW_MAGIC:
        return None  # the stream format lists nothing
    found = pa.ipc.open_file(file)
    if not found.num_record_batches:
        return Size(bytes=size, plain=size, rows=0)
    count = found.num_record_batches
    if size // count > BATCH_BYTES:
        return None  # reading one to count its rows would take too long
    first = found.get_batch(0)
    return Size(bytes=size, plain=max(size, first.nbytes * count), rows=first.num_rows * count)
