"""Structures on disk: used by the next process, ignored when they cannot be, never out of date."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.core.repository import Repository
from omnigraph.exec.dense.disk_cache import BLOCK_BYTES, Arrays, DiskCache
from omnigraph.exec.dense.type_columns import Codec
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.runtime import telemetry
from omnigraph.store.root import Root
from tests.graphs import Delta, companies, make, reopen, write
from tests.unit.exec.dense.dense_graphs import (
    PERSON,
    SCHEMA,
    check_view,
    knows,
    persons,
    view_of,
)
from tests.unit.exec.dense.test_derivation import check_same, warm


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.parse(str(tmp_path / "graph"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def fill(repo: Repository, *names: str) -> None:
    write(
        repo,
        {
            "node:Person": persons(*names, spot=[1.0, 2.0, 3.0]),
            "node:Company": companies("acme"),
            "edge:Knows": knows(("2", names[0], names[1]), ("1", names[1], names[1])),
            "edge:WorksAt": Delta(insert=[{"id": "1", "src": names[0], "dst": "acme"}]),
        },
    )


@pytest.fixture
def repo(root: Root) -> Repository:
    repo = make(root, SCHEMA)
    fill(repo, "b", "a")
    return repo


def look(repo: Repository, folder: Path) -> dict[str, int]:
    """Reads everything once, as a process would, and returns what it cost."""
    views = ViewCache(repo, folder=folder, saved_rows_min=1)
    with telemetry.counting() as counts:
        view = view_of(views, repo)
        warm(view)
    views.flush()
    check_view(view, repo, repo.snapshot())
    check_same(view, view_of(ViewCache(repo), repo))
    return counts.snapshot()


def test_the_next_process_reads_no_table(repo: Repository, root: Root, folder: Path) -> None:
    first = look(repo, folder)
    assert first["table.scan"] > 0
    second = look(reopen(root), folder)
    assert "table.scan" not in second


def test_what_changed_since_is_followed(repo: Repository, root: Root, folder: Path) -> None:
    look(repo, folder)
    write(repo, {"node:Person": persons("aa"), "edge:Knows": knows(("3", "aa", "b"))})
    cost = look(reopen(root), folder)
    assert "dense.entity_index_read" not in cost
    assert "dense.ends_read" not in cost
    assert "dense.column_read" not in cost
    assert cost["dense.ends_derived"] == 2


def test_another_graph_at_the_same_place(repo: Repository, root: Root, folder: Path) -> None:
    look(repo, folder)
    shutil.rmtree(str(root.local_path))
    other = make(root, SCHEMA)
    fill(other, "c", "d")
    look(other, folder)  # compares with the tables


def damage_nothing(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    batch = pa.record_batch({"rows": pa.array([1])})
    with pa.ipc.new_file(str(path), batch.schema) as writer:
        writer.write_batch(batch)


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x04
    path.write_bytes(content)


def flip_last(path: Path) -> None:
    flip(path, -1)


@pytest.mark.parametrize("damage", [damage_nothing, cut, empty, foreign, flip_last])
def test_damaged_files_are_made_anew(
    repo: Repository, root: Root, folder: Path, damage: Callable[[Path], None]
) -> None:
    look(repo, folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        damage(path)
    cost = look(reopen(root), folder)
    assert cost["table.scan"] > 0
    assert "table.scan" not in look(reopen(root), folder)


def count(disk_cache: DiskCache, place: str) -> tuple[Any, dict[str, int]]:
    with telemetry.counting() as counts:
        found = disk_cache.load(place, dict)
    return found, counts.snapshot()


def saved_numbers(folder: Path, place: str = "place/file") -> Path:
    disk_cache = DiskCache(folder)
    disk_cache.save(place, lambda: {"x": pa.array(range(40), pa.int64())})
    disk_cache.flush()
    return folder / f"{place}.arrow"


def test_every_flipped_byte_is_noticed(folder: Path) -> None:
    path = saved_numbers(folder)
    good = path.read_bytes()
    assert count(DiskCache(folder), "place/file")[0] is not None
    for place in range(len(good)):
        flip(path, place)
        found, counts = count(DiskCache(folder), "place/file")
        assert found is None, place
        assert counts == {"dense.disk_cache_damaged": 1, "dense.disk_cache_miss": 1}
        assert not path.exists()
        path.write_bytes(good)


def test_every_shorter_file_is_noticed(folder: Path) -> None:
    path = saved_numbers(folder)
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        assert count(DiskCache(folder), "place/file")[0] is None, length


def test_a_file_under_the_name_of_another_is_noticed(folder: Path) -> None:
    saved_numbers(folder).rename(saved_numbers(folder, "place/other"))
    found, counts = count(DiskCache(folder), "place/other")
    assert found is None
    assert counts["dense.disk_cache_damaged"] == 1


def test_large_files_are_checked_to_their_end(folder: Path) -> None:
    disk_cache = DiskCache(folder)
    values = pa.array(range(BLOCK_BYTES), pa.int64())
    disk_cache.save("large", lambda: {"x": values})
    disk_cache.flush()
    assert disk_cache.load("large", lambda arrays: arrays["x"].equals(values))
    for place in (100, 5 * BLOCK_BYTES, -BLOCK_BYTES, -400):
        flip(folder / "large.arrow", place)
        assert disk_cache.load("large", dict) is None
        disk_cache.save("large", lambda: {"x": values})
        disk_cache.flush()
    assert disk_cache.load("large", lambda arrays: arrays["x"].equals(values))


def test_a_file_of_nothing(folder: Path) -> None:
    disk_cache = DiskCache(folder)
    disk_cache.save("nothing", dict)
    disk_cache.flush()
    assert disk_cache.load("nothing", dict) == {}


def test_flipped_bytes_never_change_an_answer(repo: Repository, root: Root, folder: Path) -> None:
    look(repo, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        flip(path, path.stat().st_size // 2)
    cost = look(reopen(root), folder)  # compares with the tables
    assert cost["dense.disk_cache_damaged"] > 0
    assert "table.scan" not in look(reopen(root), folder)


def test_files_that_belong_to_others(repo: Repository, root: Root, folder: Path) -> None:
    """A file with the arrays of something else, of the wrong length, is not used."""
    look(repo, folder)
    disk_cache = DiskCache(folder)
    for path in folder.rglob("*.arrow"):
        place = str(path.relative_to(folder).with_suffix(""))
        shorter = disk_cache.load(place, _all_but_one)
        assert shorter is not None
        disk_cache.save(place, partial(dict, shorter))
        disk_cache.flush()
    look(reopen(root), folder)


def _all_but_one(arrays: Arrays) -> Arrays:
    return {name: array.slice(1) for name, array in arrays.items()}


def test_a_folder_that_cannot_be_written(repo: Repository, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    look(repo, blocked / "cache")


def test_small_types_are_not_saved(repo: Repository, folder: Path) -> None:
    views = ViewCache(repo, folder=folder)
    warm(view_of(views, repo))
    views.flush()
    assert not folder.exists()


def test_derived_structures_are_saved_with_a_codec(
    repo: Repository, root: Root, folder: Path
) -> None:
    made: list[str] = []

    def build(_: Any) -> list[int]:
        made.append("made")
        return [4, 5]

    codec: Codec[list[int]] = Codec(
        lambda value: {"numbers": pa.array(value, pa.int64())},
        lambda arrays: arrays["numbers"].to_pylist(),
    )

    def ask(graph: Repository) -> list[int]:
        views = ViewCache(graph, folder=folder, saved_rows_min=1)
        found = view_of(views, graph).derived(PERSON, "name", "test", build, len, codec)
        views.flush()
        return found

    assert ask(repo) == ask(reopen(root)) == [4, 5]
    assert made == ["made"]


def test_the_folder_is_bounded(folder: Path) -> None:
    disk_cache = DiskCache(folder, bytes_max=30_000)
    for number in range(5):
        disk_cache.save(f"place/{number}", lambda: {"x": pa.array(range(1_000), pa.int64())})
        disk_cache.flush()
    left = [disk_cache.has(f"place/{number}") for number in range(5)]
    assert left[-1]
    assert sum(left) == 3
