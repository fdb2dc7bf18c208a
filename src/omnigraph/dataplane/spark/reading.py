"""`spark.read.format("omnigraph")`: one type of one pinned state of a graph.

Planning and every task run in processes of their own. The state is pinned when the frame is made,
so that whatever is computed from it comes from one commit.

Spark could push filters down by itself. It remembers what it pushed with the relation, though, and
a frame that was filtered once would stay filtered in every later use (a test shows it). So rows are
left out only where the caller says so when the frame is made, with `where`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.carried_errors import carried_errors
from omnigraph.dataplane.spark.columns import carry
from omnigraph.dataplane.worker_tables import require_seen
from omnigraph.store.root import Root
from omnigraph.store.table import Table
from omnigraph.store.tables import Pin, open_tables


@dataclass(frozen=True)
class FragmentsPartition(InputPartition):
    """Some fragments of the table, and how many rows they have."""

    fragments: tuple[int, ...]
    rows: int


class TypeReader(DataSourceReader):
    """Reads the rows of one type. Travels to the tasks as it is."""

    def __init__(self, root: Root, pin: Pin, columns: Sequence[str], where: str | None) -> None:
        """Read these columns of a pinned table, of the rows for which a condition is true."""
        self._root = root
        self._pin = pin
        self._columns = list(columns)
        self._where = where

    def partitions(self) -> Sequence[InputPartition]:
        """Fragments in groups of about a million rows; an empty table is one empty piece."""
        pieces: list[InputPartition] = []
        group: list[int] = []
        rows = 0
        with carried_errors():
            for fragment, count in self._table().fragment_rows():
                group.append(fragment)
                rows += count
                if rows >= tuning.active.partition_rows:
                    pieces.append(FragmentsPartition(tuple(group), rows))
                    group, rows = [], 0
        if group or not pieces:
            pieces.append(FragmentsPartition(tuple(group), rows))
        return pieces

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one piece."""
        assert isinstance(partition, FragmentsPartition)
        with carried_errors():
            yield from self._read(partition)

    def _read(self, piece: FragmentsPartition) -> Iterator[pa.RecordBatch]:
        if not piece.fragments:
            return
        if not self._columns and self._where is None:
            # The metadata has their number.
            yield from _rows_without_columns(piece.rows)
            return
        require_seen(self._root)
        table = self._table()
        if not self._columns:
            for batch in table.scan(["id"], filter=self._where, fragments=piece.fragments):
                yield from _rows_without_columns(batch.num_rows)
            return
        wide = any(pa.types.is_nested(table.schema.field(name).type) for name in self._columns)
        batches = table.scan(
            self._columns,
            filter=self._where,
            fragments=piece.fragments,
            batch_rows=tuning.active.wide_batch_rows if wide else tuning.active.batch_rows,
        )
        for batch in batches:
            yield carry(batch)

    def _table(self) -> Table:
        return open_tables(self._root).open(self._pin)


def _rows_without_columns(count: int) -> Iterator[pa.RecordBatch]:
    empty = pa.array([], pa.struct([]))
    while count > 0:
        rows = min(count, tuning.active.partition_rows)
        array = pa.StructArray.from_buffers(empty.type, rows, [None], children=[])
        yield pa.RecordBatch.from_struct_array(array)
        count -= rows
