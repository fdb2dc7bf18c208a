"""One suite for streams on every kind of storage: memory, local disk, S3."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.runtime import failpoints, telemetry
from omnigraph.runtime.failpoints import LostReply, Refuse
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.io.streams import (
    Output,
    StreamInfo,
    delete_stream,
    exists,
    list_inputs,
    open_input,
    open_output,
    stream_size,
)
from omnigraph.store.root import Root
from tests.conformance.conftest import fresh_root

# More than one part of an upload.
LARGE = bytes(range(256)) * (40 << 12)


def put(root: Root, path: str, data: bytes) -> str:
    uri = root.join(path)
    with open_output(uri, root.storage_options, durable=False) as output:
        output.write(data)
    return uri


def content(root: Root, path: str) -> bytes:
    with open_input(root.join(path), root.storage_options) as file:
        return bytes(file.read())


def write_and_stop(output: Output) -> None:
    output.write(LARGE)
    raise RuntimeError("stop")


def names(root: Root) -> list[str]:
    found = list_inputs(root.uri, root.storage_options)
    return [info.uri.removeprefix(f"{root.uri}/") for info in found]


@pytest.mark.parametrize("data", [b"", b"one", LARGE], ids=["empty", "small", "40 MB"])
def test_what_is_written_can_be_read(any_root: Root, data: bytes) -> None:
    uri = put(any_root, "in/a.bin", data)
    assert content(any_root, "in/a.bin") == data
    assert stream_size(uri, any_root.storage_options) == len(data)
    assert exists(uri, any_root.storage_options)


def test_reading_seeks(any_root: Root) -> None:
    uri = put(any_root, "a", b"0123456789")
    with open_input(uri, any_root.storage_options) as file:
        assert file.size() == 10
        assert file.seek(4) == 4
        assert bytes(file.read(3)) == b"456"
        assert file.tell() == 7
        assert bytes(file.read_buffer(100)) == b"789"
        assert bytes(file.read(1)) == b""
        assert file.seek(-2, 2) == 8
        target = bytearray(5)
        assert file.readinto(target) == 2
        assert bytes(target) == b"89\0\0\0"


def test_a_known_size_saves_a_question(any_root: Root) -> None:
    uri = put(any_root, "a", b"0123456789")
    with telemetry.counting() as counts, open_input(uri, any_root.storage_options, size=10) as file:
        assert bytes(file.read(4)) == b"0123"
    assert counts.snapshot()["object.get"] == 1


def test_parquet_goes_through(any_root: Root) -> None:
    uri = any_root.join("a.parquet")
    rows = pa.table({"number": pa.array(range(100_000)), "text": [str(n) for n in range(100_000)]})
    with open_output(uri, any_root.storage_options, durable=False) as output:
        pq.write_table(rows, output, row_group_size=30_000)
        assert output.tell() > 0
    with open_input(uri, any_root.storage_options) as file:
        read = pq.ParquetFile(file)
        assert read.num_row_groups == 4
        assert read.read_row_group(3).equals(rows.slice(90_000))


def test_anything_with_a_buffer_can_be_written(any_root: Root) -> None:
    pieces = [b"a", bytearray(b"b"), memoryview(b"c"), pa.py_buffer(b"d"), np.array([101], "u2")]
    uri = any_root.join("a")
    with open_output(uri, any_root.storage_options, durable=False) as output:
        assert [output.write(piece) for piece in pieces] == [1, 1, 1, 1, 2]
    assert content(any_root, "a") == b"abcde\0"


def test_failed_writing_leaves_what_was_there(any_root: Root) -> None:
    put(any_root, "a", b"old")
    for path in ("a", "b"):
        with (
            pytest.raises(RuntimeError, match="stop"),
            open_output(any_root.join(path), any_root.storage_options) as output,
        ):
            write_and_stop(output)
    assert names(any_root) == ["a"]
    assert content(any_root, "a") == b"old"


def test_nothing_is_seen_before_the_end(any_root: Root) -> None:
    with open_output(any_root.join("a"), any_root.storage_options) as output:
        output.write(LARGE)
        assert names(any_root) == []
        assert not exists(any_root.join("a"), any_root.storage_options)
        output.close()
        output.flush()
        before = output.closed
        output.write(b"more")
    assert (before, output.closed) == (False, True)
    assert content(any_root, "a") == LARGE + b"more"


def test_writing_replaces(any_root: Root) -> None:
    put(any_root, "a", LARGE)
    put(any_root, "a", b"new")
    assert content(any_root, "a") == b"new"


def test_listing_is_recursive_and_sorted(any_root: Root) -> None:
    for path in ("d/b", "d/a/z", "d/a.x", "dd/c", "e"):
        put(any_root, path, b"12")
    assert names(any_root) == ["d/a.x", "d/a/z", "d/b", "dd/c", "e"]
    found = list_inputs(any_root.join("d/"), any_root.storage_options)
    assert found[0] == StreamInfo(any_root.join("d/a.x"), 2)
    assert len(found) == 3
    assert list_inputs(any_root.join("no/such"), any_root.storage_options) == ()


@pytest.mark.parametrize("name", ["a b", "ü", "100%25", "a#1", "a?b", "a+b", "a=b&c", "[x]*"])
def test_odd_names_survive(any_root: Root, name: str) -> None:
    put(any_root, f"odd/{name}", b"x")
    assert names(any_root) == [f"odd/{name}"]
    assert content(any_root, f"odd/{name}") == b"x"


def test_what_is_missing_is_not_found(any_root: Root) -> None:
    uri = any_root.join("no/such")
    for ask in (open_input, stream_size):
        with pytest.raises(StorageFailure) as caught:
            ask(uri, any_root.storage_options)
        assert caught.value.kind is FailureKind.NOT_FOUND
        assert caught.value.place == uri
    assert not exists(uri, any_root.storage_options)
    delete_stream(uri, any_root.storage_options)


def test_deleting(any_root: Root) -> None:
    uri = put(any_root, "a", b"1")
    delete_stream(uri, any_root.storage_options)
    assert not exists(uri, any_root.storage_options)
    assert names(any_root) == []


def test_a_refused_end_leaves_nothing(any_root: Root) -> None:
    with (
        failpoints.armed({StorageCall.OBJECT_PUT: Refuse()}),
        pytest.raises(StorageFailure) as caught,
        open_output(any_root.join("a"), any_root.storage_options) as output,
    ):
        output.write(LARGE)
    assert caught.value.kind is FailureKind.UNAVAILABLE
    assert names(any_root) == []


def test_a_lost_reply_is_told_and_leaves_the_whole(any_root: Root) -> None:
    with (
        failpoints.armed({StorageCall.OBJECT_PUT: LostReply()}),
        pytest.raises(StorageFailure),
        open_output(any_root.join("a"), any_root.storage_options, durable=False) as output,
    ):
        output.write(b"whole")
    assert content(any_root, "a") == b"whole"


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_a_failed_read_keeps_its_name(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Arrow hands on what the reader raised, even from inside of its Parquet reader."""
    root = fresh_root(kind, request, tmp_path)
    uri = root.join("a.parquet")
    with open_output(uri, root.storage_options) as output:
        pq.write_table(pa.table({"number": range(1_000_000)}), output)
    size = stream_size(uri, root.storage_options)
    for nth in (1, 2):
        with (
            failpoints.armed({StorageCall.OBJECT_GET: Refuse()}, nth=nth),
            pytest.raises(StorageFailure) as caught,
        ):
            pq.ParquetFile(open_input(uri, root.storage_options, size=size)).read()
        assert caught.value.kind is FailureKind.UNAVAILABLE
