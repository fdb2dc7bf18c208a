"""Gates: the order in which writers of one process wait for each other.

Gates are process-wide, so two handles of one graph respect each other. Between processes the
intents and the strict landing decide; gates only keep threads from losing races they need not run.
Every writer takes the gates of its tables in the order of their names and the gate of the branch's
head last, so no two can wait for each other. The gate of branch making stands before all others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from omnigraph.runtime.cancellation import acquired


class _Gate:
    """A lock and the number of those who hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0


_registry: Final[dict[tuple[str, ...], _Gate]] = {}
_registry_lock: Final = threading.Lock()


@contextmanager
def _through(*name: str, can_end: bool = False) -> Iterator[None]:
    """Hold one gate; `can_end` says that waiting for it may end with the operation's time."""
    with _registry_lock:
        gate = _registry.setdefault(name, _Gate())
        gate.users += 1
    try:
        with acquired(gate.lock) if can_end else gate.lock:
            yield
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
            stack.enter_context(_through(root, "table", branch, key, can_end=True))
        yield


@contextmanager
def publishing(root: str, branch: str) -> Iterator[None]:
    """Hold the gate of a branch's head, for the length of one publish."""
    with _through(root, "head", branch):
        yield


@contextmanager
def branching(root: str) -> Iterator[None]:
    """Hold the gate of making and deleting branches."""
    with _through(root, "branches"):
        yield


@contextmanager
def again(root: str, branch: str) -> Iterator[None]:
    """Hold the gate of those who start over on a branch. Stands before all others."""
    with _through(root, "again", branch, can_end=True):
        yield


def is_started_over(root: str, branch: str) -> bool:
    """Whether somebody starts over on a branch, or waits to."""
    return (root, "again", branch) in _registry
