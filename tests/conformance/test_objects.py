"""One suite for every object store: memory, local disk, S3."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.runtime import failpoints, telemetry
from omnigraph.runtime.failpoints import LostReply, Refuse
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectStore, open_objects
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root

RACERS = 8


@pytest.fixture
def objects(any_root: Root) -> ObjectStore:
    return open_objects(any_root, durable=True)


def paths(objects: ObjectStore, prefix: str) -> list[str]:
    return [info.path for info in objects.list(prefix)]


def test_what_is_put_can_be_read(objects: ObjectStore) -> None:
    objects.put_new("a/b.json", b"one")
    assert objects.get("a/b.json") == b"one"
    assert objects.exists("a/b.json")


@pytest.mark.parametrize("data", [b"", b"\x00\xff" * 50_000], ids=["empty", "100 kB"])
def test_content_is_bytes_of_any_length(objects: ObjectStore, data: bytes) -> None:
    objects.put("x", data)
    assert objects.get("x") == data
    assert objects.list("")[0].size == len(data)


def test_put_new_refuses_what_is_there_even_with_the_same_content(objects: ObjectStore) -> None:
    objects.put_new("x", b"one")
    for data in (b"one", b"two"):
        with pytest.raises(StorageFailure) as caught:
            objects.put_new("x", data)
        assert caught.value.kind is FailureKind.EXISTS
        assert caught.value.effect_free
    assert objects.get("x") == b"one"


def test_put_replaces(objects: ObjectStore) -> None:
    objects.put("x", b"one")
    objects.put("x", b"two")
    assert objects.get("x") == b"two"


def test_missing_objects_are_not_found(objects: ObjectStore) -> None:
    with pytest.raises(StorageFailure) as caught:
        objects.get("no/such")
    assert caught.value.kind is FailureKind.NOT_FOUND
    assert caught.value.verb == "object.get"
    assert caught.value.place == "no/such"
    assert not objects.exists("no/such")


def test_delete_is_idempotent(objects: ObjectStore) -> None:
    objects.put_new("x", b"one")
    objects.delete("x")
    objects.delete("x")
    assert not objects.exists("x")
    objects.put_new("x", b"two")
    assert objects.get("x") == b"two"


def test_listing_is_recursive_sorted_and_by_whole_segments(objects: ObjectStore) -> None:
    for path in ("r/b", "r/a/z", "r/a.x", "rr/c", "q"):
        objects.put_new(path, path.encode())
    assert paths(objects, "r") == ["r/a.x", "r/a/z", "r/b"]
    assert paths(objects, "r/") == ["r/a.x", "r/a/z", "r/b"]
    assert paths(objects, "r/a") == ["r/a/z"]
    assert paths(objects, "") == ["q", "r/a.x", "r/a/z", "r/b", "rr/c"]
    assert paths(objects, "nothing") == []


def test_children_are_names_of_one_level(objects: ObjectStore) -> None:
    for path in ("a/b/one", "a/b/two", "a/three", "ab/four", "five"):
        objects.put(path, b"x")
    assert objects.children("") == ["a", "ab", "five"]
    assert objects.children("a") == ["b", "three"]
    assert objects.children("no/such") == []


def test_a_listing_tells_size_and_time(objects: ObjectStore) -> None:
    objects.put_new("r/x", b"four")
    objects.put_new("r/y", b"")
    infos = objects.list("r")
    assert [info.size for info in infos] == [4, 0]
    assert all(info.modified_us > 1_600_000_000_000_000 for info in infos)


@pytest.mark.parametrize("path", ["", "/x", "x/", "a//b", "../x", "a/./b", "a\\b", "a\0b"])
def test_strange_paths_are_refused(objects: ObjectStore, path: str) -> None:
    with pytest.raises(StorageFailure) as caught:
        objects.put_new(path, b"")
    assert caught.value.kind is FailureKind.INVALID


@pytest.mark.parametrize("name", ["a b", "ü", "100%", "a#1", "a+b", "a=b&c", ".hidden", "~x"])
def test_odd_names_survive(objects: ObjectStore, name: str) -> None:
    objects.put_new(f"odd/{name}", b"x")
    assert paths(objects, "odd") == [f"odd/{name}"]
    assert objects.get(f"odd/{name}") == b"x"


def test_of_racing_creators_exactly_one_wins(objects: ObjectStore) -> None:
    for round_ in range(3):
        barrier = threading.Barrier(RACERS)

        def create(
            racer: int, path: str = f"race/{round_}", at: threading.Barrier = barrier
        ) -> str:
            at.wait()
            try:
                objects.put_new(path, str(racer).encode())
            except StorageFailure as failure:
                return failure.kind.value
            return "won"

        with ThreadPoolExecutor(RACERS) as pool:
            outcomes = list(pool.map(create, range(RACERS)))
        assert sorted(outcomes) == ["exists"] * (RACERS - 1) + ["won"]
        assert objects.get(f"race/{round_}") == str(outcomes.index("won")).encode()


def test_a_lost_reply_of_put_new_is_recognised(objects: ObjectStore) -> None:
    with failpoints.armed({StorageCall.OBJECT_PUT_NEW: LostReply()}):
        objects.put_new("x", b"mine")
    assert objects.get("x") == b"mine"


def test_a_refused_put_new_leaves_nothing_and_says_it_does_not_know(objects: ObjectStore) -> None:
    with (
        failpoints.armed({StorageCall.OBJECT_PUT_NEW: Refuse()}),
        pytest.raises(StorageFailure) as caught,
    ):
        objects.put_new("x", b"mine")
    assert caught.value.kind is FailureKind.UNAVAILABLE
    assert not caught.value.effect_free
    assert not objects.exists("x")


def test_every_call_is_counted_by_name(objects: ObjectStore) -> None:
    with telemetry.counting() as counts:
        objects.put_new("x", b"")
        objects.put("x", b"")
        objects.get("x")
        objects.exists("x")
        objects.list("")
        objects.delete("x")
    calls = {k: v for k, v in counts.snapshot().items() if k.startswith("object.")}
    assert calls == dict.fromkeys(sorted(calls), 1)
    assert len(calls) == 6


def test_opening_again_finds_the_same_objects(any_root: Root) -> None:
    open_objects(any_root).put_new("x", b"one")
    again: Root = pickle.loads(pickle.dumps(any_root))
    assert open_objects(again).get("x") == b"one"
