"""The rows that a merge writes for one type: held in memory, or read part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from omnigraph.exec.merge.merged_rows import Rows
from omnigraph.exec.merge.table_merge import MergedTable, TableMerge
from omnigraph.exec.merge.tasks import MergeWork, RowsToWrite, parts_of
from omnigraph.store.model import FragmentReceipt
from omnigraph.store.table import Table


@dataclass(frozen=True, eq=False)
class MergedImages:
    """The rows that are written, in the form of the table.

    Attributes:
        merge: Both sides.
        outcome: The decisions, as they were when this was made.
        schema: The columns of the table.
        rows: The rows of `MergedTable.keys`, ascending.
    """

    merge: TableMerge
    outcome: MergedTable
    schema: pa.Schema
    rows: Rows

    @classmethod
    def of(cls, merge: TableMerge, outcome: MergedTable, schema: pa.Schema) -> MergedImages | None:
        """The rows of an outcome; None when none is written."""
        rows = np.sort(outcome.take)
        return cls(merge, outcome, schema, rows) if len(rows) else None

    @property
    def work(self) -> MergeWork | None:
        """Reads and writes the rows by tasks, if there are many."""
        return self.merge.work

    @cached_property
    def whole(self) -> pa.Table:
        """All rows, in memory."""
        return self.merge.images(self.outcome, self.rows, self.schema)

    def batches(self, chosen: Rows | None = None) -> Iterator[pa.Table]:
        """Yield those rows that are among some of `MergedTable.keys`; all of them by default."""
        if self.work is None:
            yield self.whole if chosen is None else self.whole.take(pa.array(self._places(chosen)))
            return
        rows = self.rows if chosen is None else self.rows[self._places(chosen)]
        for part in parts_of(rows, self.merge.versions.theirs):
            yield self.merge.images(self.outcome, part, self.schema)

    def projected(self, names: Sequence[str], chosen: Rows | None = None) -> pa.Table:
        """Some columns of those rows that are among some of `MergedTable.keys`, or of all."""
        if self.work is None:
            found = self.whole.select(names)
            return found if chosen is None else found.take(pa.array(self._places(chosen)))
        schema = pa.schema([self.schema.field(name) for name in names])
        rows = self.rows if chosen is None else self.rows[self._places(chosen)]
        parts = parts_of(rows, self.merge.versions.theirs)
        found = [self.merge.images(self.outcome, part, schema) for part in parts]
        return pa.concat_tables([schema.empty_table(), *(each.cast(schema) for each in found)])

    def write(self, table: Table) -> list[FragmentReceipt]:
        """Write the rows by tasks. Nothing refers to them yet."""
        assert self.work is not None, "a few rows are written with the change of their table"
        merge, outcome = self.merge, self.outcome

        def described(part: Rows) -> RowsToWrite:
            keys = outcome.keys.take(pa.array(part))
            return RowsToWrite(keys, merge.sources(outcome, part), merge.given(outcome, part))

        return self.work.write(table, merge.rows, self.rows, described, self.schema)

    def reader(self) -> pa.RecordBatchReader:
        """All rows as they are read."""
        batches = (
            batch
            for part in self.batches()
            for batch in part.select(self.schema.names).cast(self.schema).to_batches()
        )
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def _places(self, chosen: Rows) -> Rows:
        """The places among the written rows of some rows of `MergedTable.keys`."""
        return np.flatnonzero(np.isin(self.rows, chosen))
