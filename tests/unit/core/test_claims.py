"""Claims: one holder at a time, and a dead one stands in nobody's way."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.core.claims import Claims
from omnigraph.core.recovery.live import Live
from omnigraph.core.recovery.owner import Owner
from omnigraph.errors import Busy
from omnigraph.runtime import failpoints
from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.failpoints import Refuse
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.calls import StorageCall
from omnigraph.store.failures import StorageFailure
from omnigraph.store.objects import ObjectStore, open_objects
from omnigraph.store.root import Root

FOLDER = "__claims/test"


@pytest.fixture
def objects() -> ObjectStore:
    return open_objects(Root.parse(f"memory:///{UlidIds().new()}"))


def claims(objects: ObjectStore, live: Live | None = None, now_us: int = 1_000_000) -> Claims:
    clock = ManualClock(now_us)
    return Claims(objects=objects, clock=clock, ids=UlidIds(clock), live=live or Live())


def files(objects: ObjectStore) -> list[str]:
    return [info.path for info in objects.list(FOLDER)]


def test_one_holder_at_a_time(objects: ObjectStore) -> None:
    mine = claims(objects)
    with mine.holding(FOLDER), pytest.raises(Busy), mine.holding(FOLDER, looks_max=2):
        raise AssertionError("both hold it")
    with mine.holding(FOLDER):
        assert len(files(objects)) == 1


def test_a_holder_of_this_process_that_is_not_at_work_has_given_up(objects: ObjectStore) -> None:
    """An error on the way out may have kept it from saying so."""
    first = claims(objects)
    with failpoints.armed({StorageCall.OBJECT_PUT: Refuse()}), first.holding(FOLDER):
        pass
    with first.holding(FOLDER, looks_max=1):
        assert len(files(objects)) == 1


@pytest.mark.parametrize("now_us", [0, 10**15], ids=["within the lease", "long after"])
def test_a_holder_on_another_machine_is_trusted_as_long_as_its_lease(
    objects: ObjectStore, now_us: int
) -> None:
    elsewhere = Owner(machine="elsewhere", process=1, started="1", lease_until=2_000_000)
    place = f"{FOLDER}/000000000007.claim"
    objects.put(place, json.dumps({"token": "t", "owner": elsewhere.to_json()}).encode())
    mine = claims(objects, now_us=now_us)
    if now_us == 0:
        with pytest.raises(Busy), mine.holding(FOLDER, looks_max=3):
            raise AssertionError("both hold it")
        assert files(objects) == [place]
    else:
        with mine.holding(FOLDER, looks_max=1):
            assert files(objects) == [f"{FOLDER}/000000000008.claim"]


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"null", b'{"token": 1}'], ids=repr)
def test_what_cannot_be_read_holds_nothing(objects: ObjectStore, junk: bytes) -> None:
    objects.put(f"{FOLDER}/000000000003.claim", junk)
    with claims(objects).holding(FOLDER, looks_max=1):
        assert files(objects) == [f"{FOLDER}/000000000004.claim"]


def test_whoever_looked_at_the_old_end_of_the_chain_steps_back(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It creates a number that is free again because the chain has moved on."""
    live = Live()
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
        with pytest.raises(Busy), mine.holding(FOLDER, looks_max=3):
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
    with mine.holding(FOLDER, looks_max=1):
        pass


def test_many_threads_take_turns(objects: ObjectStore) -> None:
    live = Live()
    inside: list[int] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        mine = claims(objects, live)
        for _ in range(5):
            with mine.holding(FOLDER, looks_max=100_000):
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
