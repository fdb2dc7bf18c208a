"""The manual clock obeys, the system clock moves."""

import pytest

from omnigraph.runtime.clock import Clock, ManualClock, SystemClock


def test_the_system_clock_counts_up_in_the_right_unit() -> None:
    clock: Clock = SystemClock()
    first, second = clock.ticks_ns(), clock.ticks_ns()
    assert first <= second
    # Between 2020 and 2100: seconds, milliseconds or nanoseconds would fall outside.
    assert 1_577_836_800_000_000 < clock.now_us() < 4_102_444_800_000_000


def test_the_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(now_us=50)
    assert (clock.now_us(), clock.ticks_ns()) == (50, 0)
    clock.advance(us=7)
    assert (clock.now_us(), clock.ticks_ns()) == (57, 7_000)


def test_turning_the_wall_back_does_not_turn_ticks_back() -> None:
    clock = ManualClock(now_us=50)
    clock.advance(us=7)
    clock.set_wall(1)
    assert (clock.now_us(), clock.ticks_ns()) == (1, 7_000)
    with pytest.raises(ValueError, match="forward"):
        clock.advance(us=-1)
