"""Staging indexes: built beside the table, taken into use by one commit."""

from collections.abc import Collection, Sequence
from typing import Any, Final, assert_never

from lance import Index, LanceOperation

from omnigraph.store.calls import StorageCall, storage_call
from omnigraph.store.files import Files
from omnigraph.store.gateway import transaction, transaction_uuid, tree_path
from omnigraph.store.model import Btree, Fts, IndexKind, IndexWish, Staged, StagedKind, Vector
from omnigraph.store.stage import checked_uuid
from omnigraph.store.table import Table

__all__ = ["stage_indexes"]

# Rows of one partition: below that, comparing with every vector is as fast.
_PARTITION_ROWS: Final = 4_096
_PARTITIONS_MAX: Final = 4_096


def stage_indexes(
    files: Files, table: Table, *, wishes: Sequence[IndexWish], uuid: str
) -> Staged | None:
    """Build indexes over every fragment; each replaces an index of the same name.

    Returns None for a table without rows: there is nothing to train on.
    """
    checked_uuid(uuid, table.pin.path)
    fragments = list(table.fragment_ids())
    if not fragments or not wishes:
        return None
    place = tree_path(table.pin.path, table.pin.branch)
    segments: list[Any] = []
    created: tuple[str, ...] = ()
    for wish in wishes:
        segment = _segment(place, table, wish, fragments)
        created += files.of_index(place, segment.uuid)
        segments.append(segment)
    files.sync(place, created)
    replaced = _existing(table, {wish.name for wish in wishes})
    operation = LanceOperation.CreateIndex(segments, replaced)
    branch = table.pin.branch
    return Staged(
        path=table.pin.path,
        branch=branch,
        expected=table.pin.version,
        uuid=uuid,
        kind=StagedKind.INDEX,
        rows_after=table.row_count,
        files=created,
        base_uuid=None if branch is None else transaction_uuid(table.dataset, place),
        transaction=transaction(expected=table.pin.version, operation=operation, uuid=uuid),
    )


def _segment(place: str, table: Table, wish: IndexWish, fragments: list[int]) -> Any:
    return storage_call(
        StorageCall.TABLE_INDEX,
        place,
        lambda: _build(table, wish.column, wish.kind, wish.name, fragments),
    )


def _build(table: Table, column: str, kind: IndexKind, name: str, fragments: list[int]) -> Any:
    dataset = table.dataset
    match kind:
        case Btree():
            return dataset.create_index_uncommitted(
                column, "BTREE", name=name, replace=True, fragment_ids=fragments
            )
        case Fts():
            segment = dataset.create_index_uncommitted(
                column,
                "INVERTED",
                name=name,
                replace=True,
                fragment_ids=fragments,
                with_position=True,
            )
            # Without this step its files stay in a staging folder and no search finds them.
            return dataset.merge_existing_index_segments([segment])
        case Vector():
            return dataset.create_index_uncommitted(
                column,
                # Exact within a partition, so that probing all of them is exact.
                "IVF_FLAT",
                name=name,
                replace=True,
                metric=kind.metric.value,
                num_partitions=_partitions(table.row_count),
                fragment_ids=fragments,
            )
        case _:
            assert_never(kind)


def _partitions(rows: int) -> int:
    return max(1, min(_PARTITIONS_MAX, rows // _PARTITION_ROWS))


def _existing(table: Table, names: Collection[str]) -> list[Any]:
    found = storage_call(StorageCall.TABLE_INDEX, table.pin.path, table.dataset.describe_indices)
    return [
        Index(
            uuid=segment.uuid,
            name=index.name,
            fields=list(index.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
        )
        for index in found
        if index.name in names
        for segment in index.segments
    ]
