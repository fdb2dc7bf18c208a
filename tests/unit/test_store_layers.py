"""Roots, failures, and the wrappers around one object store."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.errors import Code, InvalidInput
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Crash, LostReply, Refuse
from omnigraph.store.failures import (
    FailureKind,
    StorageFailure,
    lance_errors,
    object_errors,
)
from omnigraph.store.io.objects import open_objects
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.root import Root
from omnigraph.store.tables import open_tables
from tests.object_layers import CountingObjects, FaultyObjects

# ---------------------------------------------------------------- roots


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("/tmp/g", "/tmp/g"),
        ("/tmp/x/../g/", "/tmp/g"),
        ("file:///tmp/a%20b", "/tmp/a b"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a//b/", "s3://bucket/a/b"),
        ("memory:///x", "memory:///x"),
    ],
)
def test_a_root_is_spelled_in_one_way(text: str, uri: str) -> None:
    assert Root.parse(text).uri == uri


@pytest.mark.parametrize(
    "text",
    ["", "a\0b", "gs://b/x", "s3://", "s3:///x", "s3://b/../x", "memory://x", "memory:///"],
)
def test_a_bad_root_is_invalid_input(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Root.parse(text)
    assert caught.value.code is Code.INPUT_INVALID


def test_a_relative_path_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    root = Root.parse("g")
    assert root.is_local
    assert root.local_path == tmp_path / "g"
    assert root.join("nodes/1") == f"{tmp_path}/g/nodes/1"


def test_the_parts_of_a_bucket_root() -> None:
    root = Root.parse("s3://b/x/y", {"AWS_Region": "eu", "allow_http": "true"})
    assert (root.bucket, root.prefix, root.is_local) == ("b", "x/y", False)
    assert root.s3_config() == {"aws_region": "eu"}
    assert root.client_options() == {"allow_http": True}
    with pytest.raises(ValueError, match="not a local path"):
        _ = root.local_path


def test_secrets_are_not_shown_and_travel() -> None:
    root = Root.parse("s3://b", {"aws_secret_access_key": "hush"})
    assert "hush" not in repr(root)
    copy: Root = pickle.loads(pickle.dumps(root))
    assert copy == root
    assert copy.storage_options["aws_secret_access_key"] == "hush"


def test_tables_do_not_live_in_memory() -> None:
    with pytest.raises(InvalidInput):
        open_tables(Root.parse("memory:///x"))


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("kind", FailureKind)
def test_failures_pickle_and_know_their_effect(kind: FailureKind) -> None:
    failure = StorageFailure(kind, "table.commit", "nodes/1", "why")
    copy: StorageFailure = pickle.loads(pickle.dumps(failure))
    assert (copy.kind, copy.verb, copy.place, str(copy)) == (
        kind,
        "table.commit",
        "nodes/1",
        str(failure),
    )
    unclear = {FailureKind.UNAVAILABLE, FailureKind.CORRUPT, FailureKind.UNKNOWN}
    assert copy.effect_free is (kind not in unclear)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("Too many concurrent writers. Attempted 0 retries."), FailureKind.CONFLICT),
        (OSError("Dataset already exists: x"), FailureKind.EXISTS),
        (ValueError("Dataset at path x was not found"), FailureKind.NOT_FOUND),
        (ValueError("Dataset at path timed out/x was not found"), FailureKind.NOT_FOUND),
        (OSError("LanceError(IO): error sending request for url"), FailureKind.UNAVAILABLE),
        (OSError("something else"), FailureKind.UNKNOWN),
        (ValueError("something else"), FailureKind.INVALID),
        (ValueError("External error: something else"), FailureKind.UNKNOWN),
    ],
    ids=str,
)
def test_lance_errors_are_judged_by_evidence(error: Exception, kind: FailureKind) -> None:
    with pytest.raises(StorageFailure) as caught, lance_errors("table.commit", "t"):
        raise error
    assert caught.value.kind is kind
    assert caught.value.__cause__ is error


def test_a_lack_of_memory_is_no_failure_of_storage() -> None:
    with pytest.raises(MemoryError), lance_errors("table.scan", "t"):
        raise MemoryError


def test_an_interrupt_that_lance_met_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), lance_errors("table.scan", "t"):
        raise pa.ArrowInvalid("External error: KeyboardInterrupt: ")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError("x"), FailureKind.NOT_FOUND),
        (FileExistsError("x"), FailureKind.EXISTS),
        (IsADirectoryError("x"), FailureKind.INVALID),
        (OSError("Connection refused"), FailureKind.UNAVAILABLE),
        (OSError("a message that says not found"), FailureKind.UNKNOWN),
    ],
    ids=str,
)
def test_object_errors_are_judged_by_evidence(error: Exception, kind: FailureKind) -> None:
    with pytest.raises(StorageFailure) as caught, object_errors("object.put", "x"):
        raise error
    assert caught.value.kind is kind


def test_an_unreachable_server_is_unavailable() -> None:
    nowhere = {"aws_endpoint": "http://127.0.0.1:9", "allow_http": "true", "aws_region": "x"}
    secrets = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    objects = open_objects(Root.parse("s3://bucket/x", nowhere | secrets))
    with pytest.raises(StorageFailure) as caught:
        objects.put_new("x", b"")
    assert caught.value.kind is FailureKind.UNAVAILABLE


# ---------------------------------------------------------------- the one point


def test_the_nth_call_counts_over_objects_and_tables() -> None:
    plan = dict.fromkeys(StorageCall, Refuse())
    with failpoints.armed(plan, nth=2) as armed:
        storage_call(StorageCall.OBJECT_GET, "x", lambda: None)
        with pytest.raises(StorageFailure):
            storage_call(StorageCall.TABLE_OPEN, "t", lambda: None)
    assert armed.fired is StorageCall.TABLE_OPEN


# ---------------------------------------------------------------- wrappers


def test_counting_objects_count() -> None:
    objects = CountingObjects(open_objects(Root.parse("memory:///counting")))
    objects.put_new("a", b"1")
    objects.get("a")
    objects.get("a")
    objects.list("")
    objects.put("a", b"2")
    assert objects.exists("a")
    objects.delete("a")
    assert objects.calls == {
        "object.delete": 1,
        "object.exists": 1,
        "object.get": 2,
        "object.list": 1,
        "object.put": 1,
        "object.put_new": 1,
    }


@pytest.mark.parametrize(
    ("fault", "there"), [(Refuse(), False), (LostReply(), True)], ids=["refuse", "lost reply"]
)
def test_the_nth_call_to_a_faulty_store_fails(
    fault: Refuse | LostReply, there: bool, tmp_path: Path
) -> None:
    inner = open_objects(Root.parse(str(tmp_path)))
    faulty = FaultyObjects(inner, fault, nth=2)
    faulty.put_new("a", b"1")
    with pytest.raises(StorageFailure) as caught:
        faulty.put_new("b", b"2")
    assert caught.value.kind is FailureKind.UNAVAILABLE
    assert faulty.fired
    assert inner.exists("b") is there
    faulty.put_new("c", b"3")
    with pytest.raises(ValueError, match="counted from 1"):
        FaultyObjects(inner, Crash(), nth=0)


def test_a_crash_while_putting_leaves_no_object_and_no_trace_in_listings(tmp_path: Path) -> None:
    (tmp_path / ".og-tmp-left").write_bytes(b"half")
    objects = open_objects(Root.parse(str(tmp_path)))
    assert objects.list("") == []
    objects.put_new("x", b"")
    assert [info.path for info in objects.list("")] == ["x"]
