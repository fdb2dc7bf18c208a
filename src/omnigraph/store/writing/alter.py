"""Altering the columns of a table: one commit that keeps its rows, their identities and files.

Columns are renamed, left out and added without values by a new schema alone. Where stored rows get
a value, a default or a wider form of what they have, each fragment gets one more data file with
these columns (`altered_values`); the files that it has stay as they are.

What a column held that is left out stays in the files. Where it has to go for good, the columns
that are kept are written into files of their own, which take the place of the others.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from lance import LanceOperation

from omnigraph.store.blobs import marked, stored
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import Staged, StagedKind
from omnigraph.store.reading.altered_columns import AlteredColumn
from omnigraph.store.reading.data_files import field_ids
from omnigraph.store.root import Root
from omnigraph.store.table import ROW_ADDRESS, Table
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import Gateway, transaction, tree_path
from omnigraph.store.writing.altered_values import (
    ValuesReceipt,
    WrittenColumns,
    write_values,
)
from omnigraph.store.writing.lance_fields import LanceColumn, columns_of, new_column, schema_of
from omnigraph.store.writing.stage import Stager, checked_uuid

__all__ = ["Alteration", "Alterer"]


@dataclass(frozen=True, slots=True)
class Alteration:
    """Other columns for the rows of a table.

    Attributes:
        table: The table as it is.
        schema: Its columns from then on, as Lance has them.
        written: The columns that stored rows get values in; None where the schema says it all.
        replaces: The files that are there are not part of the table any more.
    """

    table: Table
    schema: Any = field(repr=False)
    written: WrittenColumns | None
    replaces: bool = False

    @property
    def fragments(self) -> dict[int, int]:
        """The fragments that need a file with new values, with the numbers of their rows."""
        if self.written is None:
            return {}
        return {each.fragment_id: each.physical_rows for each in self.table.dataset.get_fragments()}


class Alterer:
    """Alters the tables of one root. Thread-safe."""

    def __init__(self, root: Root, gateway: Gateway, files: Files, stager: Stager) -> None:
        self._root = root
        self._gateway = gateway
        self._files = files
        self._stager = stager

    def plan(
        self, table: Table, columns: Sequence[AlteredColumn], *, rewrites: bool = False
    ) -> Alteration:
        """The work that other columns for the same rows take. Columns come in this order.

        A column that goes on as it was keeps its numbers, and its indexes. With ``rewrites``
        everything that is kept is written again, so that the values of columns that are left out
        are in no file of the table any more; not for tables with blobs.
        """
        metadata, known = columns_of(table.dataset.lance_schema)
        number = max(table.dataset.max_field_id, *(column.last for column in known.values())) + 1
        found: list[LanceColumn] = []
        written: list[tuple[AlteredColumn, pa.Field, LanceColumn]] = []
        for column in columns:
            name = str(column.field.name)
            has_values = column.is_written(table.schema)
            if column.source is not None and not has_values:
                kept = table.dataset.schema.field(column.source).with_name(name)
                found.append(known[column.source].renamed(name))
            else:
                kept = _stored(column.field)
                added = new_column(kept, number)
                number += len(added.fields)
                if has_values:
                    kept, added = column.in_files(kept).with_nullable(True), added.nullable()
                found.append(added)
            if rewrites or has_values:
                written.append((column, kept, found[-1]))
        values = WrittenColumns(
            columns=tuple(column for column, _, _ in written),
            fields=pa.schema([kept for _, kept, _ in written]),
            numbers=tuple(leaf for _, _, column in written for leaf in column.leaves),
        )
        return Alteration(
            table=table,
            schema=schema_of(metadata, found),
            written=values if written else None,
            replaces=rewrites and bool(written),
        )

    def write(
        self, table: Table, fragments: Sequence[int], written: WrittenColumns
    ) -> tuple[ValuesReceipt, ...]:
        """Write the new values of some fragments, durable on return. Runs on workers."""
        return write_values(self._root, self._files, table, fragments, written)

    def stage(
        self, alteration: Alteration, receipts: Sequence[ValuesReceipt] | None = None, *, uuid: str
    ) -> Staged:
        """Compose the change from what workers wrote; by default all of it is written here."""
        table = alteration.table
        checked_uuid(uuid, table.pin.path)
        if receipts is None:
            written, numbers = alteration.written, tuple(alteration.fragments)
            receipts = () if written is None else self.write(table, numbers, written)
        added = {each.fragment: each.added_files for each in receipts}
        fragments = [
            _with_values(each.metadata, added.get(each.fragment_id, ()), alteration)
            for each in table.dataset.get_fragments()
        ]
        operation = LanceOperation.Merge(fragments, alteration.schema)
        return Staged(
            path=table.pin.path,
            branch=table.pin.branch,
            expected=table.pin.version,
            uuid=uuid,
            kind=StagedKind.ALTER,
            rows_after=table.row_count,
            files=tuple(name for receipt in receipts for name in receipt.files),
            base_uuid=self._stager.base_uuid(table),
            transaction=transaction(expected=table.pin.version, operation=operation, uuid=uuid),
        )

    def stage_rows(
        self,
        table: Table,
        alteration: Staged,
        *,
        inserts: pa.Table | None = None,
        deletes: pa.Table | None = None,
        uuid: str,
    ) -> Staged:
        """Write rows, and compose the change that lands right behind an alteration of the table.

        Args:
            table: The table as it is before the alteration.
            alteration: The alteration; the rows have its columns.
            inserts: New rows.
            deletes: The rows that go, by ``_rowaddr``.
            uuid: The identity of the commit.
        """
        files = self._files
        checked_uuid(uuid, table.pin.path)
        place = tree_path(table.pin.path, table.pin.branch)
        altered = alteration.transaction.operation
        current = {fragment.id: fragment for fragment in altered.fragments}
        dead = (
            np.empty(0, np.uint64) if deletes is None else np.asarray(deletes.column(ROW_ADDRESS))
        )
        erased, removed = self._stager.deletion_writer.write(table, dead)
        deletions = files.of_deletions(place, erased)
        changed = [
            dataclasses.replace(current[each.id], deletion_file=each.deletion_file)
            for each in erased
        ]
        new = (
            []
            if inserts is None
            else _new_rows(files, self._gateway, table, inserts, altered.schema)
        )
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


def _with_values(fragment: Any, added: Sequence[Any], alteration: Alteration) -> Any:
    assert alteration.written is None or added, "every fragment has a file with its new values"
    kept = () if alteration.replaces else fragment.files
    return dataclasses.replace(fragment, files=[*kept, *added])


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
    return list(files.checksums.add_to_names(place, written.operation.fragments))


def _stored(field: pa.Field) -> pa.Field:
    """The field as Lance has it."""
    schema = pa.schema([field])
    return stored(schema.empty_table(), marked(schema)).schema.field(0)
