"""Staging: writing a change so that landing it is one commit.

Inserts, updates and deletes of one table become a single hand-built ``Update``. Updated rows are
written anew and keep their identity; their old copies and the deleted rows go into deletion files.
A table without fragments is changed by an ``Overwrite``. Lance would rebase such a change onto what
others landed meanwhile; that it does not is up to landing.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import FragmentMetadata, LanceOperation
from lance.fragment import DeletionFile, RowIdSequence

from omnigraph.store.blobs import marked
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.integrity.file_checksums import deleted_from
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import DeletionReceipt, FragmentReceipt, Staged, StagedKind, WrittenBy
from omnigraph.store.reading.data_files import field_ids
from omnigraph.store.reading.row_addresses import FRAGMENT_BITS, AddressedRows
from omnigraph.store.root import Root
from omnigraph.store.table import ROW_ADDRESS, ROW_ID, Table
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import Gateway, transaction, transaction_uuid, tree_path
from omnigraph.store.writing.inline_compaction import (
    created_at_once,
    fragments_to_compact,
    rows_to_compact,
    scattered_creation,
)
from omnigraph.store.writing.named_files import NamedFiles
from omnigraph.store.writing.write_deletions import DeletionWriter

__all__ = ["Stager", "change_operation", "fragment_of"]

_UUID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_STAGE: Final = "table.stage"


class Stager:
    """Writes changes of tables. No head moves."""

    def __init__(
        self,
        root: Root,
        gateway: Gateway,
        files: Files,
        rows: Callable[[Table], AddressedRows],
    ) -> None:
        self._gateway = gateway
        self.deletion_writer = DeletionWriter(files.checksums, rows)
        self._files = files
        self._named = NamedFiles(root, files.checksums)

    def write(
        self,
        table: Table,
        rows: Any,
        row_ids: Sequence[int] | None = None,
        by: WrittenBy | None = None,
    ) -> tuple[FragmentReceipt, ...]:
        """Write rows into new fragments, durable on return. Runs on workers.

        ``row_ids`` are the identities of the first rows; further rows get new ones when they land.
        """
        place = _place(table)

        def write() -> list[Any]:
            if by is not None and isinstance(rows, pa.Table) and not marked(table.schema):
                return self._named.write(table.dataset, place, rows, by)
            return self._files.checksums.add_to_names(
                place, self._gateway.write_rows(table.dataset, rows)
            )

        wrote = storage_call(StorageCall.TABLE_WRITE, place, write)
        receipts = []
        start = 0
        for fragment in wrote:
            size = fragment.physical_rows
            files = self._files.of_fragments(place, [fragment])
            if row_ids is not None and start < len(row_ids):
                ids = RowIdSequence(list(row_ids[start : start + size]))
                fragment = dataclasses.replace(fragment, row_id_meta=ids.to_inline_metadata())  # noqa: PLW2901
            text = json.dumps(fragment.to_json())
            receipts.append(FragmentReceipt(text, size, row_ids is not None, files))
            start += size
        self._files.sync(place, [file for receipt in receipts for file in receipt.files])
        return tuple(receipts)

    def stage(
        self,
        table: Table,
        *,
        inserts: Any,
        updates: pa.Table | None,
        deletes: pa.Table | None,
        uuid: str,
        properties: Mapping[str, str],
    ) -> Staged | None:
        """Write rows and compose the change."""
        new = self.write(table, inserts) if inserts is not None else ()
        rewritten: tuple[FragmentReceipt, ...] = ()
        dead = [] if deletes is None else [deletes.column(ROW_ADDRESS)]
        if updates is not None and updates.num_rows:
            rows = updates.drop_columns([ROW_ID, ROW_ADDRESS])
            rewritten = self.write(table, rows, updates.column(ROW_ID).to_pylist())
            dead.append(updates.column(ROW_ADDRESS))
        return self.stage_fragments(
            table, inserts=new, updates=rewritten, dead=dead, uuid=uuid, properties=properties
        )

    def stage_fragments(
        self,
        table: Table,
        *,
        inserts: Sequence[FragmentReceipt],
        updates: Sequence[FragmentReceipt],
        dead: Iterable[pa.Array | pa.ChunkedArray],
        deleted: Sequence[DeletionReceipt] = (),
        uuid: str,
        properties: Mapping[str, str],
        by: WrittenBy | None = None,
    ) -> Staged | None:
        """Compose a change from fragments and deletion files that were written before.

        Args:
            table: The base.
            inserts: Fragments of new rows.
            updates: Fragments of rewritten rows, which carry on the identities of their old copies.
            dead: Addresses of the rows that go, the old copies of updated rows included.
            deleted: What workers did about further rows that go.
            uuid: The identity of the commit.
            properties: Recorded with the commit.
            by: The operation, if its files should carry its name.
        """
        checked_uuid(uuid, table.pin.path)
        held = [pa.array(np.frombuffer(each.held, np.uint64)) for each in deleted]
        addresses = _addresses([*dead, *held], table)
        is_deleted = len(addresses) or any(each.deletions or each.removed for each in deleted)
        if not inserts and not updates and not is_deleted:
            return None
        place = _place(table)
        new = [*map(fragment_of, inserts), *map(fragment_of, updates)]
        current = sorted(
            (fragment.metadata for fragment in table.dataset.get_fragments()), key=lambda f: f.id
        )
        compacted, receipts = self._compacted(table, current, addresses, by)
        new.extend(map(fragment_of, receipts))
        elsewhere = addresses[~np.isin(addresses >> FRAGMENT_BITS, compacted)]
        changed, removed = self.deletion_writer.write(table, elsewhere)
        theirs, files = _deletions(table, current, deleted)
        if theirs.keys() & {*compacted, *(each.id for each in changed)}:
            raise _invalid(table, "a fragment got two deletion files")
        deletions = self._files.of_deletions(place, changed)
        self._files.sync(place, deletions)
        changed.extend(theirs.values())
        removed.extend(compacted)
        removed.extend(fragment for each in deleted for fragment in each.removed)
        inserted = sum(receipt.rows for receipt in inserts)
        updated = sum(receipt.rows for receipt in updates)
        gone = _gone(current, changed, removed) - sum(receipt.rows for receipt in receipts)
        if gone < updated:
            raise _invalid(table, "updated rows must name the addresses of their old copies")
        written = [file for receipt in (*inserts, *updates, *receipts) for file in receipt.files]
        return Staged(
            path=table.pin.path,
            branch=table.pin.branch,
            expected=table.pin.version,
            uuid=uuid,
            kind=StagedKind.UPDATE if current else StagedKind.OVERWRITE,
            rows_after=table.row_count + inserted + updated - gone,
            rows_inserted=inserted,
            rows_updated=updated,
            rows_deleted=gone - updated,
            files=(*written, *deletions, *files),
            base_uuid=self.base_uuid(table),
            transaction=transaction(
                expected=table.pin.version,
                operation=change_operation(
                    table,
                    current=current,
                    changed=_rounded(table, current, changed, removed),
                    removed=removed,
                    new=new,
                ),
                uuid=uuid,
                properties=properties,
            ),
        )

    def stage_overwrite(
        self, table: Table, rows: Any, *, uuid: str, schema: pa.Schema | None
    ) -> Staged:
        """Write rows that replace everything, under the table's schema or a new one."""
        checked_uuid(uuid, table.pin.path)
        place = _place(table)
        wanted = table.schema if schema is None else schema
        source = _conformed(rows, wanted)
        written = storage_call(
            StorageCall.TABLE_WRITE,
            place,
            lambda: self._gateway.write_replacement(table.dataset, source),
        )
        fragments = self._files.checksums.add_to_names(place, written.operation.fragments)
        written.operation.fragments = fragments
        files = self._files.of_fragments(place, fragments)
        self._files.sync(place, files)
        count = sum(fragment.physical_rows for fragment in fragments)
        return self._replacement(table, written.operation, count, files, uuid)

    def stage_replacement(
        self, table: Table, fragments: Sequence[FragmentReceipt], *, uuid: str
    ) -> Staged:
        """Compose a change that replaces everything by fragments that were written before."""
        checked_uuid(uuid, table.pin.path)
        new = [fragment_of(receipt) for receipt in fragments]
        operation = LanceOperation.Overwrite(table.dataset.lance_schema, new)
        count = sum(receipt.rows for receipt in fragments)
        files = tuple(file for receipt in fragments for file in receipt.files)
        return self._replacement(table, operation, count, files, uuid)

    def _replacement(
        self, table: Table, operation: Any, count: int, files: tuple[str, ...], uuid: str
    ) -> Staged:
        return Staged(
            path=table.pin.path,
            branch=table.pin.branch,
            expected=table.pin.version,
            uuid=uuid,
            kind=StagedKind.OVERWRITE,
            rows_after=count,
            rows_inserted=count,
            rows_deleted=table.row_count,
            files=files,
            base_uuid=self.base_uuid(table),
            transaction=transaction(expected=table.pin.version, operation=operation, uuid=uuid),
        )

    def _compacted(
        self, table: Table, current: list[Any], addresses: Any, by: WrittenBy | None
    ) -> tuple[tuple[int, ...], tuple[FragmentReceipt, ...]]:
        """Rewrite many small fragments into one; return their ids and what replaces them."""
        chosen = fragments_to_compact(table, current)
        if not chosen:
            return (), ()
        rows = rows_to_compact(table, chosen, addresses)
        if not rows.num_rows:
            return chosen, ()
        content = rows.drop_columns([ROW_ID, ROW_ADDRESS])
        return chosen, self.write(table, content, rows.column(ROW_ID).to_pylist(), by)

    def fragments_to_compact(self, table: Table) -> frozenset[int]:
        """Name the fragments that the next change of a table rewrites."""
        current = [fragment.metadata for fragment in table.dataset.get_fragments()]
        return frozenset(fragments_to_compact(table, sorted(current, key=lambda f: f.id)))

    def delete(self, table: Table, addresses: Any, held: Collection[int]) -> DeletionReceipt:
        """Write deletion files for rows, durable on return. Runs on workers.

        Args:
            table: The base.
            addresses: The rows, each once; all that go of these fragments.
            held: Fragments that the commit rewrites: of their rows only the addresses are given.
        """
        place = _place(table)
        is_held = np.isin(addresses >> FRAGMENT_BITS, list(held))
        changed, removed = self.deletion_writer.write(table, addresses[~is_held])
        files = self._files.of_deletions(place, changed)
        self._files.sync(place, files)
        return DeletionReceipt(
            deletions=tuple(
                (each.id, d.read_version, d.id, d.file_type, d.num_deleted_rows)
                for each in changed
                if (d := each.deletion_file) is not None
            ),
            removed=tuple(removed),
            held=addresses[is_held].tobytes(),
            files=files,
        )

    def base_uuid(self, table: Table) -> str | None:
        """Return the id of a fork, which no later one of its name has; None for the trunk."""
        # Only forks can be dropped and made again under one name, see `Lander`.
        if table.pin.branch is None:
            return None
        return transaction_uuid(table.dataset, _place(table))


def change_operation(
    table: Table, *, current: list[Any], changed: list[Any], removed: list[int], new: list[Any]
) -> Any:
    """Compose what Lance commits, from the fragments of the base and what becomes of them."""
    if not current:
        return LanceOperation.Overwrite(table.dataset.lance_schema, new)
    fields = field_ids(table.dataset.lance_schema.fields())
    return LanceOperation.Update(removed, changed, new, [], fields, "rewrite_rows")


def _rounded(table: Table, current: list[Any], changed: list[Any], removed: list[int]) -> list[Any]:
    """The changed fragments, with those that list too many versions that created their rows."""
    now = {fragment.id: fragment for fragment in current if fragment.id not in removed}
    now.update((fragment.id, fragment) for fragment in changed)
    rounded = [created_at_once(table, each) for each in scattered_creation(list(now.values()))]
    after = {fragment.id: fragment for fragment in (*changed, *rounded)}
    return list(after.values())


def _deletions(
    table: Table, current: list[Any], receipts: Sequence[DeletionReceipt]
) -> tuple[dict[int, Any], tuple[str, ...]]:
    """The fragments as workers changed them, by number, and the files that they wrote."""
    known = {fragment.id: fragment for fragment in current}
    changed: dict[int, Any] = {}
    for receipt in receipts:
        for number, version, file, kind, count in receipt.deletions:
            is_current = deleted_from(version) == table.pin.version
            if number not in known or number in changed or not is_current:
                raise _invalid(table, f"a deletion file of fragment {number} does not belong here")
            found = DeletionFile(version, file, cast("Any", kind), count, None)
            changed[number] = dataclasses.replace(known[number], deletion_file=found)
    return changed, tuple(file for each in receipts for file in each.files)


def _gone(current: list[Any], changed: list[Any], removed: list[int]) -> int:
    before: dict[int, int] = {fragment.id: fragment.num_rows for fragment in current}
    return sum(before[fragment] for fragment in removed) + sum(
        before[fragment.id] - int(fragment.num_rows) for fragment in changed
    )


def fragment_of(receipt: FragmentReceipt) -> Any:
    """Return what a receipt describes, as Lance has it."""
    return FragmentMetadata.from_json(receipt.fragment)


def _addresses(dead: Iterable[pa.Array | pa.ChunkedArray], table: Table) -> Any:
    parts = [np.asarray(part.cast(pa.uint64())) for part in dead if len(part)]
    if not parts:
        return np.empty(0, np.uint64)
    addresses = np.concatenate(parts)
    # Numpy looks for duplicates by hashing, which takes far longer.
    ascending = np.sort(addresses)
    if (ascending[1:] == ascending[:-1]).any():
        raise _invalid(table, "a row is changed or deleted twice")
    return addresses


def _conformed(rows: Any, schema: pa.Schema) -> pa.RecordBatchReader:
    """Give a stream the full schema: field annotations and table metadata come from there."""
    reader = rows.to_reader() if isinstance(rows, pa.Table) else rows
    batches = (
        pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)
        for batch in reader
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    column = batch.column(field.name)
    return column if column.type == field.type else pc.cast(column, field.type)


def checked_uuid(uuid: str, place: str) -> str:
    """Return the identity if it can be part of a file name."""
    if not _UUID.fullmatch(uuid):
        text = f"{uuid!r} cannot identify a commit"
        raise StorageFailure(FailureKind.INVALID, _STAGE, place, text)
    return uuid


def _place(table: Table) -> str:
    return tree_path(table.pin.path, table.pin.branch)


def _invalid(table: Table, text: str) -> StorageFailure:
    return StorageFailure(FailureKind.INVALID, _STAGE, table.pin.path, text)
