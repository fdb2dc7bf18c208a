"""Inputs and splits: what is to be read, and the piece of it that one task reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from omnigraph.lang.catalog.model import EntityKind


class Format(StrEnum):
    """The format of rows."""

    NDJSON = "ndjson"
    CSV = "csv"
    TSV = "tsv"  # CSV with tabs
    PARQUET = "parquet"
    ARROW = "arrow"  # IPC, file or stream


class Compression(StrEnum):
    """The compression of a file. A compressed file is read by one task from its beginning."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRef:
    """A node type or an edge type by name."""

    kind: EntityKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInput:
    """One file, or object, to be loaded.

    Attributes:
        uri: A local path, or an address such as `s3://bucket/key`.
        name: How messages call it: as the user wrote it, as far as possible.
        size: Bytes; None for a stream that cannot tell.
        type: Whose rows it holds; None for NDJSON, whose lines tell.
        storage_options: How to reach it.
        modified_ns: When it was last changed, as far as its file system tells. It must not change
            while it is read.
        is_spooled: It is a temporary copy of something that can be read only once, on the disk of
            this machine.
    """

    uri: str
    name: str
    format: Format
    compression: Compression = Compression.NONE
    size: int | None = None
    type: TypeRef | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    modified_ns: int | None = None
    is_spooled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInput:
    """Rows of one type that are in memory already."""

    name: str
    type: TypeRef
    table: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderInput:
    """Rows of one type that come as a stream of Arrow batches; it can be read once."""

    name: str
    type: TypeRef
    reader: pa.RecordBatchReader


@dataclass(frozen=True, slots=True)
class SparkTable:
    """A table of Spark's catalog by name, to be opened by the session that loads it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameInput:
    """Rows of one type that only Spark can read.

    `frame` is a DataFrame, or the `SparkTable` that a DataFrame is to be made of.
    """

    name: str
    type: TypeRef
    frame: object


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInput:
    """Lines of NDJSON or batches of Arrow that are read while they arrive; they can be read once.

    Attributes:
        name: How messages call it.
        pieces: Files with whole rows, each made when it is asked for. Who has read one removes it.
        size: Bytes, if it is known how many will come.
        type: The type of all rows; None where lines tell.
    """

    name: str
    pieces: Iterator[FileInput]
    size: int | None = None
    type: TypeRef | None = None


Input = FileInput | TableInput | ReaderInput | FrameInput | StreamInput


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSplit:
    """A piece of a file. Picklable.

    Of a file of lines: the lines that begin at a byte from `start` up to, and without, `stop`. Of
    Parquet: the row groups `groups`; of an Arrow IPC file: its record batches `groups`. None in
    `stop` and `groups` stand for the whole file.

    Attributes:
        number: Splits are numbered in the order of the input, from 0.
        first_row: The 1-based number, in its file, of its first row; None where only reading the
            splits before it can tell (lines), and the driver adds it up afterwards.
        bytes: About how many bytes its rows have once they are unpacked.
    """

    number: int
    input: FileInput
    start: int = 0
    stop: int | None = None
    groups: tuple[int, ...] | None = None
    first_row: int | None = None
    bytes: int = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return self.input.name

    @property
    def is_whole(self) -> bool:
        """True if it is all of its file."""
        return self.start == 0 and self.stop is None and self.groups is None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSplit:
    """A piece of a table that is in memory; for tasks of this process only."""

    number: int
    name: str
    type: TypeRef
    table: pa.Table
    first_row: int | None = 1

    @property
    def bytes(self) -> int:
        """The number of bytes of its rows."""
        return int(self.table.nbytes)


Split = FileSplit | TableSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPack:
    """Splits that follow each other and are read by one task. Picklable.

    Attributes:
        number: Packs are numbered in the order of the input, from 0.
        parts: The splits.
    """

    number: int
    parts: tuple[Split, ...]

    def __reduce__(self) -> tuple[Callable[..., SplitPack], tuple[object, ...]]:
        # What many small files share is sent once.
        found = [part for part in self.parts if isinstance(part, FileSplit) and part.is_whole]
        if len(found) < len(self.parts) or len({_shared(part.input) for part in found}) != 1:
            return _pack, (self.number, self.parts)
        files = [part.input for part in found]
        told = (
            [part.number for part in found],
            [part.bytes for part in found],
            [item.uri for item in files],
            [item.name for item in files],
            [item.size for item in files],
            [item.modified_ns for item in files],
        )
        return _pack_of_files, (self.number, files[0], *told)


def _shared(item: FileInput) -> tuple[object, ...]:
    options = tuple(sorted(item.storage_options.items()))
    return item.format, item.compression, item.type, item.is_spooled, options


def _pack(number: int, parts: tuple[Split, ...]) -> SplitPack:
    return SplitPack(number=number, parts=parts)


def _pack_of_files(number: int, first: FileInput, *told: Sequence[Any]) -> SplitPack:
    parts = tuple(
        FileSplit(
            number=split,
            input=FileInput(
                uri=uri,
                name=name,
                format=first.format,
                compression=first.compression,
                size=size,
                type=first.type,
                storage_options=first.storage_options,
                modified_ns=modified_ns,
                is_spooled=first.is_spooled,
            ),
            first_row=1,
            bytes=bytes_,
        )
        for split, bytes_, uri, name, size, modified_ns in zip(*told, strict=True)
    )
    return SplitPack(number=number, parts=parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackPiece:
    """The place of the lines of one split among the lines of its pack.

    Attributes:
        name: The file, or whatever else it is a piece of, as messages call it.
        first_row: The number that its first line has in its file; None: those before it tell.
        lines: How many lines, or rows, it has.
        start: What is added to the number of a line of the split, from 1, to get its number in
            the pack. The number `start` itself stands for the file as such, and the one after the
            last line for its end, so that no two splits of a pack share a number.
    """

    name: str
    first_row: int | None
    lines: int
    start: int = 0

    @property
    def stop(self) -> int:
        """The start of the split that follows it."""
        return self.start + self.lines + 2
