"""The difference between two versions of a table.

Rows that were written since lie in fragments that the older version does not have, and say so
themselves: each row carries the version that wrote it last. A fold or a compaction moves rows that
did not change; the former counts as writing, the latter does not. Either way a row is named by its
identity, so reporting it again with the same content is harmless.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.table import ROW_ID, UPDATED_AT, Table

__all__ = ["TableDelta", "table_delta"]

# What Lance answers when it cannot follow the history between two versions.
_NO_HISTORY: Final = frozenset({FailureKind.INVALID, FailureKind.NOT_FOUND, FailureKind.UNKNOWN})


@dataclass(frozen=True, slots=True, eq=False)
class TableDelta:
    """A change of a table.

    Attributes:
        written: Rows that are new or were rewritten, with ``_rowid``; perhaps as they were.
        removed: The identities of rows that are gone. Some may never have been in the older
            version.
    """

    written: pa.Table
    removed: Any


def table_delta(
    table: Table, since: Table, columns: list[str], *, rows_max: int
) -> TableDelta | None:
    """Return what changed from ``since`` to ``table``.

    Args:
        table: The newer version.
        since: An older version of the same history.
        columns: What to read of the rows that were written.
        rows_max: More than this many rows are not worth it.

    Returns:
        The change, or None when it is too large or not known.
    """
    if any(table.schema.field(name) != since.schema.field(name) for name in columns):
        return None
    try:
        removed = storage_call(
            StorageCall.TABLE_SCAN, table.pin.path, lambda: _removed(table, since)
        )
        written = storage_call(
            StorageCall.TABLE_SCAN,
            table.pin.path,
            lambda: _written(table, since, columns, rows_max),
        )
    except StorageFailure as failure:
        if failure.kind not in _NO_HISTORY:
            raise
        return None
    if written is None or len(removed) + written.num_rows > rows_max:
        return None
    # A row that was written is there, whatever became of its earlier copy.
    alive = np.isin(removed, written.column(ROW_ID).to_numpy())
    return TableDelta(written, removed[~alive])


def _removed(table: Table, since: Table) -> Any:
    for version in (since, table):
        version.check(StorageCall.TABLE_SCAN)
    delta = table.dataset.delta(compared_against=since.pin.version)
    return delta.get_deleted_row_ids().read_all().column(0).to_numpy()


def _written(table: Table, since: Table, columns: list[str], rows_max: int) -> pa.Table | None:
    known = {_identity(fragment) for fragment in since.dataset.get_fragments()}
    fresh = [each for each in table.dataset.get_fragments() if _identity(each) not in known]
    options = {
        "columns": columns,
        "fragments": fresh,
        "filter": f"{UPDATED_AT} > {since.pin.version}",
        "with_row_id": True,
    }
    if not fresh:
        names = [table.schema.field(name) for name in columns]
        return pa.schema([*names, pa.field(ROW_ID, pa.uint64())]).empty_table()
    table.check(StorageCall.TABLE_SCAN, fresh)
    if sum(each.metadata.num_rows for each in fresh) > rows_max:
        # A compaction rewrites everything and changes nothing: count before reading.
        count = table.dataset.scanner(**{**options, "columns": []}).count_rows()
        if count > rows_max:
            return None
    return table.dataset.scanner(**options).to_table()


def _identity(fragment: Any) -> tuple[Any, ...]:
    """Names the content of a fragment; numbers are given again when a table is overwritten."""
    metadata = fragment.metadata
    return (metadata.id, *(file.path for file in metadata.files))
