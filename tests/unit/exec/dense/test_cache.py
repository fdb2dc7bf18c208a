"""The cache: bounded, one builder per structure, and what is dropped is made anew."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import pytest

from omnigraph.exec.dense.cache import StructureCache


def test_the_least_recently_used_goes_first() -> None:
    cache = StructureCache(bytes_max=10)
    made: list[str] = []

    def maker(name: str) -> str:
        made.append(name)
        return name

    slots = {name: cache.slot(partial(maker, name), lambda _: 4) for name in "abc"}
    slots["a"].get()
    slots["b"].get()
    slots["a"].get()
    slots["c"].get()
    assert cache.nbytes == 8
    assert [name for name in "abc" if slots[name].peek() is not None] == ["a", "c"]
    assert slots["b"].get() == "b"
    assert made == ["a", "b", "c", "b"]


def test_what_is_too_large_is_used_all_the_same() -> None:
    cache = StructureCache(bytes_max=10)
    small = cache.slot(lambda: "small", lambda _: 1)
    large = cache.slot(lambda: "large", lambda _: 100)
    small.get()
    assert large.get() == "large"
    assert small.peek() is None
    assert small.get() == "small"
    assert large.peek() is None
    assert cache.nbytes == 1


def test_many_threads_and_one_builder() -> None:
    cache = StructureCache(bytes_max=10)
    started, go = threading.Event(), threading.Event()
    built: list[int] = []

    def build() -> list[int]:
        started.set()
        assert go.wait(30)
        built.append(1)
        return built

    slot = cache.slot(build, lambda _: 1)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(slot.get) for _ in range(4)]
        assert started.wait(30)
        go.set()
        results = [future.result(30) for future in futures]
    assert built == [1]
    assert all(result is results[0] for result in results)


def test_a_failed_build_is_tried_again() -> None:
    cache = StructureCache(bytes_max=10)
    answers = iter(["", "yes"])

    def build() -> str:
        answer = next(answers)
        if not answer:
            raise ValueError("no")
        return answer

    slot = cache.slot(build, lambda _: 1)
    with pytest.raises(ValueError, match="no"):
        slot.get()
    assert slot.get() == "yes"
    assert cache.nbytes == 1


def test_only_the_version_before_is_kept() -> None:
    cache = StructureCache(bytes_max=100)
    slots = [cache.slot(lambda: "made", lambda _: 1) for _ in range(4)]
    slots[0].get()
    for older, newer in pairwise(slots):
        newer.supersedes(older)
        newer.get()
    assert [slot.peek() is not None for slot in slots] == [False, False, True, True]


def test_an_old_version_that_is_in_use_is_kept() -> None:
    cache = StructureCache(bytes_max=100)
    slots = [cache.slot(lambda: "made", lambda _: 1) for _ in range(3)]
    slots[0].get()
    slots[1].supersedes(slots[0])
    slots[1].get()
    slots[0].get()  # somebody reads an old snapshot
    slots[2].supersedes(slots[1])
    slots[2].get()
    assert slots[0].peek() is not None
