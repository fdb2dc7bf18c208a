"""Index files whose folder carries their checksum: a damaged index is not used, and said to be."""

import logging
import shutil
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.store import tuning
from omnigraph.store.integrity import index_checksums
from omnigraph.store.root import Root
from omnigraph.store.tables import (
    Btree,
    Fts,
    IndexSpec,
    Pin,
    Table,
    Tables,
    Vector,
    open_tables,
)
from omnigraph.types import Metric

VECTORS = pa.FixedSizeListArray.from_arrays(
    pa.array([float(n) for n in range(40)], pa.float32()), 2
)
ROWS = pa.table({"id": [f"k{n}" for n in range(20)], "n": list(range(20)), "v": VECTORS})
BTREE = IndexSpec("id", Btree(), "id_ordered")
WISHES = (BTREE, IndexSpec("id", Fts(), "id_text"), IndexSpec("v", Vector(Metric.L2, 2), "near"))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.parse(str(tmp_path))


@pytest.fixture
def tables(root: Root) -> Tables:
    return open_tables(root, durable=False)


def made(tables: Tables, *specs: IndexSpec) -> Pin:
    pin = Pin("t", tables.create("t", ROWS.schema, rows=ROWS))
    staged = tables.stage_indexes(tables.open(pin), specs, uuid="u")
    assert staged is not None
    return Pin("t", tables.land(staged))


def index_files(root: Root, place: str = "t") -> list[Path]:
    folder = root.local_path / place / "_indices"
    return sorted(path for path in folder.rglob("*") if path.is_file())


def reopened(root: Root, pin: Pin) -> Table:
    return open_tables(root, durable=False).open(pin)


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "omnigraph"]


def answers(table: Table) -> None:
    """Both ways to look a key up give the right row."""
    assert table.locate(["k7", "none"]).column("id").to_pylist() == ["k7"]
    assert table.scan(["n"], filter="id = 'k7'").read_all().column("n").to_pylist() == [7]


def test_a_whole_index_is_used(
    root: Root, tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    pin = made(tables, *WISHES)
    names = {path.parent.name for path in index_files(root)}
    assert len(names) == len(WISHES)
    assert all(index_checksums._expected(name) is not None for name in names)
    table = reopened(root, pin)
    assert "ScalarIndexQuery" in table._scanner(["n"], {"filter": "id = 'k7'"}).explain_plan()
    answers(table)
    assert not table.damaged_indexes()
    assert not warnings(caplog)


def test_every_flipped_byte_is_noticed(root: Root, tables: Tables) -> None:
    pin = made(tables, *WISHES)
    for path in index_files(root):
        good = path.read_bytes()
        for place in range(0, len(good), 7):
            path.write_bytes(good[:place] + bytes([good[place] ^ 0x80]) + good[place + 1 :])
            assert len(reopened(root, pin).damaged_segments()) == 1, (path.name, place)
        path.write_bytes(good)


@pytest.mark.parametrize("harm", ["gone", "empty", "cut", "flipped", "one more", "folder gone"])
def test_a_damaged_index_is_not_used(
    root: Root, tables: Tables, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    pin = made(tables, BTREE)
    path = index_files(root)[-1]
    good = path.read_bytes()
    match harm:
        case "gone":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(good[:-1])
        case "flipped":
            path.write_bytes(bytes([good[0] ^ 1]) + good[1:])
        case "one more":
            path.with_name("foreign").write_bytes(b"foreign")
        case _:
            shutil.rmtree(path.parent)
    table = reopened(root, pin)
    answers(table)
    assert table.damaged_indexes() == {"id_ordered"}
    (record,) = warnings(caplog)
    assert record.levelno == logging.WARNING
    assert path.parent.name in record.getMessage()
    assert "ensure_indices" in record.getMessage()


def test_two_indexes_that_are_swapped_are_not_used(root: Root, tables: Tables) -> None:
    pin = made(tables, BTREE, IndexSpec("n", Btree(), "n_ordered"))
    one, other = [path for path in index_files(root) if path.name == "page_data.lance"]
    good = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(good)
    table = reopened(root, pin)
    answers(table)
    assert table.scan(["id"], filter="n > 17").read_all().num_rows == 2
    assert table.damaged_indexes() == {"id_ordered", "n_ordered"}


def test_only_indexes_that_may_be_used_are_compared(root: Root, tables: Tables) -> None:
    pin = made(tables, BTREE, IndexSpec("n", Btree(), "n_ordered"))
    table = reopened(root, pin)
    table.read(["id"])
    assert not table._checksums or not table._checksums.indexes._sound
    table.read(["id"], filter="n = 3")
    assert table._checksums
    assert len(table._checksums.indexes._sound) == 1


def test_a_fork_knows_the_damage_of_the_index_it_shares(root: Root, tables: Tables) -> None:
    pin = made(tables, BTREE)
    tables.fork("t", "b", pin)
    fork = Pin("t", tables.head("t", "b"), "b")
    answers(reopened(root, fork))
    index_files(root)[0].write_bytes(b"")
    table = reopened(root, fork)
    answers(table)
    assert table.damaged_indexes() == {"id_ordered"}


def test_an_index_of_others_that_cannot_be_read_is_not_used(
    root: Root, tables: Tables, caplog: pytest.LogCaptureFixture
) -> None:
    """It has no checksum; a lookup that fails is done again without it."""
    tables.create("t", ROWS.schema, rows=ROWS)
    lance.dataset(str(root.local_path / "t")).create_scalar_index("id", "BTREE", name="id_ordered")
    pin = Pin("t", tables.head("t"))
    assert not reopened(root, pin).damaged_indexes()
    for path in index_files(root):
        path.write_bytes(b"no index")
    table = reopened(root, pin)
    answers(table)
    assert table.damaged_indexes() == {"id_ordered"}
    assert len(warnings(caplog)) == 1


def test_of_a_large_file_size_and_end_are_compared(
    root: Root, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning.active, "whole_index_bytes_max", 64)
    monkeypatch.setattr(tuning.active, "compared_block_bytes", 32)
    pin = made(tables, BTREE)
    path = index_files(root)[0]
    good = path.read_bytes()
    for harmed, is_noticed in (
        (good[:-1] + bytes([good[-1] ^ 1]), True),
        (good[1:], True),
        (good, False),
    ):
        path.write_bytes(harmed)
        assert bool(reopened(root, pin).damaged_segments()) == is_noticed
