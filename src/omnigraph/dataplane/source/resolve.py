"""Finds the inputs that the source of a load stands for."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Any, Final, Self, TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.source.formats import (
    ARROW_MAGIC,
    format_of,
    named_format,
    packing_of,
    parse_format,
    sniffed,
)
from omnigraph.dataplane.source.model import (
    Compression,
    FileInput,
    Format,
    FrameInput,
    Input,
    ReaderInput,
    SmallFiles,
    SparkTable,
    StreamInput,
    TableInput,
    TypeRef,
)
from omnigraph.dataplane.source.naming import type_in_schema, type_named, type_of_file
from omnigraph.dataplane.source.paths import FoundFile, find_files, reading
from omnigraph.dataplane.source.records import entity_lines, envelope_lines
from omnigraph.dataplane.source.split import is_small
from omnigraph.dataplane.source.spool import Scratch, StreamSpool, spool_batches, spool_lines
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.model import Catalog
from omnigraph.store.failures import object_errors
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.io.streams import open_input, stream_size

STDIN: Final = "-"
_SPARK: Final = "spark:"
_LINES: Final = (Format.NDJSON, Compression.NONE)
_ARROW_STREAM: Final = "__arrow_c_stream__"


class Inputs:
    """The inputs of a load, and the temporary files that some of them are. Close it."""

    def __init__(self, inputs: Sequence[Input], scratch: Scratch | None = None) -> None:
        """Own these inputs."""
        self.inputs: Final = tuple(inputs)
        self._scratch = scratch

    def close(self) -> None:
        """Remove the temporary files; closing twice is fine."""
        if self._scratch is not None:
            self._scratch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def resolve(
    source: object,
    catalog: Catalog,
    *,
    format: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    stdin: Any = None,
    arriving_bytes: int | None = None,
    grouping: bool = False,
) -> Inputs:
    """Find the inputs that a source stands for.

    A source is a path, a folder, a pattern or an address, `-` for standard input, a binary file
    object, a sequence of those, a sequence of envelopes as dictionaries, or a mapping from the
    names of types to their rows: files, Arrow tables, batches and readers, data frames of pandas,
    polars and Spark, `spark:` and the name of a table in Spark's catalog, lists of dictionaries.

    Args:
        source: What the user gave.
        catalog: The types of the graph.
        format: The format of files whose name does not show it, or shows a wrong one.
        storage_options: How to reach object storage.
        stdin: What `-` stands for; the standard input of the process by default.
        arriving_bytes: Let tasks read a stream of lines or a reader of Arrow batches while it
            arrives, in pieces of so many bytes, if it is the only source; None to copy all first.
        grouping: Let small files of lines that follow each other in a folder be one input.

    Raises:
        InvalidInput: The kind of the source or the type of its rows is not clear.
        NotFound: A file is not there.
        Unavailable: Storage failed.
    """
    scratch = Scratch()
    options = dict(storage_options or {})
    told = None if format is None else parse_format(format)
    try:
        with storage_errors():
            found = _Resolver(catalog, told, options, stdin, scratch, arriving_bytes, grouping)
            return Inputs(list(found.all_of(source)), scratch)
    except BaseException:
        scratch.close()
        raise


@dataclass(frozen=True, slots=True)
class _Resolver:
    catalog: Catalog
    told: tuple[Format, Compression] | None
    options: Mapping[str, str]
    stdin: Any
    scratch: Scratch
    arriving_bytes: int | None
    grouping: bool

    def all_of(self, source: object) -> Iterator[Input]:
        if isinstance(source, Mapping):
            for key, value in source.items():
                named = type_named(key, self.catalog)
                # The first pieces of many readers together would be in memory.
                arriving = self.arriving_bytes if len(source) == 1 else None
                if isinstance(value, pa.RecordBatchReader) and arriving is not None:
                    yield self._batches(value, named, str(key), arriving)
                else:
                    yield from self._typed(value, named, str(key))
        elif _is_sequence(source):
            if _are_records(source):
                yield self._lines(list(envelope_lines(source, "rows")), "rows")
                return
            for each in source:
                yield from self._untyped(each)
        elif hasattr(source, "read"):
            yield self._stream(source, _stream_name(source), None, self.arriving_bytes)
        else:
            yield from self._untyped(source)

    def _untyped(self, source: object) -> Iterator[Input]:
        """The inputs of a source whose rows name their types."""
        if _is_pathlike(source):
            yield from self._files(os.fsdecode(source), None)
        elif hasattr(source, "read"):
            yield self._stream(source, _stream_name(source), None)
        elif isinstance(source, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
            named = type_in_schema(source.schema, self.catalog)
            if named is None:
                raise _type_missing(source)
            yield from self._typed(source, named, named.name)
        else:
            raise _type_missing(source)

    def _typed(self, value: object, named: TypeRef, name: str) -> Iterator[Input]:
        """The inputs of a source whose type the user names."""
        if _is_pathlike(value):
            text = os.fsdecode(value)
            if text.startswith(_SPARK):
                table = SparkTable(text.removeprefix(_SPARK))
                yield FrameInput(name=name, type=named, frame=table)
            else:
                yield from self._files(text, named)
        elif _is_sequence(value):
            yield from self._typed_sequence(value, named, name)
        elif _is_spark(value):
            yield FrameInput(name=name, type=named, frame=value)
        elif (found := _arrow(value)) is not None:
            if isinstance(found, pa.Table):
                yield TableInput(name=name, type=named, table=found)
            else:
                yield ReaderInput(name=name, type=named, reader=found)
        elif hasattr(value, "read"):
            yield self._stream(value, _stream_name(value), named)
        else:
            raise _strange(value, name)

    def _typed_sequence(self, values: Any, named: TypeRef, name: str) -> Iterator[Input]:
        if not values:
            yield TableInput(name=name, type=named, table=pa.table({}))
        elif _are_records(values):
            yield self._lines(entity_lines(values, named, name), name)
        else:
            for number, each in enumerate(values):
                yield from self._typed(each, named, f"{name}[{number}]")

    def _files(self, text: str, named: TypeRef | None) -> Iterator[Input]:
        if text == STDIN:
            stream = sys.stdin.buffer if self.stdin is None else self.stdin
            yield self._stream(stream, "standard input", named)
            return
        files = find_files(text, self.options)
        if not self.grouping:
            yield from (self._single(found, named) for found in files)
            return
        for kind, group in groupby(files, partial(self._small_kind, named)):
            some = tuple(group)
            if kind is None or len(some) == 1:
                yield from (self._single(found, named) for found in some)
                continue
            yield SmallFiles(
                like=self._file(some[0], named),
                uris=tuple([found.uri for found in some]),
                names=tuple([found.name for found in some]),
                sizes=tuple([found.size or 0 for found in some]),
                modified_ns=tuple([found.modified_ns for found in some]),
            )

    def _small_kind(self, named: TypeRef | None, found: FoundFile) -> tuple[object, ...] | None:
        """The things that small files share which are one input; None for any other file."""
        if found.size is None:
            return None
        kind, packing = self._format_of(found)
        if not is_small(kind, packing, found.size):
            return None
        return kind, self._type_of(found, kind, packing, named)

    def _single(self, found: FoundFile, named: TypeRef | None) -> Input:
        return self._pipe(found, named) if found.size is None else self._file(found, named)

    def _pipe(self, found: FoundFile, named: TypeRef | None) -> Input:
        with object_errors(StorageCall.OBJECT_GET.value, found.name):
            pipe = io.FileIO(found.uri)
        with pipe:
            return self._stream(pipe, found.name, named)

    def _file(self, found: FoundFile, named: TypeRef | None) -> FileInput:
        kind, packing = self._format_of(found)
        return FileInput(
            uri=found.uri,
            name=found.name,
            format=kind,
            compression=packing,
            size=found.size,
            modified_ns=found.modified_ns,
            type=self._type_of(found, kind, packing, named),
            storage_options=self.options,
        )

    def _format_of(self, found: FoundFile) -> tuple[Format, Compression]:
        if self.told is None:
            return format_of(found.name)
        kind, packing = self.told
        return kind, packing_of(found.name) if packing is Compression.NONE else packing

    def _type_of(
        self, found: FoundFile, kind: Format, packing: Compression, named: TypeRef | None
    ) -> TypeRef | None:
        if kind is Format.NDJSON:
            if named is not None:
                raise _type_needless(found.name)
            return None
        if named is not None:
            return named
        schema = self._schema(found, kind) if packing is Compression.NONE else None
        told = None if schema is None else type_in_schema(schema, self.catalog)
        return told or type_of_file(found.name, self.catalog)

    def _schema(self, found: FoundFile, kind: Format) -> pa.Schema | None:
        """The schema that a file carries; None if it cannot be read: decoding reports why."""
        if kind not in (Format.PARQUET, Format.ARROW):
            return None
        with reading(found.name), open_input(found.uri, self.options, size=found.size) as file:
            try:
                if kind is Format.PARQUET:
                    return pq.read_schema(file)
                opened = (
                    pa.ipc.open_file
                    if file.read(len(ARROW_MAGIC)) == ARROW_MAGIC
                    else pa.ipc.open_stream
                )
                file.seek(0)
                return opened(file).schema
            except (pa.ArrowException, OSError):
                return None

    def _stream(
        self, stream: Any, name: str, named: TypeRef | None, arriving_bytes: int | None = None
    ) -> FileInput | StreamInput:
        """Copy what can be read only once to a file, or to several while they are read."""
        path = self.scratch.new()
        spool = StreamSpool(stream, name)
        head_kind, head_packing = sniffed(spool.head)
        kinds = self.told, named_format(name), (head_kind, head_packing)
        if not all(each in (None, _LINES, (None, Compression.NONE)) for each in kinds):
            arriving_bytes = None  # it has to be there as a whole
        spool.copy(path, arriving_bytes)
        if not spool.is_ended:
            assert arriving_bytes is not None
            size: int | None = getattr(stream, "size", None)
            pieces = self._pieces(spool, name, path, arriving_bytes)
            return StreamInput(name=name, pieces=pieces, size=size)
        kind, packing = self.told or named_format(name) or (head_kind, head_packing)
        packing = head_packing if packing is Compression.NONE else packing
        if kind is None:
            if named is not None:
                raise InvalidInput(
                    Code.INPUT_INVALID, f"{name}: say format= with csv, parquet or arrow", file=name
                )
            kind = Format.NDJSON
        found = FoundFile(uri=path, name=name, size=stream_size(path))
        return FileInput(
            uri=path,
            name=name,
            format=kind,
            compression=packing,
            size=found.size,
            type=self._type_of(found, kind, packing, named),
            is_spooled=True,
        )

    def _pieces(
        self, spool: StreamSpool, name: str, first: str, bytes_min: int
    ) -> Iterator[FileInput]:
        """The files of a stream, each made when it is asked for."""
        path = first
        while size := stream_size(path):
            yield FileInput(uri=path, name=name, format=Format.NDJSON, size=size, is_spooled=True)
            path = self.scratch.new()
            spool.copy(path, bytes_min)

    def _batches(
        self, reader: pa.RecordBatchReader, named: TypeRef, name: str, bytes_min: int
    ) -> TableInput | StreamInput:
        """Rows that are read while they arrive; what fits in one piece is not written at all."""
        groups = _grouped(reader, name, bytes_min)
        first = next(groups, [])
        second = next(groups, None)
        if second is None:
            table = pa.Table.from_batches(first, reader.schema)
            return TableInput(name=name, type=named, table=table)
        pieces = (
            self._batch_file(group, reader.schema, named, name)
            for group in chain((first, second), groups)
        )
        return StreamInput(name=name, pieces=pieces, type=named)

    def _batch_file(
        self, batches: list[pa.RecordBatch], schema: pa.Schema, named: TypeRef, name: str
    ) -> FileInput:
        path = self.scratch.new()
        size = spool_batches(batches, schema, path)
        return FileInput(
            uri=path, name=name, format=Format.ARROW, size=size, type=named, is_spooled=True
        )

    def _lines(self, lines: Iterator[bytes] | Sequence[bytes], name: str) -> FileInput:
        path = self.scratch.new()
        size = spool_lines(lines, path)
        return FileInput(uri=path, name=name, format=Format.NDJSON, size=size, is_spooled=True)


def _grouped(
    reader: pa.RecordBatchReader, name: str, bytes_min: int
) -> Iterator[list[pa.RecordBatch]]:
    """The batches of a reader, in groups of at least so many bytes."""
    group: list[pa.RecordBatch] = []
    size = 0
    while True:
        with reading(name):
            batch = next(reader, None)
        if batch is None:
            break
        group.append(batch)
        size += batch.nbytes
        if size >= bytes_min:
            yield group
            group, size = [], 0
    if group:
        yield group


# -- what a value is -------------------------------------------------------------------------------


def _is_pathlike(value: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(value, str | os.PathLike)


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def _are_records(values: Any) -> bool:
    return bool(values) and all(isinstance(each, Mapping) for each in values)


def _stream_name(stream: object) -> str:
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) else "stream"


def _is_spark(value: object) -> bool:
    kind = type(value)
    return kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame"


def _arrow(value: Any) -> pa.Table | pa.RecordBatchReader | None:
    """Rows as Arrow has them: a table if they are in memory, a reader if they are yet to come."""
    if isinstance(value, pa.Table | pa.RecordBatchReader):
        return value
    if isinstance(value, pa.RecordBatch):
        return pa.Table.from_batches([value])
    if type(value).__module__.startswith("pandas."):
        return _from_pandas(value)
    if not hasattr(value, _ARROW_STREAM):
        return None
    reader = pa.RecordBatchReader.from_stream(value)
    return reader.read_all() if hasattr(value, "__len__") else reader


def _from_pandas(frame: Any) -> pa.Table:
    """A data frame of pandas; an index that has a name is a column like the others."""
    # Not through its own stream: that would take any index for a column.
    is_named = any(name is not None for name in frame.index.names)
    try:
        return pa.Table.from_pandas(frame, preserve_index=is_named)
    except (pa.ArrowException, TypeError, ValueError) as error:
        text = f"the data frame has no form in Arrow: {error}"
        raise InvalidInput(Code.INPUT_INVALID, text) from error


# -- what is wrong ---------------------------------------------------------------------------------


def _type_missing(source: object) -> InvalidInput:
    return InvalidInput(
        Code.INPUT_INVALID,
        f"a {type(source).__qualname__} does not say whose rows it has; give a mapping such as"
        ' {"Person": rows}',
    )


def _type_needless(name: str) -> InvalidInput:
    return InvalidInput(
        Code.INPUT_INVALID,
        f"{name}: lines of NDJSON say their types themselves; load it without a mapping",
        file=name,
    )


def _strange(value: object, name: str) -> InvalidInput:
    return InvalidInput(
        Code.INPUT_INVALID,
        f"{name}: rows cannot be read from a {type(value).__qualname__}; give files, Arrow tables,"
        " data frames or lists of dictionaries",
        type=name,
    )
