"""Look-up of rows by key in a pinned table, within the budget of one query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.storage_errors import storage_errors
from omnigraph.exec.memory import QUERY_BYTES_MAX
from omnigraph.runtime.cancellation import checked
from omnigraph.store.table import LIST_KEYS_MAX, Table, in_list

Keys = Mapping[str, Sequence[str]]


class LookupTooLarge(Exception):
    """Raised when a query touches too much to look up; the dense view answers it.

    Never reaches a user: the caller of a direct view catches it and starts over.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupBounds:
    """The most that one query reads directly.

    An index finds some hundred keys in about the time that a hundred thousand rows take to read.
    """

    keys: int = 1_000  # ids that are looked up
    rows: int = 20_000  # rows that come back
    bytes: int = QUERY_BYTES_MAX  # and what they take


class LookupBudget:
    """The rest of the bounds of one query."""

    __slots__ = ("bytes", "keys", "rows")

    def __init__(self, bounds: LookupBounds) -> None:
        """Start with everything."""
        self.keys = bounds.keys
        self.rows = bounds.rows
        self.bytes = bounds.bytes

    def look_up(self, keys: int) -> None:
        """Spend some lookups."""
        self.keys -= keys
        if self.keys < 0:
            raise LookupTooLarge(f"{-self.keys} keys too many")

    def read(self, rows: int, nbytes: int) -> None:
        """Spend some rows, and the memory that they take."""
        self.rows -= rows
        self.bytes -= nbytes
        if self.bytes < 0:
            raise LookupTooLarge(f"{-self.bytes} bytes too many")
        if self.rows < 0:
            raise LookupTooLarge(f"{-self.rows} rows too many")

    def allows(self, rows: int) -> bool:
        """True if so many rows can still be read."""
        return rows <= self.rows


class RowLookup(Protocol):
    """The rows of a type, found by key."""

    @property
    def row_count(self) -> int:
        """The number of rows."""
        ...

    def rows(self, columns: Sequence[str], keys: Keys) -> pa.Table:
        """The rows in which every column of `keys` has one of its values."""
        ...

    def everything(self, columns: Sequence[str]) -> pa.Table:
        """All rows."""
        ...


class TableLookup:
    """One table, read by key within a budget."""

    __slots__ = ("_budget", "_open", "_row_count", "_table")

    def __init__(
        self, open_table: Callable[[], Table], row_count: int, budget: LookupBudget
    ) -> None:
        """Read the table that `open_table` opens, when it is first needed."""
        self._open = open_table
        self._table: Table | None = None
        self._budget = budget
        self._row_count = row_count

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self._row_count

    @property
    def table(self) -> Table:
        """The pinned table."""
        if self._table is None:
            self._table = self._open()
        return self._table

    def rows(self, columns: Sequence[str], keys: Keys) -> pa.Table:
        """The rows in which every column of `keys` has one of its values.

        All columns of `keys` are among `columns`. The first one finds the rows, the others sift.
        """
        (first, values), *others = keys.items()
        self._budget.look_up(len(values))
        if self._budget.allows(self.row_count) and not self.table.prefers_lists(first, len(values)):
            found = having(self.everything(columns), first, values)
        else:
            conditions = [in_list(name, few) for name, few in others if len(few) <= LIST_KEYS_MAX]
            parts = [
                self._read(columns, " AND ".join([in_list(first, chunk), *conditions]))
                for start in range(0, len(values), LIST_KEYS_MAX)
                if (chunk := values[start : start + LIST_KEYS_MAX])
            ]
            found = pa.concat_tables(parts) if parts else self._nothing(columns)
        for name, few in others:
            found = having(found, name, few)
        return found

    def everything(self, columns: Sequence[str]) -> pa.Table:
        """All rows."""
        if not self._budget.allows(self.row_count):
            raise LookupTooLarge(f"{self.row_count} rows at once")
        return self._read(columns, None)

    def _read(self, columns: Sequence[str], condition: str | None) -> pa.Table:
        with storage_errors():
            stream = self.table.scan(columns, filter=condition)
            return pa.Table.from_batches(self._counted(stream), stream.schema)

    def _counted(self, stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in checked(stream):
            self._budget.read(batch.num_rows, batch.nbytes)
            yield batch

    def _nothing(self, columns: Sequence[str]) -> pa.Table:
        schema = self.table.schema
        return pa.schema([schema.field(name) for name in columns]).empty_table()


def having(rows: pa.Table, column: str, values: Sequence[str]) -> pa.Table:
    """The rows that have one of some values in a column."""
    return rows.filter(pc.is_in(rows.column(column), pa.array(values, pa.string())))
