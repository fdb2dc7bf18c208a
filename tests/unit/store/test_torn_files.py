"""What a power cut leaves of writers that name files too early is stepped over and set aside."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.forks.fork_records import reference_path
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, Tables, open_tables
from omnigraph.store.versions.files import manifest_name

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False)])
Tear = Callable[[Path], None]


def empty(path: Path) -> None:
    path.write_bytes(b"")


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def blank(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


every_tear = pytest.mark.parametrize("tear", [empty, shorten, blank], ids=lambda t: t.__name__)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "graph"


@pytest.fixture
def tables(folder: Path) -> Tables:
    tables = fresh(folder)
    tables.create("t", SCHEMA, rows=rows("a"))
    return tables


def fresh(folder: Path) -> Tables:
    return open_tables(Root.parse(str(folder)), durable=True)


def rows(*names: str) -> pa.Table:
    return pa.table({"id": list(names)}, schema=SCHEMA)


def grow(tables: Tables, pin: Pin) -> int:
    staged = tables.stage(tables.open(pin), inserts=rows(f"v{pin.version}"), uuid=f"u{pin.version}")
    assert staged is not None
    return tables.land(staged)


def version_file(folder: Path, version: int, place: str = "t") -> Path:
    return folder / place / "_versions" / manifest_name(version)


def foreign_version(folder: Path) -> Path:
    """A commit of somebody who does not sync."""
    table = lance.dataset(str(folder / "t"))
    table.insert(rows("foreign"))
    return version_file(folder, table.version)


@every_tear
def test_a_torn_head_is_stepped_over_and_nothing_is_written(
    folder: Path, tables: Tables, tear: Tear
) -> None:
    grow(tables, Pin("t", 1))
    file = foreign_version(folder)
    tear(file)
    before = sorted(folder.rglob("*"))
    for reader, known in ((tables, 2), (fresh(folder), None)):
        with telemetry.counting() as counts:
            assert reader.head("t", known=known) == 2
        assert counts.snapshot()["store.torn_version"] == 1
        assert reader.torn_versions("t") == (3,)
        assert reader.open(Pin("t", 2)).row_count == 2
        assert reader.exists("t")
    assert sorted(folder.rglob("*")) == before


@every_tear
def test_a_torn_head_is_set_aside_with_a_record(folder: Path, tables: Tables, tear: Tear) -> None:
    file = foreign_version(folder)
    tear(file)
    left = file.read_bytes()
    assert tables.head("t") == 1
    (taken,) = tables.set_aside_torn_versions("t")
    assert taken.path == f"t/_versions/{manifest_name(2)}"
    assert (folder / taken.kept_as).read_bytes() == left
    assert fresh(folder).quarantine.records() == (taken,)
    assert not file.exists()
    assert fresh(folder).head("t") == 1
    assert tables.torn_versions("t") == ()


@every_tear
def test_a_torn_version_is_not_in_the_way_of_a_landing(
    folder: Path, tables: Tables, tear: Tear
) -> None:
    tear(foreign_version(folder))
    assert grow(tables, Pin("t", 1)) == 2
    assert fresh(folder).open(Pin("t", 2)).read().column("id").to_pylist() == ["a", "v1"]
    assert [taken.path for taken in tables.quarantine.records()] == [
        f"t/_versions/{manifest_name(2)}"
    ]


@every_tear
def test_a_torn_table_is_none_and_can_be_created(folder: Path, tear: Tear) -> None:
    lance.write_dataset(rows("x"), str(folder / "t"))
    tear(version_file(folder, 1))
    tables = fresh(folder)
    assert not tables.exists("t")
    tables.create("t", SCHEMA, rows=rows("a"))
    assert fresh(folder).open(Pin("t", 1)).read().column("id").to_pylist() == ["a"]


def test_a_damaged_head_is_not_stepped_over(folder: Path, tables: Tables) -> None:
    """It is as long as it should be, so it may have been acknowledged."""
    file = foreign_version(folder)
    data = bytearray(file.read_bytes())
    data[-10] ^= 1  # where its manifest begins: far behind its end
    file.write_bytes(data)
    with pytest.raises(StorageFailure):
        fresh(folder).head("t")
    with pytest.raises(StorageFailure):
        grow(tables, Pin("t", 1))
    assert file.read_bytes() == data


def test_only_what_is_newest_is_stepped_over(folder: Path, tables: Tables) -> None:
    grow(tables, Pin("t", 1))
    empty(version_file(folder, 1))
    assert fresh(folder).head("t") == 2
    with pytest.raises(StorageFailure):
        fresh(folder).open(Pin("t", 1))


@every_tear
def test_a_torn_record_of_a_fork_is_no_fork_and_harms_no_other(
    folder: Path, tables: Tables, tear: Tear
) -> None:
    tables.fork("t", "good", Pin("t", 1))
    tables.fork("t", "bad", Pin("t", 1))
    tables.fork("t", "gone", Pin("t", 1))
    record = folder / reference_path("t", "bad")
    tear(record)
    for reader in (tables, fresh(folder)):
        assert reader.fork_names("t") == ("gone", "good")
        assert sorted(reader.forks("t")) == ["gone", "good"]
        assert reader.fork_info("t", "bad") is None
        grow(reader, Pin("t", reader.head("t", "good"), "good"))
    tables.drop_fork("t", "gone")
    assert record.exists()
    (taken,) = tables.set_aside_torn_records("t")
    assert taken.path == reference_path("t", "bad")
    assert not record.exists()
    assert sorted(lance.dataset(str(folder / "t")).branches.list()) == ["good"]


@every_tear
def test_a_fork_can_be_made_where_a_torn_record_is(
    folder: Path, tables: Tables, tear: Tear
) -> None:
    tables.fork("t", "bad", Pin("t", 1))
    tear(folder / reference_path("t", "bad"))
    assert tables.has_files_of_fork("t", "bad")
    shutil.rmtree(folder / "t/tree/bad")
    tables.fork("t", "bad", Pin("t", 1))
    assert tables.open(Pin("t", 1, "bad")).row_count == 1
    assert len(tables.quarantine.records()) == 1


@every_tear
def test_a_record_without_a_version_is_no_fork(folder: Path, tables: Tables, tear: Tear) -> None:
    """Of two files without a sync, the disk may have kept either."""
    tables.fork("t", "good", Pin("t", 1))
    tables.fork("t", "bad", Pin("t", 1))
    tear(version_file(folder, 1, "t/tree/bad"))
    reader = fresh(folder)
    assert reader.fork_names("t") == ("good",)
    assert reader.fork_info("t", "bad") is None
    assert [taken.path for taken in reader.set_aside_torn_records("t")] == [
        reference_path("t", "bad")
    ]
    shutil.rmtree(folder / "t/tree/bad")
    reader.fork("t", "bad", Pin("t", 1))
    assert fresh(folder).fork_names("t") == ("bad", "good")


def test_a_fork_that_lost_its_files_is_not_taken_for_an_unfinished_one(
    folder: Path, tables: Tables
) -> None:
    """Its version was there before its record, so this is no power cut."""
    tables.fork("t", "bad", Pin("t", 1))
    shutil.rmtree(folder / "t/tree/bad")
    reader = fresh(folder)
    assert reader.fork_names("t") == ("bad",)
    assert reader.set_aside_torn_records("t") == ()
    with pytest.raises(StorageFailure):
        reader.head("t", "bad")


def test_a_version_that_took_the_place_of_a_torn_one_is_not_set_aside(
    folder: Path, tables: Tables
) -> None:
    """Two came across it; the slower one must not remove what the faster one put there."""
    empty(foreign_version(folder))
    slow, fast = fresh(folder), fresh(folder)
    assert slow.head("t") == fast.head("t") == 1
    assert grow(fast, Pin("t", 1)) == 2
    assert slow.set_aside_torn_versions("t") == ()
    assert fresh(folder).head("t") == 2
    assert slow.head("t", known=1) == 2
    assert slow.torn_versions("t") == ()


def test_of_many_that_set_a_file_aside_one_does(folder: Path, tables: Tables) -> None:
    empty(foreign_version(folder))
    others = [fresh(folder) for _ in range(6)]
    assert {other.head("t") for other in others} == {1}
    with ThreadPoolExecutor(len(others)) as pool:
        found = list(pool.map(lambda other: other.set_aside_torn_versions("t"), others))
    assert sorted(len(taken) for taken in found) == [0, 0, 0, 0, 0, 1]
    assert len(tables.quarantine.records()) == 1


def test_dropping_a_fork_keeps_those_below_and_beside_it(folder: Path, tables: Tables) -> None:
    for name in ("a", "a/b", "c/d", "e"):
        tables.fork("t", name, Pin("t", 1))
    tables.fork("t", "f", Pin("t", 1, "e"))
    tables.drop_fork("t", "a")
    assert tables.open(Pin("t", 1, "a/b")).row_count == 1
    tables.drop_fork("t", "c/d")
    assert sorted(each.name for each in (folder / "t/tree").iterdir()) == ["a", "e", "f"]
    with pytest.raises(StorageFailure) as caught:
        tables.drop_fork("t", "e")
    assert caught.value.kind is FailureKind.CONFLICT
    tables.drop_fork("t", "f")
    tables.drop_fork("t", "e")
    tables.drop_fork("t", "e")
    assert tables.fork_names("t") == ("a/b",)


@pytest.mark.parametrize("note", [b"", b"{", b"\0" * 13, b'{"version": 99}', b"[1]"])
def test_a_note_of_the_newest_version_may_say_anything(
    folder: Path, tables: Tables, note: bytes
) -> None:
    grow(tables, Pin("t", 1))
    (folder / "t/_versions/latest_version_hint.json").write_bytes(note)
    reader = fresh(folder)
    assert reader.head("t") == 2
    assert grow(reader, Pin("t", 2)) == 3
    shutil.copytree(folder / "t", folder / "copy")
    (folder / "copy/_versions/latest_version_hint.json").write_bytes(note)
    assert fresh(folder).head("copy") == 3


def test_a_fork_that_is_being_dropped_is_gone_and_not_damaged(
    folder: Path, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.fork("t", "draft", Pin("t", 1))
    version = grow(tables, Pin("t", tables.head("t", "draft"), "draft"))
    reader = fresh(folder).open(Pin("t", version, "draft"))
    seen: list[FailureKind] = []
    remove = shutil.rmtree

    def halfway(path: Path, **options: Any) -> None:
        """Remove a folder, its data first, and let somebody read then."""
        if (path / "data").exists():
            remove(path / "data")
            with pytest.raises(StorageFailure) as caught:
                reader.read()
            seen.append(caught.value.kind)
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", halfway)
    tables.drop_fork("t", "draft")
    assert seen == [FailureKind.NOT_FOUND]
