"""Version files carry the checksum of themselves; Lance reads them as ever."""

import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.integrity.version_checksums import add_checksum, damage_of
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, Tables, open_tables

ROWS = pa.table({"id": ["a", "b"], "n": pa.array([1, 2], pa.int64())})


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.parse(str(tmp_path))


@pytest.fixture
def tables(root: Root) -> Tables:
    return open_tables(root, durable=False)


def made(tables: Tables) -> Pin:
    pin = Pin("t", tables.create("t", ROWS.schema, rows=ROWS))
    staged = tables.stage(tables.open(pin), inserts=ROWS, uuid="more")
    assert staged is not None
    return Pin("t", tables.land(staged))


def version_files(root: Root, place: str = "t") -> list[Path]:
    return sorted((root.local_path / place / "_versions").glob("*.manifest"))


def flipped(content: bytes, place: int, mask: int) -> bytes:
    return content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :]


def read(root: Root, pin: Pin) -> list[int] | FailureKind:
    try:
        found: list[int] = (
            open_tables(root, durable=False).open(pin).read(["n"]).column("n").to_pylist()
        )
    except StorageFailure as failure:
        return failure.kind
    return found


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_told(root: Root, tables: Tables, mask: int) -> None:
    """Except where it takes away the sign that there is a checksum: that changes nothing else."""
    pin = made(tables)
    path = version_files(root)[0]
    good = path.read_bytes()
    signs = range(len(good) - 23, len(good) - 20)
    for place in range(len(good)):
        path.write_bytes(flipped(good, place, mask))
        outcome = read(root, pin)
        assert outcome == FailureKind.CORRUPT or (place in signs and outcome == [1, 2, 1, 2])


def test_the_newest_version_is_checked_however_it_is_found(root: Root, tables: Tables) -> None:
    made(tables)
    folder = root.local_path / "t" / "_versions"
    path = version_files(root)[0]
    path.write_bytes(flipped(path.read_bytes(), 5, 0x01))
    for note in folder.glob("*.json"):
        note.unlink()
    with pytest.raises(StorageFailure) as caught:
        open_tables(root, durable=False).head("t")
    assert caught.value.kind is FailureKind.CORRUPT


def test_every_version_has_one(root: Root, tables: Tables) -> None:
    pin = made(tables)
    tables.fork("t", "side", pin)
    for path in [*version_files(root), *version_files(root, "t/tree/side")]:
        assert add_checksum(path) is None  # it has one
        assert damage_of(path) is None
        good = path.read_bytes()
        path.write_bytes(flipped(good, 0, 0x01))
        assert damage_of(path) is not None
        path.write_bytes(good)


def test_others_read_and_write_the_table(root: Root, tables: Tables) -> None:
    pin = made(tables)
    place = root.join("t")
    assert lance.dataset(place).count_rows() == 4
    lance.write_dataset(ROWS, place, mode="append")
    theirs = version_files(root)[0]
    assert damage_of(theirs) is None
    fresh = open_tables(root, durable=False)
    assert fresh.open(Pin("t", pin.version + 1)).row_count == 6


def test_a_file_that_is_laid_out_otherwise_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "v"
    for content in (b"", b"short", os.urandom(100), bytes(100)):
        path.write_bytes(content)
        assert add_checksum(path) is None
        assert path.read_bytes() == content
        assert damage_of(path) is None
    assert damage_of(tmp_path / "none") is None
