"""Work on a whole graph, broken at one of its storage calls: relocating, copying, migrating.

None of it may leave more than two kinds of graph: as it was, or as it is to be; and doing the same
again must always end well. What differs between them is how a graph is made, what is done to it and
how it is judged, and that is an *undertaking*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from omnigraph.runtime.failpoints import CRASH_STATUS, Crash, Fault, Plan, arm
from omnigraph.store.io.storage_calls import StorageCall
from tests import tally
from tests.faults.harness import Lab, at_any_call, attempt, children, passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Undertaking:
    """One kind of work. Its functions are those of modules, so that a child can be given them."""

    name: str
    make: Callable[[Path], None]
    run: Callable[[Path], object]
    judge_broken: Callable[[Path], None]  # whatever it is now, it is nothing worse
    judge_done: Callable[[Path], None]


def calls_of(lab: Lab, work: Undertaking) -> range:
    """The numbers of its storage calls."""
    path = lab.copy(lab.template(work.name, work.make))
    counted = passes(lambda: work.run(path), StorageCall)
    work.judge_done(path)
    lab.discard(path)
    return range(1, sum(counted.values()) + 1)


def break_at(lab: Lab, work: Undertaking, fault: Fault, nths: Iterable[int]) -> None:
    """Break it at these storage calls, one after the other, and do it again each time."""
    points = at_any_call(fault)
    for nth in nths:
        path = lab.copy(lab.template(work.name, work.make))
        try:
            _break_one(work, path, points, nth)
            work.judge_broken(path)
            work.run(path)
            work.judge_done(path)
        except Exception as error:
            error.add_note(f"{type(fault).__name__} at storage call {nth}")
            raise
        lab.discard(path)


def _break_one(work: Undertaking, path: Path, points: dict[StrEnum, Fault], nth: int) -> None:
    if not any(isinstance(fault, Crash) for fault in points.values()):
        assert attempt(lambda: work.run(path), points, nth).fired
        return
    plan = Plan(faults=tuple(points.items()), nth=nth)
    child = children.Process(target=_perform, args=(work.run, path, plan))
    child.start()
    child.join()
    assert child.exitcode == CRASH_STATUS
    tally.count("crashes of a process at a failpoint or a storage call")


def _perform(run: Callable[[Path], object], path: Path, plan: Plan) -> None:
    arm(plan)
    run(path)


def sample(calls: range, count: int) -> list[int]:
    """A few of the calls: the first, the last, and some between them."""
    step = max(1, len(calls) // (count - 1))
    return sorted({*calls[::step], calls[-1]})
