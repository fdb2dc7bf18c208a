"""Rows of a data file by their offsets, past the fragment that lists the file.

A fragment counts the rows that are left: to find one, it goes through the rows that are deleted. A
data file knows of no deletions, so finding a row in it takes the same however many there are.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.file import LanceFileReader

from omnigraph.store.table import BATCH_ROWS, overflows

__all__ = ["field_ids", "has_plain_file", "rows_of_file"]


def field_ids(fields: Iterable[Any], *, leaves_only: bool = False) -> list[int]:
    """Return the numbers of fields, and of those inside of them.

    Leaves are the fields that have values of their own: a column of a file each.
    """
    found: list[int] = []
    for field in fields:
        children = field.children()
        if not (children and leaves_only):
            found.append(field.id())
        if children:
            found.extend(field_ids(children, leaves_only=leaves_only))
    return found


def has_plain_file(metadata: Any, fields: Sequence[int]) -> bool:
    """True if one file of a fragment holds the columns of these field ids, and nothing else."""
    files = metadata.files
    return len(files) == 1 and list(files[0].fields) == list(fields)


def rows_of_file(
    place: str, offsets: npt.NDArray[Any], columns: list[str], schema: pa.Schema
) -> pa.Table | None:
    """Some columns of rows, by ascending offsets; None where a fragment has to be asked instead.

    Args:
        place: Where the file lies on this machine.
        offsets: The places of the rows in the file, each once.
        columns: The columns that are wanted.
        schema: All columns of the table, which the file holds by their field ids.
    """
    stored = LanceFileReader(place).metadata().schema
    # A column that was renamed since has its old name in the file.
    if stored.names != schema.names or stored.types != schema.types:
        return None
    wanted = pa.schema([schema.field(name) for name in columns])
    try:
        reader = LanceFileReader(place, columns=columns)
        rows = reader.take_rows(offsets.astype(np.int64).tolist(), batch_size=BATCH_ROWS)
        found = [batch.select(columns) for batch in rows.to_batches()]
    except (OSError, ValueError) as error:
        if not overflows(error):
            raise
        return None
    batches = [pa.RecordBatch.from_arrays(batch.columns, schema=wanted) for batch in found]
    return pa.Table.from_batches(batches, wanted)
