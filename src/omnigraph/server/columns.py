"""Bodies of Arrow and Parquet: read by batches, and bounded as these are spelled out.

Values may be written once and meant a million times: by dictionaries, by runs, or by the pages of
Parquet, which are packed besides. So what counts is what the columns are without all that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.dataplane.decode.tabular_columns import plain
from omnigraph.dataplane.source.spool import PIECE_BYTES, pieces, spelled_out_bytes
from omnigraph.server.streams import Growth, body_limit

# What an Arrow stream may ask for at once: a forged length must not reserve memory.
_ARROW_READ_BYTES_MAX: Final = 256 << 20
_PARQUET_ROWS_MAX: Final = 8_192
_PEEKED_ROWS: Final = 256
_PARQUET_BUFFER_BYTES: Final = 1 << 16
_TEXT: Final = "BYTE_ARRAY"


def arrow_reader(file: Any, growth: Growth) -> pa.RecordBatchReader:
    """The rows of a body that is an Arrow stream."""
    stream = pa.ipc.open_stream(pa.PythonFile(_Filled(file), mode="r"))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in stream:
            # Its offsets may be forged.
            batch.validate(full=True)
            yield batch

    return _bounded(stream.schema, batches(), growth)


def parquet_reader(file: Any, growth: Growth) -> pa.RecordBatchReader:
    """The rows of a body that is a Parquet file."""
    source = pq.ParquetFile(file, buffer_size=_PARQUET_BUFFER_BYTES)
    footer = source.metadata
    texts = [
        column.path
        for column in map(footer.schema.column, range(len(footer.schema)))
        if column.physical_type == _TEXT
    ]
    coded = pq.ParquetFile(file, read_dictionary=texts, buffer_size=_PARQUET_BUFFER_BYTES)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            # Its pages without their packing, if the footer says the truth.
            growth.check(group.total_byte_size)
            per_row = max(1, group.total_byte_size // max(1, group.num_rows))
            per_row += sum(_longest_coded(coded, number, path) for path in texts)
            rows = min(_PARQUET_ROWS_MAX, max(1, PIECE_BYTES // per_row))
            yield from source.iter_batches(rows, row_groups=[number])

    return _bounded(source.schema_arrow, batches(), growth)


def _longest_coded(coded: pq.ParquetFile, number: int, path: str) -> int:
    """The bytes of the longest value in the dictionary of a column, which any row could mean."""
    for batch in coded.iter_batches(_PEEKED_ROWS, row_groups=[number], columns=[path]):
        values = batch.column(0)
        while not pa.types.is_dictionary(values.type):
            values = values.flatten()
            values = values[0] if isinstance(values, list) else values
        # Lists that are all empty do not show it.
        if len(values.dictionary):
            return pc.max(pc.binary_length(values.dictionary)).as_py() or 0
    return 0


def _bounded(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], growth: Growth
) -> pa.RecordBatchReader:
    """Batches in pieces that are spelled out, as long as they are not too large."""
    types = [_plain_type(field.type) for field in schema]
    spelled = pa.schema(
        [field.with_type(kind) for field, kind in zip(schema, types, strict=True)],
        metadata=schema.metadata,
    )

    def counted() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            growth.add(spelled_out_bytes(batch))
            for piece in pieces(batch):
                columns = map(_spelled_out, piece.columns, types)
                yield pa.RecordBatch.from_arrays(list(columns), schema=spelled)

    return pa.RecordBatchReader.from_batches(spelled, counted())


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """A type without dictionaries and runs."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    return kind


def _spelled_out(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    column = plain(column)
    return column if column.type == kind else column.cast(kind)


class _Filled:
    """A stream that gives as many bytes as it is asked for, within a bound."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        if size > _ARROW_READ_BYTES_MAX:
            raise body_limit("arrow_message_bytes", _ARROW_READ_BYTES_MAX, size)
        found = []
        while size:
            piece = self._file.read(size)
            if not piece:
                break
            found.append(piece)
            size -= len(piece)
        return b"".join(found)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the body to its owner."""
