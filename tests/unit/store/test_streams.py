"""Streams of local files: what a directory can do that a bucket cannot."""

import os
import threading
from pathlib import Path

import pytest

from omnigraph.errors import InvalidInput
from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.streams import exists, list_inputs, open_input, open_output, stream_size


def write(path: str | Path, data: bytes, *, durable: bool = False) -> None:
    with open_output(str(path), durable=durable) as output:
        output.write(data)


def test_folders_are_made(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b" / "c.jsonl", b"x")
    assert (tmp_path / "a" / "b" / "c.jsonl").read_bytes() == b"x"
    assert os.listdir(tmp_path / "a" / "b") == ["c.jsonl"]


def test_a_durable_file_is_synced_with_its_name(tmp_path: Path) -> None:
    with telemetry.counting() as counts:
        write(tmp_path / "a", b"x", durable=True)
    assert counts.snapshot()["disk.dirs"] >= 1


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_folder_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StorageFailure) as caught, open_output(str(tmp_path)):
        pass
    assert caught.value.kind is FailureKind.INVALID
    assert os.listdir(tmp_path) == []


def test_a_device_is_written_as_it_is() -> None:
    write("/dev/null", b"x")
    assert not Path("/dev/null").is_file()


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write(pipe, b"through")
    reader.join()
    assert got == [b"through"]
    assert os.listdir(tmp_path) == ["pipe"]


def test_addresses_of_files(tmp_path: Path) -> None:
    write(f"file://{tmp_path}/a%20b", b"x")
    assert (tmp_path / "a b").exists()
    assert exists(f"file://{tmp_path}/a%20b")
    assert stream_size(str(tmp_path / "a b")) == 1


def test_unknown_schemes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="scheme"):
        open_input("gs://bucket/a")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    assert not exists(str(tmp_path))
    assert not exists(str(tmp_path / "f" / "below a file"))
    with pytest.raises(StorageFailure):
        open_input(str(tmp_path))


def test_a_listing_leaves_out_links_to_nothing_and_unfinished_files(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "a").write_bytes(b"12")
    with open_output(str(tmp_path / "b")) as output:
        output.write(b"1")
        assert [info.uri for info in list_inputs(str(tmp_path))] == [str(tmp_path / "a")]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageFailure) as caught:
        write("/dev/full", b"x" * 10)
    assert caught.value.kind is FailureKind.UNAVAILABLE
