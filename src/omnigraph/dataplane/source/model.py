"""Inputs and splits: what is to be read, and the piece of it that one task reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.lang.catalog.model import EntityKind

Places: TypeAlias = npt.NDArray[np.int64]


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
        size: Bytes; None for a stream of unknown size.
        type: Whose rows it holds; None for NDJSON, whose lines name it.
        storage_options: How to reach it.
        modified_ns: When it was last changed, as far as its file system shows. It must not change
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
class SmallFiles:
    """Whole small files of lines, read together: columns of what differs. Picklable.

    There may be very many of them, and an object for each would take longer than reading it.

    Attributes:
        like: The first of them. The others have its format, its type and its storage.
        uris: Their addresses.
        names: How messages call them.
        sizes: Their bytes.
        modified_ns: When each was last changed, as far as its file system shows.
    """

    like: FileInput
    uris: tuple[str, ...]
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    modified_ns: tuple[int | None, ...]

    @property
    def name(self) -> str:
        """The name of the first."""
        return self.names[0]

    @property
    def type(self) -> TypeRef | None:
        """The type of their rows; None for NDJSON, whose lines tell."""
        return self.like.type

    @property
    def bytes(self) -> int:
        """The bytes of all of them."""
        return sum(self.sizes)

    def slice(self, start: int, stop: int) -> SmallFiles:
        """Some of them that follow each other."""
        return replace(
            self,
            like=self.file(start),
            uris=self.uris[start:stop],
            names=self.names[start:stop],
            sizes=self.sizes[start:stop],
            modified_ns=self.modified_ns[start:stop],
        )

    def file(self, at: int) -> FileInput:
        """One of them."""
        return replace(
            self.like,
            uri=self.uris[at],
            name=self.names[at],
            size=self.sizes[at],
            modified_ns=self.modified_ns[at],
        )


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
        pieces: Files with whole rows, each made when it is needed. Its reader removes it.
        size: Bytes, if it is known how many will come.
        type: The type of all rows; None where the lines name it.
    """

    name: str
    pieces: Iterator[FileInput]
    size: int | None = None
    type: TypeRef | None = None


Input = FileInput | SmallFiles | TableInput | ReaderInput | FrameInput | StreamInput


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
        parts: The splits; small files that follow each other are one part.
    """

    number: int
    parts: tuple[Split | SmallFiles, ...]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallPieces:
    """The places of the lines of small files among the lines of their pack.

    Attributes:
        names: The files, as messages call them.
        lines: How many lines each has.
        start: What is added to the number of a line of the first, as of a `PackPiece`.
    """

    names: tuple[str, ...]
    lines: Places
    start: int

    @property
    def starts(self) -> Places:
        """The start of each file."""
        ends = np.cumsum(self.lines + 2)
        return self.start + ends - (self.lines + 2)

    @property
    def stop(self) -> int:
        """The start of the split that follows them."""
        return self.start + int((self.lines + 2).sum())


Pieces = PackPiece | SmallPieces
