"""Decodes a split of any format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.dataplane.decode.chunks import (
    Damage,
    is_damage,
    range_chunks,
    unpacked_chunks,
)
from omnigraph.dataplane.decode.csv import decode_csv
from omnigraph.dataplane.decode.model import Decoded, DecodeSpec, DecodeStats
from omnigraph.dataplane.decode.ndjson import decode_ndjson
from omnigraph.dataplane.decode.tabular import decode_batches
from omnigraph.dataplane.source.formats import ARROW_MAGIC
from omnigraph.dataplane.source.model import (
    Compression,
    FileInput,
    FileSplit,
    Format,
    Split,
    TableSplit,
    TypeRef,
)
from omnigraph.dataplane.source.paths import check_unchanged, reading
from omnigraph.dataplane.source.spool import PIECE_BYTES, pieces
from omnigraph.lang.catalog.model import Catalog, EntityType
from omnigraph.rules.violation import Rule, Violation, Violations
from omnigraph.store.io.streams import open_input

T = TypeVar("T")

_DELIMITERS: Final = {Format.CSV: ",", Format.TSV: "\t"}
_IPC_MAGIC: Final = ARROW_MAGIC + b"\0\0"
_BATCH_ROWS_MIN: Final = 1 << 10
_BATCH_ROWS_MAX: Final = 1 << 17


def decode(
    split: Split, spec: DecodeSpec, out: Violations, stats: DecodeStats
) -> Iterator[Decoded]:
    """Decode a split.

    What is wrong with the data goes to `out`, a file that is damaged or cut off included: that is
    one violation, at the line that was reached.

    Raises:
        NotFound: The file is not there any more.
        Unavailable: Storage failed.
    """
    if isinstance(split, TableSplit):
        yield from _decode_table(split, spec, out, stats)
        return
    damage = Damage()
    item = split.input
    with (
        reading(item.name),
        open_input(item.uri, item.storage_options, size=item.size) as file,
    ):
        if item.format is Format.NDJSON or item.format in _DELIMITERS:
            chunks = _chunks(split, file, spec, stats, damage)
            is_start = split.start == 0
            yield from decode_text(chunks, item, spec, out, stats, is_start=is_start)
        else:
            read = _parquet if item.format is Format.PARQUET else _arrow
            yield from decode_batches(
                _undamaged(lambda: read(split, file, stats), damage),
                _entity(item.type, spec.catalog),
                spec,
                out,
                stats,
                file=item.name,
                is_start=split.first_row == 1,
            )
        check_unchanged(item)
    if damage.text is not None:
        out.add(_violation(item, stats.lines + 1, damage.text))


def decode_text(
    chunks: Iterator[bytes],
    item: FileInput,
    spec: DecodeSpec,
    out: Violations,
    stats: DecodeStats,
    *,
    is_start: bool = True,
) -> Iterator[Decoded]:
    """Decode the bytes of a file of lines; `is_start` if they are the beginning of it."""
    if item.format is Format.NDJSON:
        yield from decode_ndjson(chunks, spec, out, stats, file=item.name, is_start=is_start)
        return
    yield from decode_csv(
        chunks,
        _entity(item.type, spec.catalog),
        spec,
        out,
        stats,
        file=item.name,
        delimiter=_DELIMITERS[item.format],
    )


def _decode_table(
    split: TableSplit, spec: DecodeSpec, out: Violations, stats: DecodeStats
) -> Iterator[Decoded]:
    def batches() -> Iterator[pa.RecordBatch]:
        yield _no_rows(split.table.schema)
        for batch in split.table.to_batches():
            for piece in pieces(batch):
                stats.bytes += piece.nbytes
                yield piece

    entity = _entity(split.type, spec.catalog)
    is_start = split.first_row == 1
    yield from decode_batches(
        batches(), entity, spec, out, stats, file=split.name, is_start=is_start
    )


def _entity(named: TypeRef | None, catalog: Catalog) -> EntityType:
    assert named is not None, "only lines of NDJSON say their types themselves"
    known = catalog.node_by_name if named.kind == "node" else catalog.edge_by_name
    return known[named.name]


def _chunks(
    split: FileSplit, file: pa.NativeFile, spec: DecodeSpec, stats: DecodeStats, damage: Damage
) -> Iterator[bytes]:
    item = split.input
    if item.compression is Compression.NONE:
        return range_chunks(file, item.name, split.start, split.stop, stats)
    return unpacked_chunks(file, item.compression, spec.line_bytes_max, stats, damage)


# -- columns ---------------------------------------------------------------------------------------


def _undamaged(read: Callable[[], Iterator[T]], damage: Damage) -> Iterator[T]:
    """The part that can be read, up to the damage of the file."""
    try:
        yield from read()
    except (pa.ArrowException, OSError) as error:
        if not is_damage(error):
            raise
        damage.text = str(error)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """An empty batch with these columns, so that wrong columns are found without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0)] * len(schema), names=schema.names)


def _parquet(split: FileSplit, file: pa.NativeFile, stats: DecodeStats) -> Iterator[pa.RecordBatch]:
    source = pq.ParquetFile(file)
    footer = source.metadata
    groups = range(footer.num_row_groups) if split.groups is None else split.groups
    yield _no_rows(source.schema_arrow)
    for number in groups:
        group = footer.row_group(number)
        per_row = max(1, group.total_byte_size // max(1, group.num_rows))
        rows = min(_BATCH_ROWS_MAX, max(_BATCH_ROWS_MIN, PIECE_BYTES // per_row))
        yield from source.iter_batches(rows, row_groups=[number])
        columns = (group.column(place) for place in range(group.num_columns))
        stats.bytes += sum(column.total_compressed_size for column in columns)


def _arrow(split: FileSplit, file: pa.NativeFile, stats: DecodeStats) -> Iterator[pa.RecordBatch]:
    item = split.input
    if item.compression is not Compression.NONE:
        yield from _arrow_stream(_unpacked(item, file), file, stats)
        return
    is_file = file.read(len(_IPC_MAGIC)) == _IPC_MAGIC
    file.seek(0)
    if not is_file:
        yield from _arrow_stream(file, file, stats)
        return
    source = pa.ipc.open_file(file)
    total = source.num_record_batches
    groups = range(total) if split.groups is None else split.groups
    yield _no_rows(source.schema)
    size = item.size or 0
    for number in groups:
        yield from _checked(source.get_batch(number))
        # The share of a batch, so that all of them together are the file.
        stats.bytes += size * (number + 1) // total - size * number // total


def _arrow_stream(
    stream: pa.NativeFile, file: pa.NativeFile, stats: DecodeStats
) -> Iterator[pa.RecordBatch]:
    source = pa.ipc.open_stream(stream)
    yield _no_rows(source.schema)
    seen = 0
    for batch in source:
        yield from _checked(batch)
        stats.bytes += file.tell() - seen
        seen = file.tell()
    stats.bytes += file.tell() - seen


def _unpacked(item: FileInput, file: pa.NativeFile) -> pa.NativeFile:
    """A packed file as a stream of Arrow's messages; a file of them has a magic word in front."""
    packing = item.compression.value
    # Another handle: the end of an unpacking stream is the end of the file under it.
    with open_input(item.uri, item.storage_options, size=item.size) as other:
        is_file = pa.CompressedInputStream(other, packing).read(len(_IPC_MAGIC)) == _IPC_MAGIC
    stream = pa.CompressedInputStream(file, packing)
    if is_file:
        stream.read(len(_IPC_MAGIC))
    return stream


def _checked(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch that was read unchecked, after a check of its offsets."""
    batch.validate(full=True)
    return pieces(batch)


def _violation(item: FileInput, line: int, text: str) -> Violation:
    return Violation(
        rule=Rule.SYNTAX,
        kind=None if item.type is None else item.type.kind,
        type_name=None if item.type is None else item.type.name,
        id=None,
        properties=(),
        value=None,
        message=f"the file is damaged, cut off or no {item.format.value}: {text}",
        file=item.name,
        line=line,
    )
