"""Rows of a data file by their offsets, past the fragment that lists the file.

A fragment counts the rows that are left: to find one, it goes through the rows that are deleted. A
data file holds no deletions, so finding a row in it takes the same however many there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.file import LanceFileReader

from omnigraph.store import tuning
from omnigraph.store.table import BATCH_ROWS, overflows
from omnigraph.store.versions.protobuf import BYTES, entries

__all__ = ["field_ids", "field_names", "has_plain_file", "rows_of_file"]

# Rows are copied where more than one in so many is not followed by the next one of its file.
_COPIED_SHARE: Final = 256
# Files of as many rows and the same columns describe themselves alike.
_KEPT_DESCRIPTIONS: Final = 256
# Where a file describes its columns, in the terms of Lance's format.
_DESCRIPTION: Final = 0
_SCHEMA, _FIELD, _NAME, _ID = 1, 1, 2, 3


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


def field_names(fields: Iterable[Any]) -> dict[int, str]:
    """Return the names of fields, and of those inside of them, by their numbers."""
    found: dict[int, str] = {}
    for field in fields:
        found[field.id()] = str(field.name())
        found.update(field_names(field.children()))
    return found


def rows_of_file(
    place: str,
    offsets: npt.NDArray[Any],
    columns: list[str],
    schema: pa.Schema,
    names: Mapping[int, str],
    *,
    is_whole: bool = False,
) -> pa.Table | None:
    """Some columns of rows, by ascending offsets; None where a fragment has to be asked instead.

    Args:
        place: Where the file lies on this machine.
        offsets: The places of the rows in the file, each once.
        columns: The columns that are wanted.
        schema: All columns of the table, which the file holds by their field ids.
        names: The names of all fields of the table, by their numbers.
        is_whole: Decode the columns as a whole, not the blocks of each row.
    """
    try:
        reader = LanceFileReader(place, columns=columns)
        # A column that was renamed since has its old name in the file.
        if _stored_names(reader.read_global_buffer(_DESCRIPTION)) != names:
            return None
        if is_whole:
            rows = reader.read_all(batch_size=tuning.active.read_addresses, batch_readahead=2)
            found = _chosen(rows.to_batches(), offsets)
        else:
            taken = reader.take_rows(offsets.astype(np.int64).tolist(), batch_size=BATCH_ROWS)
            found = list(taken.to_batches())
    except (OSError, ValueError) as error:
        # Lance names the columns that a file has when one is asked for that it does not have.
        if not overflows(error) and "Available fields" not in str(error):
            raise
        return None
    wanted = pa.schema([schema.field(name) for name in columns])
    if any(batch.select(columns).schema.types != wanted.types for batch in found[:1]):
        return None
    batches = [
        pa.RecordBatch.from_arrays(batch.select(columns).columns, schema=wanted) for batch in found
    ]
    return pa.Table.from_batches(batches, wanted)


def _chosen(batches: Iterable[pa.RecordBatch], offsets: npt.NDArray[Any]) -> list[pa.RecordBatch]:
    """The rows at some offsets of a file that is read from its beginning."""
    found, start = [], 0
    for batch in batches:
        end = start + batch.num_rows
        first, last = np.searchsorted(offsets, [start, end])
        if last - first == batch.num_rows:
            found.append(batch)
        elif last > first:
            mine = (offsets[first:last] - np.asarray(start, offsets.dtype)).astype(np.int64)
            found.extend(_taken(batch, mine))
        start = end
    return found


def _taken(batch: pa.RecordBatch, places: npt.NDArray[np.int64]) -> list[pa.RecordBatch]:
    """Rows of a batch by their ascending places; without a copy where only few are left out."""
    ends = np.flatnonzero(np.diff(places) != 1) + 1
    if len(ends) * _COPIED_SHARE > len(places):
        return [batch.take(pa.array(places))]
    starts = [0, *ends.tolist()]
    runs = zip(starts, [*ends.tolist(), len(places)], strict=True)
    return [batch.slice(int(places[start]), end - start) for start, end in runs]


@lru_cache(maxsize=_KEPT_DESCRIPTIONS)
def _stored_names(description: bytes) -> Mapping[int, str]:
    """The names of the fields of a file, by their numbers, as it describes itself."""
    found: dict[int, str] = {}
    for number, _, schema in entries(description):
        if number != _SCHEMA or not isinstance(schema, bytes):
            continue
        for kind, wire, field in entries(schema):
            if kind == _FIELD and wire == BYTES and isinstance(field, bytes):
                known = {key: value for key, _, value in entries(field)}
                name = known.get(_NAME, b"")
                found[int(known.get(_ID, 0))] = name.decode() if isinstance(name, bytes) else ""
    return found
