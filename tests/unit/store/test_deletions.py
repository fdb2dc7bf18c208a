"""Deletion files that workers write: the same table as one that is changed in one place."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.store.failures import StorageFailure
from omnigraph.store.tables import DeletionReceipt
from omnigraph.store.writing.inline_compaction import FANOUT
from tests.unit.store.test_inline_compaction import Rows


def addresses(rows: Rows, *ids: str) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    found = rows.table.locate(list(ids)).column("_rowaddr")
    return np.sort(found.to_numpy().astype(np.uint64))


def grown(folder: Path, count: int) -> Rows:
    rows = Rows(folder)
    for number in range(count):
        rows.insert(*(f"{number}-{each}" for each in range(5)))
    return rows


def test_a_receipt_stands_for_what_was_written(tmp_path: Path) -> None:
    rows = grown(tmp_path, 3)
    rows.delete("0-0")
    gone = addresses(rows, "0-1", "0-2", *(f"1-{each}" for each in range(5)))
    receipt = rows.tables.delete(rows.table, gone)
    # All that are gone of the first fragment, and nothing is left of the second one.
    assert [(each[0], each[4]) for each in receipt.deletions] == [(0, 3)]
    assert len(receipt.removed) == 1
    assert not receipt.held
    staged = rows.tables.stage_fragments(rows.table, [], deleted=[receipt], uuid="a")
    assert staged is not None
    assert (staged.rows_deleted, staged.rows_after) == (7, 7)
    rows.land(staged)
    assert set(rows.content()) == {"0-3", "0-4", *(f"2-{each}" for each in range(5))}


def test_rows_of_fragments_that_are_folded_are_told(tmp_path: Path) -> None:
    rows = grown(tmp_path, FANOUT)
    held = rows.tables.fragments_to_compact(rows.table)
    assert len(held) == FANOUT
    gone = addresses(rows, "3-3", "7-0")
    receipt = rows.tables.delete(rows.table, gone, held=held)
    assert (receipt.deletions, len(receipt.held)) == ((), 16)
    staged = rows.tables.stage_fragments(rows.table, [], deleted=[receipt], uuid="a")
    rows.land(staged)
    assert len(rows.table.fragment_ids()) == 1
    assert set(rows.content()).isdisjoint({"3-3", "7-0"})
    assert len(rows.content()) == 5 * FANOUT - 2


def test_receipts_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    rows = grown(tmp_path, 2)
    one = rows.tables.delete(rows.table, addresses(rows, "0-1"))
    other = rows.tables.delete(rows.table, addresses(rows, "0-2"))
    for deleted in ([one, other], [DeletionReceipt(deletions=((99, 3, 1, "array", 1),))]):
        with pytest.raises(StorageFailure, match="does not belong"):
            rows.tables.stage_fragments(rows.table, [], deleted=deleted, uuid="a")
    deletes = pa.table({"_rowaddr": addresses(rows, "0-2")})
    with pytest.raises(StorageFailure, match="two deletion files"):
        rows.tables.stage_fragments(rows.table, [], deletes=deletes, deleted=[one], uuid="a")
    assert (
        rows.tables.stage_fragments(rows.table, [], deleted=[DeletionReceipt()], uuid="a") is None
    )
    rows.insert("x")
    with pytest.raises(StorageFailure, match="does not belong"):
        rows.tables.stage_fragments(rows.table, [], deleted=[one], uuid="a")
