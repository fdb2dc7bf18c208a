"""Reading whole columns of a table, batch by batch, so that it can be ended in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from omnigraph.core.storage_errors import storage_errors
from omnigraph.runtime.cancellation import checked
from omnigraph.store.table import Table

# A batch of long texts must not outgrow the 32-bit offsets in which it is read.
_BATCH_BYTES: Final = 64 << 20


def read_columns(table: Table, columns: Sequence[str], *, row_id: bool = False) -> pa.Table:
    """All rows of a table in storage order: these columns, and the identity of each row."""
    with storage_errors():
        stream = table.scan(columns, row_id=row_id, batch_bytes=_BATCH_BYTES)
        batches = list(checked(stream))
    return pa.Table.from_batches(batches, stream.schema)
