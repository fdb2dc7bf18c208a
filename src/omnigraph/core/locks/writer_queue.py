"""The queue of writers: the order in which those of one process wait for each other.

Gates are process-wide, so two handles of one graph respect each other. Between processes the
intents and the strict landing decide; gates only spare threads conflicts with one another. Every
writer takes the gates of its tables in the order of their names and the gate of the branch's head
last, so no two can wait for each other. The gate of branch making stands before all others. A gate
lets threads through in the order of their arrival.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from omnigraph.runtime.cancellation import acquired


class _Gate:
    """A re-entrant lock that serves in the order of arrival, and the number of its users."""

    __slots__ = ("_depth", "_lock", "_owner", "_queue", "users")

    def __init__(self) -> None:
        self.users = 0  # threads that hold it or wait for it; guarded by the registry's lock
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._depth = 0
        self._queue: deque[tuple[int, threading.Lock]] = deque()

    def enter(self, *, can_end: bool) -> bool:
        """Take it; true if it had to be waited for.

        `can_end` says that waiting for it may end with the operation's time.
        """
        me = threading.get_ident()
        with self._lock:
            if self._owner is None or self._owner == me:
                self._owner = me
                self._depth += 1
                return False
            turn = threading.Lock()
            turn.acquire()
            self._queue.append((me, turn))
        try:
            if can_end:
                with acquired(turn):
                    pass
            else:
                turn.acquire()
        except BaseException:
            self._leave_queue(turn)
            raise
        return True

    def _leave_queue(self, turn: threading.Lock) -> None:
        with self._lock:
            waiting = [entry for entry in self._queue if entry[1] is not turn]
            if len(waiting) < len(self._queue):
                self._queue = deque(waiting)
            else:
                # It was handed to us while we gave up.
                self._hand_on()

    def leave(self) -> None:
        """Give it to the next thread in the queue, once it is left as often as it was taken."""
        with self._lock:
            self._hand_on()

    def _hand_on(self) -> None:
        self._depth -= 1
        if self._depth:
            return
        self._owner = None
        if self._queue:
            # Handed on, not released: a new thread must not get in before those that wait.
            self._owner, turn = self._queue.popleft()
            self._depth = 1
            turn.release()


_registry: Final[dict[tuple[str, ...], _Gate]] = {}
_registry_lock: Final = threading.Lock()


@contextmanager
def _holding(*name: str, can_end: bool = False) -> Iterator[bool]:
    """Hold one gate; yields whether it had to be waited for."""
    with _registry_lock:
        gate = _registry.setdefault(name, _Gate())
        gate.users += 1
    try:
        has_waited = gate.enter(can_end=can_end)
        try:
            yield has_waited
        finally:
            gate.leave()
    finally:
        with _registry_lock:
            gate.users -= 1
            if not gate.users:
                del _registry[name]


@contextmanager
def writing(root: str, branch: str, table_keys: Iterable[str]) -> Iterator[None]:
    """Hold the gates of a write to these tables of a branch."""
    with ExitStack() as stack:
        for key in sorted(set(table_keys)):
            stack.enter_context(_holding(root, "table", branch, key, can_end=True))
        yield


@contextmanager
def preparing(root: str, branch: str, table_keys: Iterable[str]) -> Iterator[bool]:
    """Hold the gates of making a write for these tables of a branch, before `writing`.

    Yields whether one of them had to be waited for.

    Of two writes that are made for the same state, one would be refused.
    """
    with ExitStack() as stack:
        gates = [
            _holding(root, "prepare", branch, key, can_end=True) for key in sorted(set(table_keys))
        ]
        waited = [stack.enter_context(gate) for gate in gates]
        yield any(waited)


@contextmanager
def publishing(root: str, branch: str) -> Iterator[None]:
    """Hold the gate of a branch's head, for the length of one publish."""
    with _holding(root, "head", branch):
        yield


@contextmanager
def branching(root: str) -> Iterator[None]:
    """Hold the gate of making and deleting branches."""
    with _holding(root, "branches"):
        yield


@contextmanager
def starting_over(root: str, branch: str) -> Iterator[None]:
    """Hold the gate of starting over on a branch. Stands before all others."""
    with _holding(root, "again", branch, can_end=True):
        yield


def is_started_over(root: str, branch: str) -> bool:
    """True while a writer starts over on a branch, or waits to."""
    return (root, "again", branch) in _registry
