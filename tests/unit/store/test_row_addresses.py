"""Rows by their addresses are the same rows, whichever way they are read."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from lance.fragment import RowIdSequence

from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import open_backend
from omnigraph.store.reading.data_files import field_names, has_plain_file, rows_of_file
from omnigraph.store.reading.deletion_files import KeptDeletions
from omnigraph.store.reading.row_addresses import AddressedRows, ascending, without
from omnigraph.store.reading.row_ids import row_ids_of
from omnigraph.store.root import Root
from omnigraph.store.table import ROW_ADDRESS
from omnigraph.store.tables import Pin, Staged, Tables, open_tables
from omnigraph.store.tuning import tuned

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
# The last one is large enough for its deleted rows to be kept as a bitmap.
STARTS = (0, 200, 400, 600, 12_600)


def landed(tables: Tables, staged: Staged | None) -> int:
    assert staged is not None
    return tables.land(staged)


@pytest.fixture
def rows(tmp_path: Path) -> AddressedRows:
    """A table of several fragments; of all but one, scattered rows are deleted."""
    root = Root.parse(str(tmp_path))
    tables = open_tables(root)
    version = tables.create("t", SCHEMA)
    for part, (start, end) in enumerate(pairwise(STARTS)):
        numbers = range(start, end)
        batch = pa.table({"id": [f"k{n}" for n in numbers], "n": list(numbers)}, schema=SCHEMA)
        table = tables.open(Pin("t", version))
        version = landed(tables, tables.stage(table, inserts=batch, uuid=f"add{part}"))
    table = tables.open(Pin("t", version))
    found = table.read(["n"], row_address=True)
    gone = found.filter(pa.array([n % 2 == 1 and n >= STARTS[1] for n in found["n"].to_pylist()]))
    version = landed(tables, tables.stage(table, deletes=gone, uuid="gone"))
    rows = AddressedRows(tables.open(Pin("t", version)), open_backend(root).get)
    files = [each.deletions for each in rows.fragments.values()]
    assert [file and file.rpartition(".")[2] for file in files] == [None, "bin", "bin", "bin"]
    return rows


@pytest.mark.parametrize("share", [1, 4, 1_000])
@pytest.mark.parametrize("fewest", [0, 50, 10_000])
@pytest.mark.parametrize("passed", [0, 1 << 40])
@pytest.mark.parametrize("whole", [0, 1, 1_000])
def test_all_ways_read_the_same_rows(
    rows: AddressedRows, share: int, fewest: int, passed: int, whole: int
) -> None:
    """Whole fragments and files, rows of one fragment, of its file, of all fragments at once."""
    live = rows.table.read(["n"], row_address=True)
    addresses, numbers = (live.column(name).to_numpy() for name in (ROW_ADDRESS, "n"))
    random = np.random.default_rng(1)
    for count in (1, 3, 60, len(addresses)):
        # In any order, and some of them twice.
        chosen = random.choice(len(addresses), count)
        with tuned(
            scanned_share=share,
            scanned_share_deleted=share,
            whole_file_share=whole,
            taken_rows_min=fewest,
            passed_deletions_max=passed,
        ):
            found = rows.take(addresses[chosen], ["n", "id"])
        assert found.column("n").to_pylist() == numbers[chosen].tolist()
        assert found.column("id").to_pylist() == [f"k{n}" for n in numbers[chosen].tolist()]


@pytest.mark.parametrize("fewest", [0, 10_000])
@pytest.mark.parametrize("passed", [0, 1 << 40])
def test_a_deleted_row_is_not_found(rows: AddressedRows, fewest: int, passed: int) -> None:
    fragment = next(each for each in rows.fragments.values() if each.deletions is not None)
    gone = fragment.addresses(rows.deleted(fragment)[:2])
    there = fragment.addresses(np.array([0]))
    with (
        tuned(
            taken_rows_min=fewest,
            scanned_share=1,
            scanned_share_deleted=1,
            passed_deletions_max=passed,
        ),
        pytest.raises(StorageFailure) as caught,
    ):
        rows.take(np.concatenate([there, gone]), ["n"])
    assert caught.value.kind is FailureKind.NOT_FOUND


def test_a_file_is_read_only_if_it_holds_the_columns_of_the_table(
    rows: AddressedRows, tmp_path: Path
) -> None:
    """Columns are told apart by their field ids; after a renaming, a file has the old names."""
    fragment = list(rows.fragments.values())[1]
    names = field_names(rows.table.dataset.lance_schema.fields())
    assert has_plain_file(fragment.handle.metadata, list(names))
    assert not has_plain_file(fragment.handle.metadata, [*names, 7])
    place, offsets = str(tmp_path / fragment.files[0]), np.array([0, 1, 5])
    for is_whole in (False, True):
        found = rows_of_file(place, offsets, ["n"], SCHEMA, names, is_whole=is_whole)
        assert found is not None
        assert found.column("n").to_pylist() == [200, 201, 205]
    renamed = pa.schema([SCHEMA.field("id"), pa.field("m", pa.int64())])
    assert rows_of_file(place, offsets, ["id"], renamed, {0: "id", 1: "m"}) is None
    assert rows_of_file(place, offsets, ["m"], renamed, {0: "id", 1: "m"}) is None


@pytest.mark.parametrize("ids", [[7], [3, 4, 5], [5, 4], [1, 3, 4], list(range(9, 3_000))])
def test_row_ids_are_told_by_their_places(ids: list[int]) -> None:
    found = row_ids_of(RowIdSequence(ids).to_inline_metadata())
    assert found.at(np.arange(len(ids))).tolist() == ids
    assert found.range() == (min(ids), max(ids))
    assert (found.listed is None) == (ids == list(range(ids[0], ids[0] + len(ids))))


def test_what_deletion_files_say_is_kept_up_to_a_number_of_rows() -> None:
    kept = KeptDeletions()
    with tuned(kept_deletions_max=5):
        for name in ("a/1", "a/2", "b/1"):
            kept.keep(name, np.arange(2, dtype=np.uint32))
        assert kept.get("a/1") is None
        assert kept.get("a/2") is not None
        kept.forget("b")
        assert kept.get("b/1") is None
        kept.clear()
        assert kept.get("a/2") is None


def test_sets_of_addresses() -> None:
    values = np.array([5, 1, 5, 9], np.uint64)
    assert ascending(values).tolist() == [1, 5, 9]
    assert ascending(values[:0]).tolist() == []
    left = np.array([1, 4, 6], np.uint32)
    right = np.array([0, 4, 9], np.uint32)
    assert without(left, right).tolist() == [1, 6]
    assert without(right, left).tolist() == [0, 9]
    assert without(left, right[:0]).tolist() == [1, 4, 6]
