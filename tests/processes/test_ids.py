"""Ids that two processes make."""

import multiprocessing

from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.ids import (
    UlidIds,
)


def test_two_processes_mint_different_ids() -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        one, other = pool.map(_mint, [3, 3])
    assert not set(one) & set(other)


def _mint(amount: int) -> list[str]:
    ids = UlidIds(ManualClock(now_us=1))
    return [ids.new() for _ in range(amount)]
