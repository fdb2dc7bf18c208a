"""Spans, counters and the identity of the running operation.

One ``span`` around a step gives a debug record and an event for listeners. ``count`` adds to
the counters of the enclosing ``counting`` blocks, which is how tests pin the number of storage
calls. The library emits through standard logging and never configures it.
"""

import contextvars
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeAlias, TypeVar

from omnigraph.errors import GraphError, JsonValue
from omnigraph.runtime.clock import SystemClock

__all__ = [
    "Counters",
    "TraceSpan",
    "carried",
    "count",
    "counting",
    "current_op_id",
    "listening",
    "operation",
    "span",
]

P = ParamSpec("P")
R = TypeVar("R")

logger: Final = logging.getLogger("omnigraph")
_clock: Final = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """A finished step. ``failure`` is the error's code, or its type when it has no code."""

    name: str
    fields: Mapping[str, JsonValue]
    op_id: str | None
    elapsed_ns: int
    failure: str | None


Listener: TypeAlias = Callable[[TraceSpan], None]


class Counters:
    """Named counters. Safe to add to from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, amount: int) -> None:
        """Add to one counter."""
        with self._lock:
            self._counts[name] += amount

    def snapshot(self) -> dict[str, int]:
        """Return the counters by name, in name order."""
        with self._lock:
            return dict(sorted(self._counts.items()))


_op_id: Final[contextvars.ContextVar[str | None]] = contextvars.ContextVar("op_id", default=None)
_counts: Final[contextvars.ContextVar[tuple[Counters, ...]]] = contextvars.ContextVar(
    "counts", default=()
)
_listeners: Final[contextvars.ContextVar[tuple[Listener, ...]]] = contextvars.ContextVar(
    "listeners", default=()
)


def current_op_id() -> str | None:
    """Return the identifier of the operation that is running here, if any."""
    return _op_id.get()


@contextmanager
def operation(op_id: str) -> Iterator[None]:
    """Name the operation that everything in the block belongs to."""
    token = _op_id.set(op_id)
    try:
        yield
    finally:
        _op_id.reset(token)


@contextmanager
def counting() -> Iterator[Counters]:
    """Collect what is counted in the block; blocks nest, and each sees its own part."""
    counts = Counters()
    token = _counts.set((*_counts.get(), counts))
    try:
        yield counts
    finally:
        _counts.reset(token)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Receive the spans that finish in the block."""
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def count(name: str, amount: int = 1) -> None:
    """Add to a counter of every enclosing ``counting`` block."""
    for counts in _counts.get():
        counts.add(name, amount)


def span(name: str, /, **fields: JsonValue) -> AbstractContextManager[None]:
    """Observe a step: how long it took and how it ended. Errors pass through untouched."""
    listeners = _listeners.get()
    if not listeners and not logger.isEnabledFor(logging.DEBUG):
        return nullcontext()
    return _observed(name, fields, listeners)


@contextmanager
def _observed(
    name: str, fields: Mapping[str, JsonValue], listeners: Sequence[Listener]
) -> Iterator[None]:
    start = _clock.ticks_ns()
    failure: str | None = None
    try:
        yield
    except BaseException as error:
        failure = error.code.value if isinstance(error, GraphError) else type(error).__name__
        raise
    finally:
        done = TraceSpan(
            name=name,
            fields=fields,
            op_id=_op_id.get(),
            elapsed_ns=_clock.ticks_ns() - start,
            failure=failure,
        )
        logger.debug("%s", name, extra={"span": done})
        for listener in listeners:
            listener(done)


def carried(function: Callable[P, R]) -> Callable[P, R]:
    """Bind a function to the current operation, counters and listeners, for use on a thread.

    A thread starts with an empty context; without this its work would belong to no operation.
    """
    context = contextvars.copy_context()

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        # A context can be entered once at a time, and a pool runs many calls at once.
        return context.copy().run(function, *args, **kwargs)

    return run
