"""Altering the columns of a table: one commit that keeps its rows, their identities and files.

Columns are renamed, left out and added without values by a new schema alone. Where stored rows get
a value, a default or a wider form of what they have, each fragment gets one more data file with
these columns; the files that it has stay as they are. The fragments are independent of each other.

What a column held that is left out stays in the files. Where it has to go for good, the columns
that are kept are written into files of their own, which take the place of the others.
"""

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from lance import LanceOperation

from omnigraph.store.blobs import marked, stored
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import Staged, StagedKind
from omnigraph.store.reading.altered_columns import AlteredColumn
from omnigraph.store.table import ROW_ADDRESS, Table
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import Gateway, transaction, tree_path
from omnigraph.store.writing.lance_fields import LanceColumn, columns_of, new_column, schema_of
from omnigraph.store.writing.stage import Stager, checked_uuid, field_ids

__all__ = ["stage_alteration", "stage_rows"]

# The name of a column with new values until the schema gives it its own.
_WRITTEN: Final = "__altered_"
_THREADS: Final = 4
_ID: Final = "id"


def stage_alteration(
    files: Files,
    stager: Stager,
    table: Table,
    columns: Sequence[AlteredColumn],
    *,
    uuid: str,
    rewrites: bool = False,
) -> Staged:
    """Write what stored rows get anew, and compose the change. Columns come in this order.

    With ``rewrites`` everything that is kept is written, and the files that were there are not part
    of the table any more. Not for tables with blobs.
    """
    checked_uuid(uuid, table.pin.path)
    place = tree_path(table.pin.path, table.pin.branch)
    dataset = table.dataset
    written = [column for column in columns if rewrites or column.is_written(table.schema)]
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    schema = dataset.lance_schema
    created: tuple[str, ...] = ()
    if written and fragments:
        table.check(StorageCall.TABLE_SCAN)
        fragments, schema, created = _write(files, table, place, written)
        files.sync(place, created)
    altered = _altered(table, schema, columns, written, is_kept=rewrites)
    if rewrites and created:
        fragments = _without_old_files(dataset, fragments, schema, altered, columns)
    operation = LanceOperation.Merge(fragments, altered)
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


def stage_rows(
    files: Files,
    gateway: Gateway,
    stager: Stager,
    table: Table,
    alteration: Staged,
    *,
    inserts: pa.Table | None,
    deletes: pa.Table | None,
    uuid: str,
) -> Staged:
    """Write rows, and compose the change that follows an alteration of the same table.

    Args:
        files: What makes files durable.
        gateway: What writes rows.
        stager: What writes deletion files.
        table: The table as it is before the alteration.
        alteration: The alteration; the rows have its columns.
        inserts: New rows.
        deletes: The addresses of rows that go.
        uuid: The identity of the commit.
    """
    checked_uuid(uuid, table.pin.path)
    place = tree_path(table.pin.path, table.pin.branch)
    altered = alteration.transaction.operation
    current = {fragment.id: fragment for fragment in altered.fragments}
    dead = np.empty(0, np.uint64) if deletes is None else np.asarray(deletes.column(ROW_ADDRESS))
    erased, removed = stager.erase(table, dead)
    deletions = files.of_deletions(place, erased)
    changed = [
        dataclasses.replace(current[each.id], deletion_file=each.deletion_file) for each in erased
    ]
    new = [] if inserts is None else _new_rows(files, gateway, table, inserts, altered.schema)
    created = files.of_fragments(place, new)
    files.sync(place, [*deletions, *created])
    count = 0 if inserts is None else inserts.num_rows
    operation: Any = LanceOperation.Overwrite(altered.schema, new)
    if current:
        fields = field_ids(altered.schema.fields())
        operation = LanceOperation.Update(removed, changed, new, [], fields, "rewrite_rows")
    expected = alteration.expected + 1
    return Staged(
        path=alteration.path,
        branch=alteration.branch,
        expected=expected,
        uuid=uuid,
        kind=StagedKind.UPDATE if current else StagedKind.OVERWRITE,
        rows_after=table.row_count + count - len(dead),
        rows_inserted=count,
        rows_deleted=len(dead),
        files=(*deletions, *created),
        base_uuid=None if alteration.branch is None else alteration.uuid,
        transaction=transaction(expected=expected, operation=operation, uuid=uuid),
    )


def _new_rows(
    files: Files, gateway: Gateway, table: Table, rows: pa.Table, schema: Any
) -> list[Any]:
    """Write rows into fragments of a table that will have another schema."""
    place = tree_path(table.pin.path, table.pin.branch)
    written = storage_call(
        StorageCall.TABLE_WRITE,
        place,
        lambda: gateway.write_replacement(table.dataset, rows.to_reader()),
    )
    # They were numbered from the beginning; the table numbers its columns as it got them.
    _, fresh = columns_of(written.operation.new_schema)
    _, known = columns_of(schema)
    numbers = {
        old: new
        for name, column in fresh.items()
        for old, new in zip(column.numbers, known[name].numbers, strict=True)
    }
    for fragment in written.operation.fragments:
        for file in fragment.files:
            file.fields = [numbers[number] for number in file.fields]
    return list(files.seals.seal(place, written.operation.fragments))


def _write(
    files: Files, table: Table, place: str, written: Sequence[AlteredColumn]
) -> tuple[list[Any], Any, tuple[str, ...]]:
    """Give every fragment a file with the new values."""
    names = [f"{_WRITTEN}{at}" for at in range(len(written))]
    sources = sorted({column.source for column in written if column.source is not None})

    def values(rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [column.values(rows) for column in written]
        return pa.RecordBatch.from_arrays(arrays, names=names)

    # Lance evaluates expressions many times as fast, and reads nothing for those without a column.
    by_lance = [column.expression(table.schema) for column in written]
    made: Any = values if None in by_lance else dict(zip(names, by_lance, strict=True))
    read = sources or [_ID] if None in by_lance else None

    def merge(fragment: Any) -> tuple[Any, Any]:
        write = partial(fragment.merge_columns, made, columns=read)
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


def _without_old_files(
    dataset: Any,
    fragments: Sequence[Any],
    schema: Any,
    altered: Any,
    columns: Sequence[AlteredColumn],
) -> list[Any]:
    """Fragments with the files alone that were written last, their columns numbered as before."""
    counts = {each.fragment_id: len(each.metadata.files) for each in dataset.get_fragments()}
    _, wrote = columns_of(schema)
    _, final = columns_of(altered)
    numbers = {
        old: new
        for at, column in enumerate(columns)
        for old, new in zip(
            wrote[f"{_WRITTEN}{at}"].numbers, final[str(column.field.name)].numbers, strict=True
        )
    }
    found = []
    for fragment in fragments:
        kept = fragment.files[counts[fragment.id] :]
        for file in kept:
            file.fields = [numbers[number] for number in file.fields]
        found.append(dataclasses.replace(fragment, files=list(kept)))
    return found


def _altered(
    table: Table,
    schema: Any,
    columns: Sequence[AlteredColumn],
    written: Sequence[AlteredColumn],
    *,
    is_kept: bool,
) -> Any:
    """The schema of the altered table.

    A column that goes on as it was keeps its numbers, and its indexes; also when it was written
    again, if ``is_kept``.
    """
    metadata, known = columns_of(schema)
    place = {id(column): at for at, column in enumerate(written)}
    number = max(table.dataset.max_field_id, *(column.last for column in known.values())) + 1
    found: list[LanceColumn] = []
    for column in columns:
        name = column.field.name
        temporary = f"{_WRITTEN}{place.get(id(column), '')}"
        if is_kept and column.source is not None and not column.is_written(table.schema):
            found.append(known[column.source].renamed(name))
        elif temporary in known:
            found.append(known[temporary].renamed(name).nullable())
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
