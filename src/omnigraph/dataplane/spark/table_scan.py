"""Pinned tables as DataFrames whose rows the tasks read from the fragments themselves.

A frame starts from a range with as many rows as the table, of which a task looks at one number per
piece. Spark takes the size of what a Python function returns for the size of what it is given, so
this gives it the size of the table: it then broadcasts small tables and never a large one. Null
columns of binaries, which Spark takes for 100 bytes each, make the rows about as wide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from omnigraph.dataplane.run.memory import take_small_pages
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.columns import carried, carry
from omnigraph.dataplane.spark.kernel import raising
from omnigraph.store.root import Root
from omnigraph.store.table import ROW_ID, Table
from omnigraph.store.tables import Pin, open_tables

_TEXT_BYTES: Final = 32  # a guess
_PADS_MAX: Final = 16

Frame: TypeAlias = Any
"""A DataFrame of Spark, classic or Connect."""

Make: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Makes the rows of a frame from stored rows with their `_rowid`, on a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """Reads pieces of one pinned table and makes rows of them. Travels to the tasks.

    Attributes:
        root: The graph.
        pin: The table.
        columns: The stored columns to read; the identity of each row always comes as `_rowid`.
        make: Turns what was read into rows of `schema`.
        schema: The rows, in the types of the graph.
        where: A condition in the SQL of Lance that leaves rows out before they are read.
        pieces: The fragments of each piece.
    """

    root: Root
    pin: Pin
    columns: tuple[str, ...]
    make: Make
    schema: pa.Schema
    where: str | None
    pieces: tuple[tuple[int, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn the numbers of pieces into their rows."""
        with raising():
            take_small_pages()
            table: Table | None = None
            for batch in batches:
                for piece in batch.column(0).drop_null().to_pylist():
                    table = table or open_tables(self.root).open(self.pin)
                    yield from self._rows(table, self.pieces[piece])

    def _rows(self, table: Table, fragments: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
        wide = any(pa.types.is_nested(table.schema.field(name).type) for name in self.columns)
        read = table.scan(
            self.columns,
            filter=self.where,
            row_id=True,
            fragments=fragments,
            batch_rows=tuning.active.wide_batch_rows if wide else tuning.active.batch_rows,
        )
        for batch in read:
            made = self.make(batch)
            if made.num_rows:
                yield carry(made)


def scan_frame(session: Any, table: Table, scan: TableScan) -> Frame:
    """The rows that a scan makes, as a DataFrame; `table` is the table of the scan, opened here."""
    if not scan.pieces:
        return session.createDataFrame([], frame_schema(scan.schema))
    count = len(scan.pieces)
    step = max(1, -(-table.row_count // count))
    piece = f"CASE WHEN id % {step} = 0 THEN CAST(id DIV {step} AS INT) END AS piece"
    pads = [f"CAST(NULL AS BINARY) AS pad{number}" for number in range(_pads(scan.schema))]
    numbers = session.range(0, count * step, 1, count).selectExpr(piece, *pads)
    return numbers.mapInArrow(scan, frame_schema(scan.schema))


def pieces_of(table: Table) -> tuple[tuple[int, ...], ...]:
    """Fragments in groups of about a million rows."""
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    rows = 0
    for fragment, count in table.fragment_rows():
        group.append(fragment)
        rows += count
        if rows >= tuning.active.partition_rows:
            groups.append(tuple(group))
            group, rows = [], 0
    return (*groups, tuple(group)) if group else tuple(groups)


def frame_schema(schema: pa.Schema) -> StructType:
    """A schema of the graph as Spark declares it; everything may be null there."""
    return StructType(
        [StructField(field.name, from_arrow_type(field.type)) for field in carried(schema)]
    )


def _pads(schema: pa.Schema) -> int:
    """The number of null columns that make a row of the range about as wide as one of this schema.

    Spark's estimate of the range is 6 bytes per row, and 50 more for each of these columns.
    """
    return min(_PADS_MAX, -(-sum(_width(field.type) for field in schema) // 50))


def _width(kind: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * 4
    if pa.types.is_primitive(kind):
        return max(1, int(kind.bit_width) // 8)
    return _TEXT_BYTES


@dataclass(frozen=True, slots=True)
class Renamed:
    """The identity of each row as `id_name`, and stored columns under names of the frame."""

    id_name: str
    columns: tuple[str, ...]
    names: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch."""
        arrays = [batch.column(ROW_ID).cast(pa.int64()), *map(batch.column, self.columns)]
        return pa.RecordBatch.from_arrays(arrays, [self.id_name, *self.names])


def renamed_schema(
    id_name: str, schema: pa.Schema, columns: Sequence[tuple[str, str]]
) -> pa.Schema:
    """The schema of what `Renamed` makes; `columns` are names of the frame and stored columns."""
    fields = [pa.field(name, schema.field(column).type) for name, column in columns]
    return pa.schema([pa.field(id_name, pa.int64()), *fields])
