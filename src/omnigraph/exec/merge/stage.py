"""Staging what a merge makes of one table."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.core.schema.alignment import altered_columns
from omnigraph.core.write import TableWrite
from omnigraph.exec.merge.images import MergedImages
from omnigraph.exec.merge.type_merge import TypeMerge
from omnigraph.exec.mutate.committed import MutationLimits
from omnigraph.store.table import ROW_ADDRESS


def stage_type(
    repo: Repository,
    ours: GraphVersion,
    item: TypeMerge,
    images: MergedImages | None,
    limits: MutationLimits,
) -> TableWrite | None:
    """Write the rows of one type; nothing refers to them yet. None when nothing changes.

    Raises:
        LimitExceeded: The rows of a table whose columns change, too, are more than fit in memory.
    """
    if item.sides.ours is None:
        return None  # its table is made with the schema
    replaced = item.merge.replaced(item.outcome)
    is_changed = images is not None or len(replaced)
    if not is_changed and not item.sides.is_altered:
        return None
    # On a branch the first write forks the table; the rows keep their places there.
    key = item.sides.our_key
    table = repo.writable_table(ours, key)
    deletes = pa.table({ROW_ADDRESS: replaced}) if len(replaced) else None
    tables, ids = repo.tables, repo.ids
    if not item.sides.is_altered:
        if images is not None and images.work is not None:
            receipts = images.write(table)
            staged = tables.stage_fragments(table, receipts, deletes=deletes, uuid=ids.new())
        else:
            rows = None if images is None else images.whole.cast(table.schema)
            staged = tables.stage(table, inserts=rows, deletes=deletes, uuid=ids.new())
        assert staged is not None, "something is written or goes"
        return TableWrite(table_key=key, staged=(staged,))
    columns = altered_columns(item.sides.ours.entity, item.sides.entity)
    alterer = tables.alterer
    altered = alterer.stage(alterer.plan(table, columns), uuid=ids.new())
    if not is_changed:
        return TableWrite(table_key=key, staged=(altered,))
    rows = None if images is None else _held(images, limits, key)
    changed = alterer.stage_rows(table, altered, inserts=rows, deletes=deletes, uuid=ids.new())
    return TableWrite(table_key=key, staged=(altered, changed))


def _held(images: MergedImages, limits: MutationLimits, key: str) -> pa.Table:
    """All rows in memory, if they fit."""
    parts, size = [], 0
    for part in images.batches():
        size += part.nbytes
        limits.check_bytes(size, key)
        parts.append(part.cast(images.schema))
    return pa.concat_tables(parts)
