"""Altering the columns of a table: one commit that keeps its rows, their identities and files.

Columns are renamed, left out and added without values by a new schema alone. Where stored rows get
a value, a default or a wider form of what they have, each fragment gets one more data file with
these columns; the files that it has stay as they are. The fragments are independent of each other.
"""

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation

from omnigraph.store.blobs import marked, stored
from omnigraph.store.calls import StorageCall, storage_call
from omnigraph.store.files import Files
from omnigraph.store.gateway import transaction, tree_path
from omnigraph.store.lance_fields import LanceColumn, columns_of, new_column, schema_of
from omnigraph.store.model import Staged, StagedKind
from omnigraph.store.stage import Stager, checked_uuid
from omnigraph.store.table import Table

__all__ = ["AlteredColumn", "stage_alteration"]

# The name of a column with new values until the schema gives it its own.
_WRITTEN: Final = "__altered_"
_THREADS: Final = 4
_ID: Final = "id"


@dataclass(frozen=True, slots=True)
class AlteredColumn:
    """A column of a table after it was altered.

    Attributes:
        field: Its name and its type from now on.
        source: The column that it goes on from; None for a new one.
        fill: The value that stored rows get in a new one; None leaves them without.
    """

    field: pa.Field
    source: str | None = None
    fill: pa.Scalar | None = None

    def is_written(self, schema: pa.Schema) -> bool:
        """Tell whether stored rows get new values.

        They do also where the column takes over the name of another one: Lance refuses a name that
        stands for other files than before.
        """
        if self.field.name in schema.names and self.source != self.field.name:
            return True
        if self.source is None:
            return self.fill is not None
        return bool(schema.field(self.source).type != self.field.type)

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the values that some rows have in it."""
        if self.source is not None:
            column = rows.column(self.source)
            kind = self.field.type
            return column if column.type == kind else pc.cast(column, kind)
        if self.fill is None:
            return pa.nulls(rows.num_rows, self.field.type)
        return pa.repeat(self.fill, rows.num_rows)


def stage_alteration(
    files: Files, stager: Stager, table: Table, columns: Sequence[AlteredColumn], *, uuid: str
) -> Staged:
    """Write what stored rows get anew, and compose the change. Columns come in this order."""
    checked_uuid(uuid, table.pin.path)
    place = tree_path(table.pin.path, table.pin.branch)
    dataset = table.dataset
    written = [column for column in columns if column.is_written(table.schema)]
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    schema = dataset.lance_schema
    created: tuple[str, ...] = ()
    if written and fragments:
        table.check(StorageCall.TABLE_SCAN)
        fragments, schema, created = _write(files, table, place, written)
        files.sync(place, created)
    operation = LanceOperation.Merge(fragments, _altered(dataset, schema, columns, written))
    return Staged(
        path=table.pin.path,
        branch=table.pin.branch,
        expected=table.pin.version,
        uuid=uuid,
        kind=StagedKind.ALTER,
        rows_after=table.row_count,
        files=created,
        base_uuid=stager.base_uuid(table),
        transaction=transaction(expected=table.pin.version, operation=operation, uuid=uuid),
    )


def _write(
    files: Files, table: Table, place: str, written: Sequence[AlteredColumn]
) -> tuple[list[Any], Any, tuple[str, ...]]:
    """Give every fragment a file with the new values."""
    names = [f"{_WRITTEN}{at}" for at in range(len(written))]
    sources = sorted({column.source for column in written if column.source is not None})

    def values(rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [column.values(rows) for column in written]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def merge(fragment: Any) -> tuple[Any, Any]:
        write = partial(fragment.merge_columns, values, columns=sources or [_ID])
        after, schema = storage_call(StorageCall.TABLE_WRITE, place, write)
        return after, schema

    old = table.dataset.get_fragments()
    with ThreadPoolExecutor(min(_THREADS, len(old))) as pool:
        results = list(pool.map(merge, old))
    merged: list[Any] = []
    created: list[str] = []
    for before, (after, _) in zip(old, results, strict=True):
        count = len(before.metadata.files)
        # Only the new file may get its name from its content: others refer to those that are there.
        added = dataclasses.replace(after, files=after.files[count:])
        (added,) = files.seals.seal(place, [added])
        created += files.of_fragments(place, [added])
        merged.append(dataclasses.replace(after, files=[*after.files[:count], *added.files]))
    return merged, results[-1][1], tuple(created)


def _altered(
    dataset: Any, schema: Any, columns: Sequence[AlteredColumn], written: Sequence[AlteredColumn]
) -> Any:
    """The schema of the altered table."""
    metadata, known = columns_of(schema)
    place = {id(column): at for at, column in enumerate(written)}
    number = max(dataset.max_field_id, *(column.last for column in known.values())) + 1
    found: list[LanceColumn] = []
    for column in columns:
        name = column.field.name
        temporary = f"{_WRITTEN}{place.get(id(column), '')}"
        if temporary in known:
            found.append(known[temporary].renamed(name))
        elif column.source is not None and id(column) not in place:
            found.append(known[column.source].renamed(name))
        else:
            added = new_column(_stored(column.field), number)
            number += len(added.fields)
            found.append(added)
    return schema_of(metadata, found)


def _stored(field: pa.Field) -> pa.Field:
    """The field as Lance has it."""
    schema = pa.schema([field])
    return stored(schema.empty_table(), marked(schema)).schema.field(0)
