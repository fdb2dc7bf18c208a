"""The newest version by Lance's note: found without a listing, and never believed too much."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, Tables, open_tables
from omnigraph.store.versions.files import manifest_name
from omnigraph.store.versions.latest import near_head, noted_head

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False)])
PATH = "nodes/t"
SECOND = 1_000_000_000


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """A table with ten versions."""
    tables = fresh(tmp_path)
    tables.create(PATH, SCHEMA, primary_key="id", rows=rows("a"))
    for number in range(2, 11):
        merge(tables, f"r{number}")
    return tables


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / PATH / "_versions"


def fresh(root: Path) -> Tables:
    return open_tables(Root.parse(str(root)), durable=False)


def rows(*ids: str) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def merge(tables: Tables, row: str, branch: str | None = None) -> int:
    base = Pin(PATH, tables.head(PATH, branch), branch)
    return tables.merge_rows(base, "id", rows(row))


def listed(folder: Path) -> int:
    last = (1 << 64) - 1
    return max(last - int(name.stem) for name in folder.glob("*.manifest"))


def note(folder: Path, content: object) -> None:
    """Leave a note as Lance does: it is the last thing that changes in the folder."""
    draft = folder / "draft"
    draft.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    os.replace(draft, folder / "latest_version_hint.json")


def test_every_way_to_move_a_head_is_noted(tables: Tables, tmp_path: Path, folder: Path) -> None:
    seen = []

    def check(at: Path = folder) -> None:
        assert noted_head(at) == listed(at)
        seen.append(listed(at))

    check()
    base = tables.open(Pin(PATH, 10))
    staged = tables.stage(base, inserts=rows("landed"), uuid="u1")
    assert staged is not None
    tables.land(staged)
    check()
    tables.restore(PATH, None, to_version=10, expected_head=11, uuid="u2")
    check()
    tables.stamp(Pin(PATH, 12), {"x": "y"})
    check()
    merge(tables, "merged")
    check()
    assert seen == [10, 11, 12, 13, 14]
    tables.fork(PATH, "a/b", Pin(PATH, 12))
    branched = tmp_path / PATH / "tree" / "a" / "b" / "_versions"
    check(branched)
    merge(tables, "on the fork", "a/b")
    check(branched)
    assert seen[-2:] == [12, 13]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param({"version": 10}, 10, id="right"),
        pytest.param({"version": 9}, 10, id="late"),
        pytest.param({"version": 5}, 10, id="late by all that is looked at"),
        pytest.param({"version": 4}, None, id="later"),
        pytest.param({"version": 1}, None, id="much later"),
        pytest.param({"version": 11}, None, id="of a version that was lost"),
        pytest.param({"version": -1}, None, id="of nothing"),
        pytest.param({"version": "10"}, None, id="a text"),
        pytest.param({"version": None}, None, id="null"),
        pytest.param({}, None, id="without a version"),
        pytest.param([10], None, id="a list"),
        pytest.param(10, None, id="a number"),
        pytest.param(b"", None, id="empty"),
        pytest.param(b"\x00" * 16, None, id="zeros"),
        pytest.param(b"\xff{", None, id="junk"),
    ],
)
def test_whatever_the_note_says_the_head_is_right(
    tables: Tables, tmp_path: Path, folder: Path, content: object, found: int | None
) -> None:
    note(folder, content)
    assert noted_head(folder) == found
    assert fresh(tmp_path).head(PATH) == tables.head(PATH) == 10
    assert merge(fresh(tmp_path), "next") == 11


def test_without_a_note_the_head_is_right(tables: Tables, tmp_path: Path, folder: Path) -> None:
    (folder / "latest_version_hint.json").unlink()
    assert noted_head(folder) is None
    assert fresh(tmp_path).head(PATH) == tables.head(PATH) == 10


def test_a_missing_table_has_no_note(tmp_path: Path) -> None:
    assert noted_head(tmp_path / "nothing" / "_versions") is None
    assert not fresh(tmp_path).exists("nothing")


def test_a_late_note_is_not_believed_after_a_clean_up(
    tables: Tables, tmp_path: Path, folder: Path
) -> None:
    """Version 3 is kept, as if a fork needed it, and what followed it is gone."""
    note(folder, {"version": 3})
    old = os.stat(folder).st_mtime_ns - 60 * SECOND
    os.utime(folder / "latest_version_hint.json", ns=(old, old))
    for version in (1, 2, 4, 5, 6, 7):
        (folder / manifest_name(version)).unlink()
    assert noted_head(folder) is None
    assert fresh(tmp_path).head(PATH) == 10
    # The next commit leaves a note that can be believed.
    assert merge(tables, "next") == 11
    assert noted_head(folder) == 11


def test_a_note_survives_a_copy_of_the_folder(tables: Tables, tmp_path: Path, folder: Path) -> None:
    shutil.copytree(tmp_path / PATH, tmp_path / "copy")
    assert noted_head(tmp_path / "copy" / "_versions") == tables.head(PATH)


@pytest.mark.parametrize(("known", "found"), [(7, 10), (10, 10), (5, 10), (4, None), (1, None)])
def test_near_a_known_version(known: int, found: int | None) -> None:
    there = {manifest_name(version) for version in range(1, 11)}
    assert near_head(known, there.__contains__) == found
