"""ULIDs: one spelling, text order equals creation order, no clock can break it."""

import threading
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.ids import (
    TIME_MS_MAX,
    Ids,
    UlidIds,
    decode,
    encode,
    is_ulid,
    time_ms,
)

numbers = st.integers(min_value=0, max_value=(1 << 128) - 1)


@given(numbers)
def test_round_trip(number: int) -> None:
    text = encode(number)
    assert is_ulid(text)
    assert decode(text) == number


@given(numbers, numbers)
def test_text_order_is_number_order(one: int, other: int) -> None:
    assert (one < other) == (encode(one) < encode(other))


def test_a_known_spelling() -> None:
    assert encode(0) == "0" * 26
    assert encode((1 << 128) - 1) == "7" + "Z" * 25
    assert time_ms("01ARYZ6S41TSV4RRFFQ69G5FAV") == 1_469_918_176_385


@pytest.mark.parametrize("number", [-1, 1 << 128])
def test_numbers_out_of_range_are_refused(number: int) -> None:
    with pytest.raises(ValueError, match="128 bits"):
        encode(number)


@given(st.text(alphabet="0123456789ABCDEFGHJKMNPQRSTVWXYZILOUabc\n", max_size=28))
def test_decode_accepts_exactly_what_encode_spells(text: str) -> None:
    if is_ulid(text):
        assert encode(decode(text)) == text
    else:
        with pytest.raises(ValueError, match="not a ULID"):
            decode(text)


@given(st.lists(st.integers(min_value=0, max_value=10**15), min_size=2), st.integers())
def test_order_holds_whatever_the_clock_does(walls: list[int], seed: int) -> None:
    clock = ManualClock()
    ids: Ids = UlidIds.seeded(seed, clock)
    minted = []
    for wall in walls:
        clock.set_wall(wall)
        minted += [ids.new(), ids.new()]
    assert all(one < other for one, other in pairwise(minted))


def test_the_time_part_is_the_clock() -> None:
    clock = ManualClock(now_us=1_700_000_000_123_456)
    assert time_ms(UlidIds(clock).new()) == 1_700_000_000_123


def test_running_out_of_chance_carries_into_the_time() -> None:
    ids = UlidIds(ManualClock(now_us=5_000), lambda size: b"\xff" * size)
    first, second = ids.new(), ids.new()
    assert first < second
    assert (time_ms(first), time_ms(second)) == (5, 6)


@pytest.mark.parametrize("now_us", [-1_000, (TIME_MS_MAX + 1) * 1_000])
def test_a_time_that_does_not_fit_is_refused(now_us: int) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        UlidIds(ManualClock(now_us)).new()


def test_a_seed_reproduces() -> None:
    one, other = (UlidIds.seeded(7, ManualClock(1)) for _ in range(2))
    assert [one.new() for _ in range(5)] == [other.new() for _ in range(5)]
    assert UlidIds.seeded(8, ManualClock(1)).new() != UlidIds.seeded(7, ManualClock(1)).new()


def test_threads_share_one_source() -> None:
    ids = UlidIds(ManualClock(now_us=1))
    minted: list[list[str]] = [[] for _ in range(4)]

    def mint(into: list[str]) -> None:
        into.extend(ids.new() for _ in range(500))

    threads = [threading.Thread(target=mint, args=(into,)) for into in minted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({text for own in minted for text in own}) == 2_000
    assert all(own == sorted(own) for own in minted)


def test_chance_is_drawn_for_many_ids_and_never_twice() -> None:
    ids = UlidIds(ManualClock(now_us=1))
    minted = [decode(ids.new()) for _ in range(1_000)]
    steps = {other - one for one, other in pairwise(minted)}
    assert len(steps) > 990
    assert max(steps) > 1 << 24
