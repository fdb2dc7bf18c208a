"""Staging a compaction: fewer, larger fragments with the same rows, taken into use by one commit.

Lance's own compaction commits twice and takes no identity, so recovery could not tell it from a
stranger's. The parts are the same here, only the commit is ours. Fragments that an index covers
are left out: in this form they would lose its coverage.
"""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from lance import FragmentMetadata, LanceOperation
from lance.optimize import Compaction as LanceCompaction

from omnigraph.store.calls import StorageCall, storage_call
from omnigraph.store.files import Files
from omnigraph.store.gateway import transaction, transaction_uuid, tree_path
from omnigraph.store.model import Staged, StagedKind
from omnigraph.store.stage import checked_uuid
from omnigraph.store.table import Table

__all__ = ["stage_compaction"]


def stage_compaction(files: Files, table: Table, *, target_rows: int, uuid: str) -> Staged | None:
    """Rewrite small fragments that no index covers; None when there is nothing to gain."""
    checked_uuid(uuid, table.pin.path)
    place = tree_path(table.pin.path, table.pin.branch)
    dataset = table.dataset
    plan = storage_call(
        StorageCall.TABLE_COMPACT,
        place,
        lambda: LanceCompaction.plan(dataset, {"target_rows_per_fragment": target_rows}),
    )
    covered = {fragment for index in table.indexes() for fragment in index.fragments}
    groups: list[Any] = []
    new: list[Any] = []
    for task in plan.tasks:
        if covered.intersection(fragment.id for fragment in task.fragments):
            continue
        result: Any = storage_call(StorageCall.TABLE_WRITE, place, partial(task.execute, dataset))
        described: Mapping[str, Any] = json.loads(result.json())
        old, fresh = (
            _fragments(described[name]) for name in ("original_fragments", "new_fragments")
        )
        groups.append(LanceOperation.RewriteGroup(old, fresh))
        new.extend(fresh)
    if not groups:
        return None
    created = files.of_fragments(place, new)
    files.sync(place, created)
    branch = table.pin.branch
    return Staged(
        path=table.pin.path,
        branch=branch,
        expected=table.pin.version,
        uuid=uuid,
        kind=StagedKind.REWRITE,
        rows_after=table.row_count,
        files=created,
        base_uuid=None if branch is None else transaction_uuid(dataset, place),
        transaction=transaction(
            expected=table.pin.version,
            operation=LanceOperation.Rewrite(groups, []),
            uuid=uuid,
        ),
    )


def _fragments(described: list[Any]) -> list[Any]:
    return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in described]
