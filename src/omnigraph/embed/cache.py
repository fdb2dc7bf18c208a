"""Vectors of texts that were embedded before, as many as fit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Row: TypeAlias = "npt.NDArray[np.float32]"
Rows: TypeAlias = "npt.NDArray[np.float32]"

BYTES_MAX: Final = 64 << 20
_ENTRY_OVERHEAD_BYTES: Final = 256  # what an entry takes beside its numbers, about


class VectorCache:
    """Keeps the vectors that were used last. Thread-safe."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        """Keep so many bytes, about."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._rows: OrderedDict[tuple[str, int, bytes], Row] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, model: str, dim: int, text: str) -> Row | None:
        """The vector of a text, if it is known."""
        key = _key(model, dim, text)
        with self._lock:
            row = self._rows.get(key)
            if row is not None:
                self._rows.move_to_end(key)
            return row

    def put(self, model: str, dim: int, text: str, row: Row) -> None:
        """Keep the vector of a text."""
        key = _key(model, dim, text)
        with self._lock:
            if key in self._rows:
                return
            self._rows[key] = row
            self._bytes += row.nbytes + _ENTRY_OVERHEAD_BYTES
            while self._bytes > self._bytes_max:
                _, oldest = self._rows.popitem(last=False)
                self._bytes -= oldest.nbytes + _ENTRY_OVERHEAD_BYTES


def _key(model: str, dim: int, text: str) -> tuple[str, int, bytes]:
    # Texts may be long; what stands for them is not.
    return model, dim, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
