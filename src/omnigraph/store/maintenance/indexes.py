"""Building indexes beside a table; one commit takes them into use."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, assert_never

from lance import Index, LanceOperation

from omnigraph.runtime.cancellation import checked
from omnigraph.store import tuning
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import (
    Btree,
    Fts,
    IndexKind,
    IndexSpec,
    KeyFilter,
    SegmentReceipt,
    Staged,
    StagedKind,
    Vector,
)
from omnigraph.store.table import Table
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import transaction, transaction_uuid, tree_path
from omnigraph.store.writing.stage import checked_uuid

__all__ = ["build_segment", "existing_segments", "segments_of", "stage_indexes"]


def build_segment(
    files: Files, table: Table, spec: IndexSpec, fragments: Collection[int]
) -> SegmentReceipt:
    """Build a segment over some fragments, durable on return. Runs on workers.

    The handle of the table is locked meanwhile, so no other thread should use it.
    """
    place = tree_path(table.pin.path, table.pin.branch)
    covered = sorted(fragments)
    table.check(StorageCall.TABLE_SCAN)
    segment = storage_call(
        StorageCall.TABLE_INDEX,
        place,
        lambda: _build(table.dataset, spec.column, spec.kind, spec.name, covered),
    )
    segment = files.checksums.indexes.add_to_name(place, segment)
    created = files.of_index(place, segment.uuid)
    files.sync(place, created)
    return SegmentReceipt(spec.name, segment, created)


def segments_of(receipts: Sequence[SegmentReceipt], built_at: int) -> list[Any]:
    """Return the segments as a commit takes them; `built_at` is the version they are made from."""
    # They may have been built on a draft, whose number means nothing.
    return [dataclasses.replace(each.segment, dataset_version=built_at) for each in receipts]


def existing_segments(table: Table) -> list[Any]:
    """Return the segments of a version, as a commit that removes some of them names them."""
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
        for segment in index.segments
    ]


def stage_indexes(
    files: Files, table: Table, *, specs: Sequence[IndexSpec], uuid: str
) -> Staged | None:
    """Build indexes over every fragment; each replaces an index of the same name.

    Returns None for a table without rows: there is nothing to train on.
    """
    checked_uuid(uuid, table.pin.path)
    fragments = table.fragment_ids()
    if not fragments or not specs:
        return None
    receipts = [build_segment(files, table, spec, fragments) for spec in checked(specs)]
    names = {spec.name for spec in specs}
    replaced = [each for each in existing_segments(table) if each.name in names]
    version, branch = table.pin.version, table.pin.branch
    operation = LanceOperation.CreateIndex(segments_of(receipts, version), replaced)
    place = tree_path(table.pin.path, branch)
    return Staged(
        path=table.pin.path,
        branch=branch,
        expected=version,
        uuid=uuid,
        kind=StagedKind.INDEX,
        rows_after=table.row_count,
        files=tuple(file for receipt in receipts for file in receipt.files),
        base_uuid=None if branch is None else transaction_uuid(table.dataset, place),
        transaction=transaction(expected=version, operation=operation, uuid=uuid),
    )


def _build(dataset: Any, column: str, kind: IndexKind, name: str, fragments: list[int]) -> Any:
    match kind:
        case Btree():
            return dataset.create_index_uncommitted(
                column, "BTREE", name=name, replace=True, fragment_ids=fragments
            )
        case KeyFilter():
            return dataset.create_index_uncommitted(
                column, "BLOOMFILTER", name=name, replace=True, fragment_ids=fragments
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
                num_partitions=_partitions(dataset, fragments),
                fragment_ids=fragments,
            )
        case _:
            assert_never(kind)


def _partitions(dataset: Any, fragments: list[int]) -> int:
    rows = sum(int(dataset.get_fragment(each).metadata.num_rows) for each in fragments)
    return max(1, min(tuning.active.partitions_max, rows // tuning.active.partition_rows))
