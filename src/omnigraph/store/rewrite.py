"""Compaction in parts: workers rewrite groups of fragments, a commit of ours puts them in place.

Lance's own compaction commits twice and takes no identity, so recovery could not tell it from a
stranger's. The parts are the same here, only the plan and the commit are ours.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lance import FragmentMetadata, LanceOperation
from lance.optimize import Compaction as LanceCompaction
from lance.optimize import CompactionTask

from omnigraph.store.calls import StorageCall, storage_call
from omnigraph.store.files import Files
from omnigraph.store.gateway import tree_path
from omnigraph.store.model import RewriteReceipt
from omnigraph.store.table import Table

__all__ = ["file_of", "rewrite_fragments", "rewrite_operation"]

# Whether to note where each row came from, for an index that Lance would carry over by itself.
_NOTES_ROWS: Final = "has_eager_remappable_index"


def rewrite_fragments(
    files: Files, table: Table, fragments: Sequence[int], *, target_rows: int
) -> RewriteReceipt:
    """Write the rows of some fragments into few, durable on return. What a worker does.

    Rows keep their identity and their versions; those that are deleted are left out.
    """
    place = tree_path(table.pin.path, table.pin.branch)
    task = storage_call(
        StorageCall.TABLE_COMPACT, place, lambda: _task(table, fragments, target_rows)
    )
    table.check(StorageCall.TABLE_SCAN)
    result: Any = storage_call(StorageCall.TABLE_WRITE, place, lambda: task.execute(table.dataset))
    described: Mapping[str, Any] = json.loads(result.json())
    written = files.seals.seal(place, _fragments(described["new_fragments"]))
    new = [fragment.to_json() for fragment in written]
    created = files.of_fragments(place, written)
    files.sync(place, created)
    return RewriteReceipt(json.dumps(described["original_fragments"]), json.dumps(new), created)


def rewrite_operation(
    receipts: Sequence[RewriteReceipt], numbers: Mapping[str, int] | None = None
) -> Any:
    """Return the operation that puts rewritten fragments in place of the old ones.

    Args:
        receipts: What workers wrote.
        numbers: The number of each new fragment, by the name of its file. Lance gives numbers
            itself, but only after it has noted which fragments the indexes cover.
    """
    groups = []
    for receipt in receipts:
        new = _fragments(json.loads(receipt.new))
        for fragment in new if numbers is not None else ():
            fragment.id = (numbers or {})[file_of(fragment)]
        groups.append(LanceOperation.RewriteGroup(_fragments(json.loads(receipt.old)), new))
    return LanceOperation.Rewrite(groups, [])


def file_of(fragment: Any) -> str:
    """Return the name of a file that no other fragment has."""
    return str(fragment.files[0].path)


def _task(table: Table, fragments: Sequence[int], target_rows: int) -> Any:
    # Lance plans by rules of its own; of its plan only the options are used.
    plan: Any = LanceCompaction.plan(table.dataset, {"target_rows_per_fragment": target_rows})
    options = {**json.loads(plan.json())["options"], _NOTES_ROWS: False}
    chosen = [table.dataset.get_fragment(each).metadata.to_json() for each in fragments]
    task: Any = CompactionTask
    return task.from_json(
        json.dumps(
            {
                "task": {"fragments": chosen},
                "read_version": table.pin.version,
                "options": options,
            }
        )
    )


def _fragments(described: list[Any]) -> list[Any]:
    return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in described]
