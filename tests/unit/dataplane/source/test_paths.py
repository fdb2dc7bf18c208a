"""What paths, folders, patterns and addresses stand for."""

import os
from pathlib import Path

import pytest

from omnigraph.dataplane.source.paths import find_files
from omnigraph.errors import Code, InvalidInput, NotFound, Unavailable
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Refuse
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.io.streams import open_output

TREE = [
    "a.jsonl",
    "b/c.jsonl",
    "b/d.csv",
    "b/deep/e.jsonl",
    ".hidden.jsonl",
    "_SUCCESS",
    "_temporary/x.jsonl",
    "b/.git/y.jsonl",
    "odd[1].jsonl",
]
SEEN = ["a.jsonl", "b/c.jsonl", "b/d.csv", "b/deep/e.jsonl", "odd[1].jsonl"]


@pytest.fixture(params=["local", "memory"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder with the tree, on disk or among objects."""
    uri = str(tmp_path / "data") if request.param == "local" else f"memory:///{UlidIds().new()}"
    for name in TREE:
        with open_output(f"{uri}/{name}", durable=False) as output:
            output.write(name.encode())
    return uri


def names(text: str, base: str) -> list[str]:
    return [found.name.removeprefix(f"{base}/") for found in find_files(text, {})]


def test_a_file(base: str) -> None:
    (found,) = find_files(f"{base}/b/c.jsonl", {})
    assert found.uri == found.name == f"{base}/b/c.jsonl"
    assert found.size == len("b/c.jsonl")


@pytest.mark.parametrize("end", ["", "/"])
def test_a_folder_without_what_is_hidden(base: str, end: str) -> None:
    assert names(base + end, base) == SEEN


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.jsonl", ["a.jsonl", "odd[1].jsonl"]),
        ("b/*", ["b/c.jsonl", "b/d.csv"]),
        ("*/[cd].*", ["b/c.jsonl", "b/d.csv"]),
        ("b/[!c].csv", ["b/d.csv"]),
        ("b/?.jsonl", ["b/c.jsonl"]),
        ("*", ["a.jsonl", "odd[1].jsonl"]),
        ("*/*", ["b/c.jsonl", "b/d.csv"]),
        ("_temp*/*", ["_temporary/x.jsonl"]),
        ("_[A-Z]*", ["_SUCCESS"]),
        ("**/*.jsonl", ["a.jsonl", "b/c.jsonl", "b/deep/e.jsonl", "odd[1].jsonl"]),
        ("b/**/e.jsonl", ["b/deep/e.jsonl"]),
        ("b/**", ["b/c.jsonl", "b/d.csv", "b/deep/e.jsonl"]),
        ("**/deep/*", ["b/deep/e.jsonl"]),
        ("odd[[]1].jsonl", ["odd[1].jsonl"]),
    ],
)
def test_patterns(base: str, pattern: str, expected: list[str]) -> None:
    assert names(f"{base}/{pattern}", base) == expected


def test_a_name_that_looks_like_a_pattern(base: str) -> None:
    assert names(f"{base}/odd[1].jsonl", base) == ["odd[1].jsonl"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("nothing.jsonl", "there is no such file"),
        ("a.jsonl/below", "there is no such file"),
        ("*.parquet", "nothing matches"),
        ("no/such/**/*.csv", "nothing matches"),
    ],
)
def test_what_is_missing_is_named(base: str, text: str, fault: str) -> None:
    with pytest.raises(NotFound, match=fault) as caught:
        find_files(f"{base}/{text}", {})
    assert caught.value.code is Code.FILE_NOT_FOUND
    assert caught.value.details["path"] == f"{base}/{text}"


def test_a_folder_with_nothing_to_load(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").write_bytes(b"")
    with pytest.raises(NotFound, match="no file in it") as caught:
        find_files(str(tmp_path), {})
    assert caught.value.details["path"] == str(tmp_path)


def test_names_stay_as_the_user_wrote_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    for text in ("in", "in/a.csv", "in/*.csv"):
        (found,) = find_files(text, {})
        assert (found.name, found.uri) == ("in/a.csv", str(tmp_path / "in" / "a.csv"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (found,) = find_files("~/in/a.csv", {})
    assert found.uri == str(tmp_path / "in" / "a.csv")
    (found,) = find_files(f"file://{tmp_path}/in/a.csv", {})
    assert found.uri == found.name == str(tmp_path / "in" / "a.csv")


def test_links_are_followed_and_dangling_ones_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"1")
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    (tmp_path / "c.csv").symlink_to(tmp_path / "nothing")
    for text in (str(tmp_path), f"{tmp_path}/*.csv"):
        assert [Path(found.uri).name for found in find_files(text, {})] == ["a.csv", "b.csv"]


def test_a_pipe_has_no_size(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (found,) = find_files(str(tmp_path / "pipe"), {})
    assert found.size is None


def test_unknown_schemes() -> None:
    with pytest.raises(InvalidInput, match="scheme"):
        find_files("gs://bucket/a.jsonl", {})


def test_storage_that_fails_is_unavailable() -> None:
    with (
        failpoints.armed(dict.fromkeys(StorageCall, Refuse())),
        pytest.raises(Unavailable),
    ):
        find_files("memory:///some/a.jsonl", {})


def test_a_disk_that_fails_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object, **_: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("omnigraph.dataplane.source.paths.os.stat", refuse)
    with pytest.raises(Unavailable, match="Permission denied"):
        find_files(str(tmp_path / "a.jsonl"), {})
