"""Reading whole columns of a table, batch by batch, so that it can be ended in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from omnigraph.core.storage_errors import storage_errors
from omnigraph.exec.memory import QUERY_BYTES_MAX, too_large
from omnigraph.runtime.cancellation import checked
from omnigraph.store.table import Table

# A batch of long texts must not outgrow the 32-bit offsets in which it is read.
_BATCH_BYTES: Final = 64 << 20


def read_columns(
    table: Table, columns: Sequence[str], *, row_id: bool = False, bytes_max: int = QUERY_BYTES_MAX
) -> pa.Table:
    """All rows of a table in storage order: these columns, and the identity of each row.

    Raises:
        LimitExceeded: They have more than `bytes_max` bytes.
    """
    batches: list[pa.RecordBatch] = []
    size = 0
    with storage_errors():
        stream = table.scan(columns, row_id=row_id, batch_bytes=_BATCH_BYTES)
        for batch in checked(stream):
            size += batch.nbytes
            if size > bytes_max:
                raise too_large(size, bytes_max, f"reading {', '.join(columns) or 'the rows'}")
            batches.append(batch)
    return pa.Table.from_batches(batches, stream.schema)
