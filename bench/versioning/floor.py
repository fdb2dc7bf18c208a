"""The same merge by other means: raw `merge_insert`, and the fewest calls of Lance that do it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import lance
import numpy as np
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from bench.versioning.graphs import Delta, items
from omnigraph.store.reading.deletion_files import decode_deletions

_FRAGMENT_ROWS: Final = 1 << 20


def stored(folder: Path, rows: int) -> LanceDataset:
    """A table with the rows of the graph."""
    content = with_id(items(np.arange(rows)))
    return lance.write_dataset(
        content, str(folder), enable_stable_row_ids=True, max_rows_per_file=_FRAGMENT_ROWS
    )


def with_id(rows: pa.Table) -> pa.Table:
    """Rows with the column by which they are told apart."""
    return rows.add_column(0, "id", rows.column("name"))


def merge_insert(table: LanceDataset, delta: Delta) -> None:
    """Bring changes into a table by its own merge."""
    rows = with_id(delta.written)
    builder = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.use_index(False).execute(rows)
    if delta.deleted:
        gone = pa.table({"id": list(delta.deleted)})
        table.merge_insert("id").when_matched_delete().use_index(False).execute(gone)


def fork_with(folder: Path, delta: Delta, name: str) -> LanceDataset:
    """A fork of a table with changes."""
    table = lance.dataset(str(folder))
    fork = table.create_branch(name)
    merge_insert(fork, delta)
    return lance.dataset(f"{folder}/tree/{name}")


def merge_fork(folder: Path, fork: LanceDataset) -> None:
    """Land what a fork has changed in its parent, without a look at what the parent changed.

    The rows of its new fragments are copied, the rows that it deleted are deleted. This is what
    finding and landing the changes costs by themselves; nothing is compared, judged or published.
    """
    target = lance.dataset(str(folder))
    known = {each.metadata.files[0].path: each for each in target.get_fragments()}
    new, changed, removed = [], [], []
    for each in fork.get_fragments():
        mine = known.get(each.metadata.files[0].path)
        if mine is None:
            new.append(each)
            continue
        dead = np.setdiff1d(_deleted(folder, fork, each), _deleted(folder, target, mine))
        if len(dead):
            left = mine.delete_rows(dead.tolist())
            if left is None:
                removed.append(mine.fragment_id)
            else:
                changed.append(left)
    rows = fork.scanner(fragments=new).to_table()
    written = write_fragments(rows, target, mode="append")
    for metadata in written:
        _sync(folder / "data" / metadata.files[0].path)
    fields = [field.id() for field in target.lance_schema.fields()]
    change = LanceOperation.Update(removed, changed, written, [], fields, "rewrite_rows")
    done = LanceDataset.commit(target, change, read_version=target.version)
    _sync(folder / "_versions" / f"{(1 << 64) - 1 - done.version}.manifest")


def copy_rows(source: str, target: Path) -> None:
    """Read all rows of a table and write them into another one."""
    rows = lance.dataset(source).scanner(batch_size=65_536).to_reader()
    lance.write_dataset(rows, str(target), mode="overwrite", max_rows_per_file=_FRAGMENT_ROWS)


def _deleted(folder: Path, table: LanceDataset, fragment: Any) -> Any:
    file = fragment.metadata.deletion_file
    if file is None:
        return np.empty(0, np.uint32)
    base = Path(table.uri)
    if file.base_id is not None:
        base = Path(str(table.base_paths()[file.base_id].path))
    name = file.path(fragment.fragment_id)
    return decode_deletions(name, (base / name).read_bytes())


def _sync(path: Path) -> None:
    for place in (path, path.parent):
        handle = os.open(place, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
