"""Everything that a write created is synced before the write returns, names included."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.runtime import telemetry
from omnigraph.store.io import durability
from omnigraph.store.io.objects import open_objects
from omnigraph.store.root import Root
from omnigraph.store.tables import (
    Btree,
    Fts,
    IndexSpec,
    Pin,
    Staged,
    Tables,
    Vector,
    blob_field,
    open_tables,
)
from omnigraph.types import Metric

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("e", pa.list_(pa.float32(), 2)),
    ]
)
# Lance takes it for a hint only; a guard test says so.
UNSYNCED = "latest_version_hint.json"


def rows(*ids: str) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0] * len(ids), pa.float32()), 2)
    return pa.table([list(ids), [f"text of {key}" for key in ids], vectors], schema=SCHEMA)


class Watch:
    """The inodes that were synced. A file may get its final name after it was synced."""

    def __init__(self) -> None:
        self.synced: set[int] = set()

    def fsync(self, descriptor: int) -> None:
        self.synced.add(os.fstat(descriptor).st_ino)
        os.fsync(descriptor)


def files(root: Path) -> dict[Path, int]:
    return {
        path: path.stat().st_ino
        for path in root.rglob("*")
        if path.is_file() and path.name != UNSYNCED
    }


def directories(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.is_dir()}


@contextmanager
def everything_synced(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compare a listing before and after with what was synced in between."""
    watch = Watch()
    before, folders = files(root), directories(root)
    with monkeypatch.context() as patch, telemetry.counting() as counts:
        patch.setattr(durability, "os", _Os(watch))
        yield
    created = {path: inode for path, inode in files(root).items() if path not in before}
    missed = [path for path, inode in created.items() if inode not in watch.synced]
    assert [str(path.relative_to(root)) for path in missed] == []
    assert created
    parents = {path.parent for path in created} | {
        folder.parent for folder in directories(root) - folders
    }
    assert [str(p) for p in parents if p.stat().st_ino not in watch.synced] == []
    assert counts.snapshot()["disk.files"] == len(created)


class _Os:
    """The operating system, with an eye on one call."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __getattr__(self, name: str) -> object:
        return self._watch.fsync if name == "fsync" else getattr(os, name)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "graph").mkdir()
    return Root.parse(str(tmp_path / "graph"))


@pytest.fixture
def tables(root: Root) -> Tables:
    return open_tables(root, durable=True)


def landed(tables: Tables, staged: Staged | None) -> int:
    assert staged is not None
    return tables.land(staged)


def inserting(tables: Tables) -> None:
    landed(tables, tables.stage(tables.open(Pin("t", 1)), inserts=rows("c"), uuid="u"))


def changing(tables: Tables) -> None:
    table = tables.open(Pin("t", 1))
    found = table.read(row_id=True, row_address=True)
    updates, deletes = found.slice(0, 1), found.slice(1, 1).select(["_rowaddr"])
    staged = tables.stage(table, inserts=rows("c"), updates=updates, deletes=deletes, uuid="u")
    landed(tables, staged)


def overwriting(tables: Tables) -> None:
    landed(tables, tables.stage_overwrite(tables.open(Pin("t", 1)), rows("x"), uuid="u"))


def indexing(tables: Tables) -> None:
    specs = [
        IndexSpec("id", Btree(), "b"),
        IndexSpec("text", Fts(), "f"),
        IndexSpec("e", Vector(Metric.L2, 2), "v"),
    ]
    landed(tables, tables.stage_indexes(tables.open(Pin("t", 1)), specs, uuid="u"))


def restoring(tables: Tables) -> None:
    tables.restore("t", None, to_version=1, expected_head=1, uuid="u")


def forking(tables: Tables) -> None:
    tables.fork("t", "f/x", Pin("t", 1))


def stamping(tables: Tables) -> None:
    tables.stamp(Pin("t", tables.head("t")), {"k": "v"})


def creating(tables: Tables) -> None:
    tables.create("deep/er/new", SCHEMA, rows=rows("a"))


def creating_blobs(tables: Tables) -> None:
    schema = SCHEMA.append(blob_field("b"))
    blobs = pa.array([b"small", b"x" * 200_000, b"y" * 5_000_000], pa.large_binary())
    tables.create("blobs", schema, rows=rows("a", "b", "c").append_column("b", blobs))


@pytest.mark.parametrize(
    "write",
    [
        creating,
        creating_blobs,
        inserting,
        changing,
        overwriting,
        indexing,
        restoring,
        forking,
        stamping,
    ],
    ids=lambda write: write.__name__,
)
def test_a_write_syncs_all_that_it_created(
    write: Callable[[Tables], None], root: Root, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.create("t", SCHEMA, rows=rows("a", "b"))
    with everything_synced(root.local_path, monkeypatch):
        write(tables)


def test_a_write_on_a_fork_syncs_all_that_it_created(
    root: Root, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.create("t", SCHEMA, rows=rows("a", "b"))
    tables.fork("t", "f/x", Pin("t", 1))
    table = tables.open(Pin("t", 1, "f/x"))
    deletes = table.read(row_address=True).slice(0, 1).select(["_rowaddr"])
    with everything_synced(root.local_path, monkeypatch):
        landed(tables, tables.stage(table, inserts=rows("c"), deletes=deletes, uuid="u"))


def test_a_merge_syncs_all_that_it_created(
    root: Root, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.create("m", SCHEMA, primary_key="id", rows=rows("a", "b"))
    base = Pin("m", 1)
    for key in ("a", "c", "b"):
        with everything_synced(root.local_path, monkeypatch):
            base = Pin("m", tables.merge_rows(base, "id", rows(key)))


def test_an_object_is_synced(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = open_objects(root, durable=True)
    for path in ("__recovery/deep/a.json", "__recovery/deep/b.json"):
        with everything_synced(root.local_path, monkeypatch):
            objects.put_new(path, b"{}")
    with everything_synced(root.local_path, monkeypatch):
        objects.put("_schema.pg", b"")


def test_without_durability_nothing_is_synced(root: Root) -> None:
    tables, objects = open_tables(root, durable=False), open_objects(root, durable=False)
    with telemetry.counting() as counts:
        tables.create("t", SCHEMA, rows=rows("a", "b"))
        changing(tables)
        objects.put_new("x", b"")
        objects.delete("x")
    assert not [name for name in counts.snapshot() if name.startswith("disk.")]


def test_a_warm_landing_syncs_few_directories(root: Root, tables: Tables) -> None:
    """The folder of data and of versions; parents only when they are new."""
    tables.create("t", SCHEMA, rows=rows("a"))
    inserting(tables)
    with telemetry.counting() as counts:
        staged = tables.stage(tables.open(Pin("t", 2)), inserts=rows("z"), uuid="warm")
        landed(tables, staged)
    counted = counts.snapshot()
    assert (counted["disk.files"], counted["disk.dirs"]) == (2, 2)
    assert list((root.local_path / "t" / "_transactions").iterdir()) == []
