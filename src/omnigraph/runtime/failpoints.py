"""Places where a test may make the process fail, and the ways in which it may.

A layer declares its points as a ``StrEnum`` under ``@catalogue`` and passes through them with
``hit`` (a moment) or ``call`` (an action). Nothing happens unless a test arms a plan; an unarmed
point costs one look at an empty tuple. Plans pickle, so a test hands them to a child process and
nothing is ever read from the environment.

Plans are process-wide on purpose: the work under test may run on threads of its own.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar, assert_never

__all__ = [
    "CRASH_STATUS",
    "ArmedFailpoint",
    "Crash",
    "Fault",
    "InjectedFault",
    "LostReply",
    "Plan",
    "Refuse",
    "arm",
    "armed",
    "call",
    "catalogue",
    "catalogued",
    "hit",
    "watch",
]

T = TypeVar("T")
Point = TypeVar("Point", bound=StrEnum)
Points = TypeVar("Points", bound=type[StrEnum])

CRASH_STATUS: Final = 86


class InjectedFault(Exception):
    """Raised by an armed point. ``applied`` is true if the guarded action ran."""

    def __init__(self, point: StrEnum, applied: bool) -> None:
        super().__init__(point, applied)
        self.point = point
        self.applied = applied


@dataclass(frozen=True, slots=True)
class Crash:
    """The process ends here: no handlers, no flushing, no clean-up."""

    status: int = CRASH_STATUS


@dataclass(frozen=True, slots=True)
class Refuse:
    """The action is not performed, and the caller gets an error that says so."""


@dataclass(frozen=True, slots=True)
class LostReply:
    """The action is performed, and the caller gets an error."""


Fault: TypeAlias = Crash | Refuse | LostReply


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The points that fail, how, and when. Plain data: pickles, compares, prints.

    ``nth`` counts the passes through all planned points together. With one point it means its
    n-th pass; with a whole catalogue it means the n-th step, whatever that step is.
    """

    faults: tuple[tuple[StrEnum, Fault], ...]
    nth: int = 1

    def __post_init__(self) -> None:
        if self.nth < 1:
            raise ValueError("passes are counted from 1")
        known = set(catalogued())
        if strangers := [point for point, _ in self.faults if point not in known]:
            raise ValueError(f"not in any catalogue: {strangers}")


@dataclass(slots=True)
class ArmedFailpoint:
    """A plan at work. ``fired`` is the point that failed, once it has."""

    plan: Plan
    fired: StrEnum | None = None
    passes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def trip(self, point: StrEnum) -> Fault | None:
        """Count a pass; return the fault if this is the pass that fails."""
        fault = next((fault for planned, fault in self.plan.faults if planned is point), None)
        if fault is None:
            return None
        with self._lock:
            self.passes += 1
            if self.passes != self.plan.nth:
                return None
            self.fired = point
            return fault


_lock: Final = threading.Lock()
_catalogue: Final[dict[str, StrEnum]] = {}
_armed: tuple[ArmedFailpoint, ...] = ()  # replaced, never changed: readers take no lock
_watchers: tuple[Callable[[StrEnum], None], ...] = ()  # likewise


def catalogue(points: Points) -> Points:
    """Declare an enum of failpoints; its values must be new in the whole process."""
    with _lock:
        if taken := [point.value for point in points if point.value in _catalogue]:
            raise ValueError(f"failpoints declared twice: {taken}")
        _catalogue.update({point.value: point for point in points})
    return points


def catalogued() -> tuple[StrEnum, ...]:
    """Return every declared point, in order of declaration."""
    return tuple(_catalogue.values())


def arm(plan: Plan) -> ArmedFailpoint:
    """Arm a plan for the rest of the process: what a child process does with a plan it is given."""
    global _armed  # noqa: PLW0603 - one process, one set of armed plans
    state = ArmedFailpoint(plan)
    with _lock:
        _armed = (*_armed, state)
    return state


@contextmanager
def armed(faults: Mapping[Point, Fault], *, nth: int = 1) -> Iterator[ArmedFailpoint]:
    """Arm a plan for the length of a block."""
    global _armed  # noqa: PLW0603 - one process, one set of armed plans
    state = arm(Plan(faults=tuple(faults.items()), nth=nth))
    try:
        yield state
    finally:
        with _lock:
            _armed = tuple(other for other in _armed if other is not state)


def watch(watcher: Callable[[StrEnum], None]) -> None:
    """Call a function at every pass through any point, for the rest of the process.

    What it does is up to the test: count, signal another process, or wait for its signal.
    """
    global _watchers  # noqa: PLW0603 - one process, one set of watchers
    with _lock:
        _watchers = (*_watchers, watcher)


def hit(point: StrEnum) -> None:
    """Pass a moment at which the process may fail."""
    if _armed or _watchers:
        call(point, _nothing)


def call(point: StrEnum, action: Callable[[], T]) -> T:
    """Perform an action that may be refused, cut off by a crash, or lose its reply."""
    for watcher in _watchers:
        watcher(point)
    for state in _armed:
        match fault := state.trip(point):
            case None:
                continue
            case Crash():
                os._exit(fault.status)
            case Refuse():
                raise InjectedFault(point, applied=False)
            case LostReply():
                action()
                raise InjectedFault(point, applied=True)
            case _:
                assert_never(fault)
    return action()


def _nothing() -> None:
    return None
