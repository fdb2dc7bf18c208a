"""Data files whose names carry their checksum: damage is told before Lance reads a byte."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.store import tuning
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.integrity import file_checksums
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, Table, Tables, open_tables

ROWS = pa.table({"id": ["a", "b"], "n": pa.array([1, 2], pa.int64())})
MORE = pa.table({"id": ["c"], "n": pa.array([3], pa.int64())})


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.parse(str(tmp_path))


@pytest.fixture
def tables(root: Root) -> Tables:
    return open_tables(root, durable=False)


def data_files(root: Root, place: str = "t") -> list[Path]:
    return sorted((root.local_path / place / "data").glob("*.lance"))


def append(tables: Tables, pin: Pin, rows: pa.Table = MORE) -> Pin:
    staged = tables.stage(tables.open(pin), inserts=rows, uuid=f"u{pin.version}")
    assert staged is not None
    return Pin(pin.path, tables.land(staged), pin.branch)


def made(tables: Tables) -> Pin:
    return append(tables, Pin("t", tables.create("t", ROWS.schema, rows=ROWS)))


def flips(path: Path, mask: int = 0x80) -> Iterator[int]:
    """Flip each byte in turn; whole again afterwards."""
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ mask]) + good[place + 1 :])
        yield place
    path.write_bytes(good)


def reopened(root: Root, pin: Pin) -> Table:
    return open_tables(root, durable=False).open(pin)


READS: dict[str, Callable[[Table], object]] = {
    "read": lambda table: table.read(["id"]),
    "scan": lambda table: table.scan(["id"]).read_all(),
    "locate": lambda table: table.locate(["c"]),
    "take": lambda table: table.take([0], ["id"]),
    "new fragments": lambda table: table.scan_new_fragments([0], ["id"]),
}


def test_names_carry_checksums(root: Root, tables: Tables) -> None:
    pin = made(tables)
    assert len(data_files(root)) == 2
    assert all(file_checksums._CHECKSUM_IN_NAME.search(path.name) for path in data_files(root))
    assert reopened(root, pin).read(["n"]).column("n").to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_told(root: Root, tables: Tables, mask: int) -> None:
    pin = made(tables)
    path = data_files(root)[0]
    for place in flips(path, mask):
        with pytest.raises(StorageFailure) as caught:
            reopened(root, pin).read(["n"])
        assert caught.value.kind is FailureKind.CORRUPT, place
        assert caught.value.place == f"t/data/{path.name}"


@pytest.mark.parametrize("way", READS)
def test_every_way_of_reading_looks(root: Root, tables: Tables, way: str) -> None:
    pin = made(tables)
    for path in data_files(root):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StorageFailure) as caught:
        READS[way](reopened(root, pin))
    assert caught.value.kind is FailureKind.CORRUPT


def test_the_files_of_a_fork_and_of_its_trunk(root: Root, tables: Tables) -> None:
    pin = made(tables)
    tables.fork("t", "side", pin)
    fork = append(tables, Pin("t", tables.head("t", "side"), "side"))
    assert reopened(root, fork).row_count == 4
    for path in [*data_files(root), *data_files(root, "t/tree/side")]:
        good = path.read_bytes()
        path.write_bytes(b"!" + good[1:])
        with pytest.raises(StorageFailure) as caught:
            reopened(root, fork).read(["id"])
        assert caught.value.place == path.relative_to(root.local_path).as_posix()
        path.write_bytes(good)
    assert reopened(root, fork).read(["id"]).num_rows == 4


def test_rewritten_and_replaced_files_have_checksums_in_their_names(
    root: Root, tables: Tables
) -> None:
    pin = made(tables)
    table = tables.open(pin)
    receipt = tables.maintenance.rewrite(table, table.fragment_ids(), target_rows=100)
    assert all(file_checksums._CHECKSUM_IN_NAME.search(name) for name in receipt.files)
    staged = tables.stage_overwrite(table, ROWS, uuid="over")
    assert all(file_checksums._CHECKSUM_IN_NAME.search(name) for name in staged.files)
    assert reopened(root, Pin("t", tables.land(staged))).read(["n"]).num_rows == 2


def test_a_name_of_somebody_else_is_believed_and_its_footer_checked(
    root: Root, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning.active, "checksum_file_bytes_max", 0)
    pin = made(tables)
    path = data_files(root)[0]
    assert not file_checksums._CHECKSUM_IN_NAME.search(path.name)
    assert reopened(root, pin).read(["n"]).num_rows == 3
    good = path.read_bytes()
    # The number of global buffers: Lance asks for memory for as many as it says.
    path.write_bytes(good[:-13] + b"\x80" + good[-12:])
    with pytest.raises(StorageFailure, match="promises more") as caught:
        reopened(root, pin).read(["n"])
    assert caught.value.kind is FailureKind.CORRUPT


def test_of_a_larger_file_reading_checks_the_footer_and_verification_the_content(
    root: Root, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning.active, "compared_bytes_max", 10)
    pin = made(tables)
    path = data_files(root)[0]
    assert file_checksums.damage_of_file(str(path)) is None
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    assert reopened(root, pin).read(["n"]).num_rows == 3
    reason = file_checksums.damage_of_file(str(path))
    assert reason == "its content does not have the checksum that its name says"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StorageFailure, match="does not end as a data file does"):
        reopened(root, pin).read(["n"])


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 4_000])
def test_what_is_no_data_file(
    root: Root, tables: Tables, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(tuning.active, "checksum_file_bytes_max", 0)
    pin = made(tables)
    data_files(root)[0].write_bytes(content)
    with pytest.raises(StorageFailure) as caught:
        reopened(root, pin).read(["n"])
    assert caught.value.kind is FailureKind.CORRUPT


def test_deletions_have_checksums_in_their_names(root: Root, tables: Tables) -> None:
    pin = made(tables)
    table = tables.open(pin)
    staged = tables.stage(table, deletes=table.locate(["a"]), uuid="less")
    assert staged is not None
    less = Pin("t", tables.land(staged))
    assert reopened(root, less).read(["id"]).column("id").to_pylist() == ["b", "c"]
    [path] = (root.local_path / "t" / "_deletions").iterdir()
    assert staged.files == (str(path),)
    for place in flips(path):
        with pytest.raises(StorageFailure) as caught:
            reopened(root, less).read(["id"])
        assert caught.value.kind is FailureKind.CORRUPT, place
        assert caught.value.place == f"t/_deletions/{path.name}"
    again = reopened(root, less)
    assert again.read(["id"]).num_rows == 2


def test_damaged_deletions_are_not_written_again(root: Root, tables: Tables) -> None:
    table = tables.open(made(tables))
    staged = tables.stage(table, deletes=table.locate(["a"]), uuid="less")
    assert staged is not None
    less = Pin("t", tables.land(staged))
    addresses = tables.open(less).locate(["b"])
    [path] = (root.local_path / "t" / "_deletions").iterdir()
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    fresh = open_tables(root, durable=False)
    with pytest.raises(StorageFailure) as caught:
        fresh.stage(fresh.open(less), deletes=addresses, uuid="none")
    assert caught.value.kind is FailureKind.CORRUPT


def test_a_file_is_looked_at_once(
    root: Root, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = made(tables)
    looked: list[str] = []
    whole = file_checksums.damage_of_file

    def noted(path: str, bytes_max: int | None = None) -> str | None:
        looked.append(path)
        return whole(path, bytes_max)

    monkeypatch.setattr(file_checksums, "damage_of_file", noted)
    fresh = open_tables(root, durable=False)
    for _ in range(3):
        fresh.open(pin).read(["n"])
    newer = append(fresh, pin)
    fresh.open(newer).read(["n"])
    assert len(looked) == len(set(looked)) == 3
