"""A failpoint that crashes ends the process."""

import multiprocessing
from enum import StrEnum

from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import (
    CRASH_STATUS,
    Crash,
    InjectedFault,
    Plan,
)


@failpoints.catalogue
class Fp(StrEnum):
    """Points of these tests."""

    BEFORE = "tests.crash.before"
    AFTER = "tests.crash.after"


def steps() -> list[str]:
    """An operation with two guarded actions; returns what was done, even when it failed."""
    done: list[str] = []
    try:
        failpoints.call(Fp.BEFORE, lambda: done.append("one"))
        failpoints.call(Fp.AFTER, lambda: done.append("two"))
    except InjectedFault as fault:
        done.append(f"{fault.point.name} {'applied' if fault.applied else 'refused'}")
    return done


def test_a_crash_ends_the_process_at_once() -> None:
    context = multiprocessing.get_context("spawn")
    plan = Plan(faults=((Fp.AFTER, Crash()),))
    child = context.Process(target=_crash, args=(plan,))
    child.start()
    child.join()
    assert child.exitcode == CRASH_STATUS


def _crash(plan: Plan) -> None:
    failpoints.arm(plan)
    try:
        steps()
    finally:
        # Would turn the status into success: only a real exit gets past this.
        raise SystemExit(0)
