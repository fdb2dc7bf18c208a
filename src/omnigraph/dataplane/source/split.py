"""Divides inputs into splits, which tasks read in parallel.

Files of lines are divided at any byte, because a task finds the next line by itself. Parquet is
divided by row groups and an Arrow IPC file by record batches. What is packed has to be read from
its beginning, so it is one split; so is CSV, where a newline may be part of a quoted value and only
reading from the beginning tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.dataplane import tuning
from omnigraph.dataplane.source.formats import ARROW_MAGIC
from omnigraph.dataplane.source.model import (
    Compression,
    FileInput,
    FileSplit,
    Format,
    FrameInput,
    Input,
    ReaderInput,
    SmallFiles,
    Split,
    SplitPack,
    StreamInput,
    TableInput,
    TableSplit,
)
from omnigraph.dataplane.source.paths import is_remote, reading
from omnigraph.dataplane.source.sizing import Sizes
from omnigraph.dataplane.source.spool import PIECE_BYTES, spool_batches
from omnigraph.errors import Code, InvalidInput
from omnigraph.store.io.streams import open_input, open_output

# What opening a file costs, in bytes that could be read in the same time.
OPEN_BYTES: Final = 4 << 10
_SLACK_SHARE: Final = 16
_UNPACKED_FACTOR_MAX: Final = 16
_TEXTS: Final = frozenset({Format.NDJSON, Format.CSV, Format.TSV})
_ROW_BYTES: Final = 64  # what a row takes at least once it is unpacked and has an id


def split(
    inputs: Sequence[Input],
    *,
    bytes_per_split: int,
    spool_to: str,
    storage_options: Mapping[str, str] | None = None,
    is_remote: bool = False,
    sizes: Sizes | None = None,
) -> tuple[Split | SmallFiles, ...]:
    """Divide inputs into splits, numbered in the order of the inputs.

    Small files that are one input stay together if none needs to be divided; `pack` divides them.

    Args:
        inputs: What is to be read.
        bytes_per_split: About how much one task reads.
        spool_to: The address of a folder, which need not exist, for copies of what tasks could
            not read otherwise: of Arrow readers always. The caller removes it.
        storage_options: How to reach the folder.
        is_remote: Tasks run in other processes, perhaps on other machines: copy what is in memory
            and what is in temporary files of this machine, too.
        sizes: How much the inputs hold, if that was looked at already.

    Raises:
        InvalidInput: Only Spark can read an input.
        NotFound: A file is not there any more.
        Unavailable: Storage failed.
    """
    spool = _Spool(spool_to, storage_options or {})
    sizes = Sizes(inputs) if sizes is None else sizes
    found: list[Split | SmallFiles] = []
    for item in _apart(inputs, bytes_per_split):
        if isinstance(item, SmallFiles):
            found.append(item)
            continue
        readable = _readable(item, spool, is_remote)
        first = len(found)
        if isinstance(readable, TableInput):
            found += _table_splits(readable, bytes_per_split, first)
        else:
            plain = sizes.plain(readable)
            found += _file_splits(readable, plain or readable.size or 0, bytes_per_split, first)
    return tuple(found)


def _apart(inputs: Sequence[Input], bytes_per_split: int) -> Iterator[Input]:
    """The inputs; small files one by one where some are too large for one split."""
    for item in inputs:
        if isinstance(item, SmallFiles) and max(item.sizes) > bytes_per_split:
            yield from map(item.file, range(len(item.uris)))
        else:
            yield item


def pack(splits: Sequence[Split | SmallFiles], *, bytes_per_task: int) -> tuple[SplitPack, ...]:
    """Put neighbouring splits together until they are worth a task; the order stays.

    A split that is large enough by itself is alone in its pack.
    """
    packs: list[list[Split | SmallFiles]] = []
    room = 0
    # A small one that does not quite fit is taken, too: otherwise every pack would be a bit too
    # small, and the rest of them all would be one more.
    slack = bytes_per_task // _SLACK_SHARE
    for part in splits:
        start = 0
        for at, size in enumerate(_sizes(part), 1):
            need = size + OPEN_BYTES
            if room <= 0 or need > room + slack:
                if at - 1 > start:
                    packs[-1].append(_some(part, start, at - 1))
                    start = at - 1
                packs.append([])
                room = bytes_per_task
            room -= need
        packs[-1].append(_some(part, start, None))
    return tuple(SplitPack(number=n, parts=tuple(_parts(each))) for n, each in enumerate(packs))


def _sizes(part: Split | SmallFiles) -> Sequence[int]:
    return part.sizes if isinstance(part, SmallFiles) else (part.bytes,)


def _some(part: Split | SmallFiles, start: int, stop: int | None) -> Split | SmallFiles:
    """Some files of small ones; whole, what is not divided here."""
    if not isinstance(part, SmallFiles) or (start == 0 and stop is None):
        return part
    return part.slice(start, len(part.uris) if stop is None else stop)


def _parts(splits: Sequence[Split | SmallFiles]) -> Iterator[Split | SmallFiles]:
    """The splits, small files of one kind that follow each other as one."""
    for kind, group in groupby(splits, _small_kind):
        if kind is None:
            yield from group
            continue
        files = [part.input for part in group if isinstance(part, FileSplit)]
        yield SmallFiles(
            like=files[0],
            uris=tuple([item.uri for item in files]),
            names=tuple([item.name for item in files]),
            sizes=tuple([item.size or 0 for item in files]),
            modified_ns=tuple([item.modified_ns for item in files]),
        )


def _small_kind(part: Split | SmallFiles) -> tuple[object, ...] | None:
    """The things that small files share which are read together; None for any other split."""
    if not isinstance(part, FileSplit) or not part.is_whole:
        return None
    item = part.input
    if item.size is None or not is_small(item.format, item.compression, item.size):
        return None
    return item.format, item.type, item.is_spooled, is_remote(item.uri), item.storage_options


def is_small(format: Format, compression: Compression, size: int) -> bool:
    """True for a plain file of lines that is read together with others."""
    return (
        size <= tuning.active.small_file_bytes_max
        and compression is Compression.NONE
        and format in _TEXTS
    )


# -- making inputs readable ------------------------------------------------------------------------


class _Spool:
    def __init__(self, folder: str, options: Mapping[str, str]) -> None:
        self._folder = folder.rstrip("/")
        self.options = options
        self._count = 0

    def new(self) -> str:
        self._count += 1
        return f"{self._folder}/input-{self._count:06d}"


def _readable(
    item: FileInput | TableInput | ReaderInput | FrameInput | StreamInput,
    spool: _Spool,
    is_remote: bool,
) -> FileInput | TableInput:
    if isinstance(item, FrameInput):
        raise InvalidInput(
            Code.ENGINE_UNAVAILABLE,
            f"{item.name}: a Spark DataFrame can be loaded by Spark only; use engine='spark'",
            type=item.name,
        )
    assert not isinstance(item, StreamInput), "it is read while it arrives"
    if isinstance(item, ReaderInput):
        return _as_file(item, item.reader, item.reader.schema, spool)
    if is_remote and isinstance(item, TableInput):
        return _as_file(item, item.table.to_batches(), item.table.schema, spool)
    if is_remote and isinstance(item, FileInput) and item.is_spooled:
        return _copied(item, spool)
    return item


def _as_file(
    item: ReaderInput | TableInput,
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    spool: _Spool,
) -> FileInput:
    uri = spool.new()
    with reading(item.name):
        size = spool_batches(batches, schema, uri, spool.options)
    return FileInput(
        uri=uri,
        name=item.name,
        format=Format.ARROW,
        size=size,
        type=item.type,
        storage_options=spool.options,
    )


def _copied(item: FileInput, spool: _Spool) -> FileInput:
    uri = spool.new()
    with (
        reading(item.name),
        open_input(item.uri) as source,
        open_output(uri, spool.options, durable=False) as output,
    ):
        while piece := source.read(PIECE_BYTES):
            output.write(piece)
    return replace(item, uri=uri, storage_options=spool.options, is_spooled=False)


# -- dividing --------------------------------------------------------------------------------------


def _table_splits(item: TableInput, wanted: int, first: int) -> Iterator[TableSplit]:
    rows = item.table.num_rows
    count = max(1, min(rows, -(-item.table.nbytes // wanted)))
    for number, (start, stop) in enumerate(_ranges(rows, count), first):
        yield TableSplit(
            number=number,
            name=item.name,
            type=item.type,
            table=item.table.slice(start, stop - start),
            first_row=start + 1,
        )


def _file_splits(item: FileInput, plain: int, wanted: int, first: int) -> list[FileSplit]:
    size = item.size or 0
    whole = FileSplit(number=first, input=item, first_row=1, bytes=plain)
    # What is small may be large once it is unpacked, which only its footer shows.
    unpacked = max(plain, size * _UNPACKED_FACTOR_MAX) if item.format is Format.PARQUET else size
    if unpacked <= wanted or item.compression is not Compression.NONE:
        return [whole]
    divide = _DIVIDE.get(item.format)
    parts = [] if divide is None else divide(item, wanted)
    return [replace(part, number=n) for n, part in enumerate(parts, first)] or [whole]


def _line_splits(item: FileInput, wanted: int) -> list[FileSplit]:
    size = item.size or 0
    return [
        FileSplit(
            number=0,
            input=item,
            start=start,
            stop=stop,
            first_row=1 if start == 0 else None,
            bytes=stop - start,
        )
        for start, stop in _ranges(size, -(-size // wanted))
    ]


def _parquet_splits(item: FileInput, wanted: int) -> list[FileSplit]:
    """Neighbouring row groups together. None if the file cannot be read: decoding reports why."""
    with reading(item.name), open_input(item.uri, item.storage_options, size=item.size) as file:
        try:
            footer = pq.read_metadata(file)
        except (pa.ArrowException, OSError):
            return []
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    starts = [0, *accumulate(group.num_rows for group in groups)]
    sizes = [max(g.total_byte_size, g.num_rows * _ROW_BYTES) for g in groups]
    ends = list(accumulate(sizes))
    count = -(-ends[-1] // wanted) if groups else 0
    found: list[list[int]] = [[] for _ in range(count)]
    for number, end in enumerate(ends):
        found[(end - 1) * count // ends[-1]].append(number)
    return [
        FileSplit(
            number=0,
            input=item,
            groups=tuple(each),
            first_row=starts[each[0]] + 1,
            bytes=sum(sizes[number] for number in each),
        )
        for each in found
        if each
    ]


def _arrow_splits(item: FileInput, wanted: int) -> list[FileSplit]:
    """About as many batches in each. How many rows they have is known once they are read."""
    with reading(item.name), open_input(item.uri, item.storage_options, size=item.size) as file:
        if file.read(len(ARROW_MAGIC)) != ARROW_MAGIC:
            return []  # the stream format has no list of its batches
        try:
            batches = pa.ipc.open_file(file).num_record_batches
        except (pa.ArrowException, OSError):
            return []
    count = min(batches, -(-(item.size or 0) // wanted))
    return [
        FileSplit(
            number=0,
            input=item,
            groups=tuple(range(start, stop)),
            first_row=1 if start == 0 else None,
            bytes=(item.size or 0) // count,
        )
        for start, stop in _ranges(batches, count)
    ]


def _ranges(size: int, count: int) -> Iterator[tuple[int, int]]:
    for number in range(count):
        yield size * number // count, size * (number + 1) // count


_DIVIDE: Final[Mapping[Format, Callable[[FileInput, int], list[FileSplit]]]] = {
    Format.NDJSON: _line_splits,
    Format.PARQUET: _parquet_splits,
    Format.ARROW: _arrow_splits,
}
