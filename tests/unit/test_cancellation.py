"""Limits of operations, on clocks that stand still until they are moved."""

import pytest

from omnigraph.errors import LimitExceeded
from omnigraph.runtime.cancellation import WorkLimit, check
from omnigraph.runtime.clock import ManualClock


def test_processor_time_is_asked_for_only_when_enough_time_has_passed() -> None:
    time, work = ManualClock(), ManualClock()
    with WorkLimit(10, time, work):
        work.advance(60_000_000)
        check()
        time.advance(5_000_000)
        check()
        work.advance(4_999_999)
        time.advance(60_000_000)
        check()
        work.advance(1)
        with pytest.raises(LimitExceeded):
            check()
    check()
