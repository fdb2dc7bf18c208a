"""Memory for bulk work, in processes that do nothing else.

Arrow's own allocator asks for huge pages, and each is cleared as a whole when it is first touched.
Bulk work takes much memory that it touches once: half of its time in the kernel went there.
"""

from __future__ import annotations

import os

import pyarrow as pa


def take_small_pages() -> None:
    """Let Arrow take memory from the system's allocator from now on, unless the user chose one.

    It is the choice of a whole process, so only a process of our own may make it.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
