"""Memory for bulk work.

Arrow's own allocator asks for huge pages, and each is cleared as a whole when it is first touched.
Bulk work takes much memory that it touches once: a third of its time in the kernel went there. The
system's allocator takes small pages, and gives large buffers back when they are freed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

_lock = threading.Lock()
_users = 0
_usual: pa.MemoryPool | None = None


@contextmanager
def bulk_memory() -> Iterator[None]:
    """Let Arrow take its memory from the system's allocator, until the last of all users is done.

    Whatever is allocated stays valid; only where new memory comes from is changed.
    """
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    global _users, _usual  # noqa: PLW0603 - there is one default pool in a process
    with _lock:
        if not _users:
            _usual = pa.default_memory_pool()
            pa.set_memory_pool(pa.system_memory_pool())
        _users += 1


def _end() -> None:
    global _users, _usual  # noqa: PLW0603
    with _lock:
        _users -= 1
        if not _users and _usual is not None:
            pa.set_memory_pool(_usual)
            _usual = None
