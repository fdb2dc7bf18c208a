"""Claims: one holder at a time, and a dead one stands in nobody's way."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph.core import tuning
from omnigraph.core.locks.claims import Claims, open_claims
from omnigraph.core.locks.liveness import LiveOperations
from omnigraph.core.locks.owner import Owner
from omnigraph.errors import Busy
from omnigraph.runtime import failpoints, telemetry
from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.failpoints import Refuse
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.failures import StorageFailure
from omnigraph.store.io.objects import ObjectStore, open_objects
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root

LEASE_US = tuning.active.claim_lease_us
GRACE_US = tuning.active.lease_grace_us

FOLDER = "__claims/test"


@pytest.fixture
def objects() -> ObjectStore:
    return open_objects(Root.parse(f"memory:///{UlidIds().new()}"))


def claims(
    objects: ObjectStore, live: LiveOperations | None = None, clock: ManualClock | None = None
) -> Claims:
    clock = clock or ManualClock(1_000_000)
    return open_claims(objects, clock, UlidIds(), live or LiveOperations())


def files(objects: ObjectStore) -> list[str]:
    return [info.path for info in objects.list(FOLDER)]


def test_one_holder_at_a_time(objects: ObjectStore) -> None:
    mine = claims(objects)
    with mine.holding(FOLDER), pytest.raises(Busy), mine.holding(FOLDER, wait_us=0):
        raise AssertionError("both hold it")
    with mine.holding(FOLDER):
        assert len(files(objects)) == 1


def test_a_holder_of_this_process_that_is_not_at_work_has_given_up(objects: ObjectStore) -> None:
    """An error on the way out may have kept it from saying so."""
    first = claims(objects)
    with failpoints.armed({StorageCall.OBJECT_PUT: Refuse()}), first.holding(FOLDER):
        pass
    with first.holding(FOLDER, wait_us=0):
        assert len(files(objects)) == 1


def held_elsewhere(root: Path) -> Path:
    """A claim that a process on another machine took."""
    owner = Owner(machine="elsewhere", process=1, started="1", lease_until=1, lease_us=LEASE_US)
    file = root / f"{FOLDER}/000000000007.claim"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"token": "t", "owner": owner.to_json()}))
    return file


def on_disk(root: Path) -> ObjectStore:
    return open_objects(Root.parse(str(root)))


def test_a_holder_on_another_machine_is_trusted_for_its_lease_by_the_time_of_the_store(
    tmp_path: Path,
) -> None:
    file, objects = held_elsewhere(tmp_path), on_disk(tmp_path)
    far = ManualClock(10**16)  # what time it is here does not matter
    with pytest.raises(Busy), claims(objects, clock=far).holding(FOLDER, wait_us=0):
        raise AssertionError("both hold it")
    assert files(objects) == [f"{FOLDER}/{file.name}"]
    then = file.stat().st_mtime - (LEASE_US + GRACE_US) / 1e6 - 1
    os.utime(file, (then, then))
    with claims(objects, clock=far).holding(FOLDER, wait_us=0):
        assert files(objects) == [f"{FOLDER}/000000000008.claim"]


def test_a_held_claim_is_waited_for_and_not_asked_for_all_the_time(tmp_path: Path) -> None:
    held_elsewhere(tmp_path)
    objects, clock = on_disk(tmp_path), ManualClock(1_000_000)
    with (
        telemetry.counting() as counted,
        pytest.raises(Busy),
        claims(objects, clock=clock).holding(FOLDER, wait_us=10_000_000),
    ):
        raise AssertionError("both hold it")
    assert clock.now_us() - 1_000_000 >= 10_000_000
    assert counted.snapshot()["object.list"] < 100


def test_a_claim_is_renewed_while_it_is_held(objects: ObjectStore) -> None:
    clock = ManualClock(1_000_000)
    with claims(objects, clock=clock).holding(FOLDER) as claim:
        (place,) = files(objects)
        before = objects.get(place)
        clock.advance(LEASE_US // 2 - 1)
        claim.check()
        assert objects.get(place) == before
        clock.advance(1)
        claim.check()
        assert objects.get(place) != before
        clock.advance(LEASE_US // 2)
        claim.check()


@pytest.mark.parametrize("taken", [False, True])
def test_a_holder_that_was_stopped_for_too_long_does_not_go_on(
    objects: ObjectStore, taken: bool
) -> None:
    clock = ManualClock(1_000_000)
    with claims(objects, clock=clock).holding(FOLDER) as claim:
        clock.advance(LEASE_US - 1 if taken else LEASE_US)
        if taken:
            objects.put(f"{FOLDER}/000000000009.claim", b"null")
        with pytest.raises(Busy):
            claim.check()


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"null", b'{"token": 1}'], ids=repr)
def test_what_cannot_be_read_holds_nothing(objects: ObjectStore, junk: bytes) -> None:
    objects.put(f"{FOLDER}/000000000003.claim", junk)
    with claims(objects).holding(FOLDER, wait_us=0):
        assert files(objects) == [f"{FOLDER}/000000000004.claim"]


def test_whoever_looked_at_the_old_end_of_the_chain_steps_back(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It creates a number that is free again because the chain has moved on."""
    live = LiveOperations()
    mine = claims(objects, live)
    with mine.holding(FOLDER):
        stale = objects.list(FOLDER)
        held = objects.get(stale[0].path)
    moved = f"{FOLDER}/000000000005.claim"
    real, answers = objects.list, iter([stale])
    monkeypatch.setattr(objects, "list", lambda prefix: next(answers, None) or real(prefix))
    token = str(json.loads(held)["token"])
    with live.working(token):
        objects.put(moved, held)  # by now somebody holds number 5
        with pytest.raises(Busy), mine.holding(FOLDER, wait_us=0):
            raise AssertionError("both hold it")
    assert files(objects) == [stale[0].path, moved]


def test_a_failure_to_claim_leaves_nothing_held(objects: ObjectStore) -> None:
    mine = claims(objects)
    with (
        failpoints.armed({StorageCall.OBJECT_PUT_NEW: Refuse()}),
        pytest.raises(StorageFailure),
        mine.holding(FOLDER),
    ):
        raise AssertionError("it was refused")
    with mine.holding(FOLDER, wait_us=0):
        pass


def test_many_threads_take_turns(objects: ObjectStore) -> None:
    live = LiveOperations()
    inside: list[int] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        mine = claims(objects, live)
        for _ in range(5):
            with mine.holding(FOLDER, wait_us=10**9):
                with lock:
                    inside.append(number)
                    assert len(inside) == 1
                with lock:
                    inside.remove(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(files(objects)) == 1


def test_clearing_removes_the_chain(objects: ObjectStore) -> None:
    mine = claims(objects)
    with mine.holding(FOLDER):
        pass
    mine.clear(FOLDER)
    assert files(objects) == []
