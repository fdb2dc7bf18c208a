"""Memory for bulk work, in processes that do nothing else.

Arrow's own allocator requests huge pages, and each is cleared as a whole when it is first touched.
Bulk work takes much memory that it touches once: half of its time in the kernel went there.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Final

import pyarrow as pa

# Of glibc: the parameters of `mallopt`.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
_RETURNED_BYTES: Final = 1 << 20


def take_small_pages() -> None:
    """Make Arrow use the allocator of the system from now on, unless the user chose one.

    It is the choice of a whole process, so only a process of our own may make it.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())


def give_memory_back() -> None:
    """Return unused memory to the system: this process lives long and works in bursts.

    The system's allocator keeps what threads have freed, for each of them apart, and a server has
    many threads. With one common heap whose large blocks are returned, a gigabyte that goes through
    leaves nothing behind. On systems with another allocator nothing changes.
    """
    take_small_pages()
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _RETURNED_BYTES)
        mallopt(_TRIM_THRESHOLD, _RETURNED_BYTES)
