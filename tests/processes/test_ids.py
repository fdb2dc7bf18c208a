"""Ids that two processes make."""

import multiprocessing
import subprocess
import sys
from itertools import pairwise
from textwrap import dedent

from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.ids import UlidIds, decode


def test_two_processes_mint_different_ids() -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        one, other = pool.map(_mint, [3, 3])
    assert not set(one) & set(other)


# Both go on from what the parent had made, and from the random bytes that it had drawn.
FORKED = dedent("""
    import os
    from omnigraph.runtime.clock import ManualClock
    from omnigraph.runtime.ids import UlidIds

    ids = UlidIds(ManualClock(now_us=1))
    ids.new()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    print(*[ids.new() for _ in range(100)], flush=True)
    os._exit(0)
""")


def test_a_forked_child_does_not_continue_its_parents_count() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=60
    )
    child, parent = (line.split() for line in done.stdout.splitlines())
    steps = [
        {decode(other) - decode(one) for one, other in pairwise(each)} for each in (child, parent)
    ]
    assert len(set(child) | set(parent)) == 200
    assert not steps[0] & steps[1]
    assert abs(decode(child[0]) - decode(parent[0])) > 1 << 40


def _mint(amount: int) -> list[str]:
    ids = UlidIds(ManualClock(now_us=1))
    return [ids.new() for _ in range(amount)]
