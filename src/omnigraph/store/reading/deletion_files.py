"""Deletion files: the places of the rows of a fragment that are deleted.

One never changes, and a later one of the same fragment has another name. So what one says is read
once, whichever versions list it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.store import tuning

__all__ = ["KeptDeletions", "Offsets", "decode_deletions"]

Offsets = npt.NDArray[np.uint32]


class KeptDeletions:
    """The content of the deletion files that were read or written last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offsets: OrderedDict[str, Offsets] = OrderedDict()
        self._count = 0

    def get(self, name: str) -> Offsets | None:
        """The content of a file, by its name below the root; None if that is not known."""
        with self._lock:
            found = self._offsets.get(name)
            if found is not None:
                self._offsets.move_to_end(name)
            return found

    def keep(self, name: str, offsets: Offsets) -> None:
        """Hold what a file says, in the place of what was asked for longest ago."""
        with self._lock:
            if name in self._offsets:
                return
            self._offsets[name] = offsets
            self._count += len(offsets)
            while self._count > tuning.active.kept_deletions_max and len(self._offsets) > 1:
                _, last = self._offsets.popitem(last=False)
                self._count -= len(last)

    def forget(self, place: str) -> None:
        """Drop what is held of the files of a fork that was dropped."""
        with self._lock:
            for name in [each for each in self._offsets if each.startswith(f"{place}/")]:
                self._count -= len(self._offsets.pop(name))

    def clear(self) -> None:
        """Drop everything that is held."""
        with self._lock:
            self._offsets.clear()
            self._count = 0


def decode_deletions(name: str, data: bytes) -> Offsets:
    """Return the offsets that a deletion file lists, ascending; its name says how it is encoded."""
    if name.endswith(".arrow"):
        column = pa.ipc.open_file(pa.py_buffer(data)).read_all().column(0)
        return np.sort(np.asarray(column.combine_chunks(), np.uint32))
    # Imported late: small tables never need it.
    from pyroaring import BitMap  # noqa: PLC0415

    return np.frombuffer(BitMap.deserialize(data).to_array(), np.uint32)
