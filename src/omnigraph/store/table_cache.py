"""Open versions of tables, the most recently used ones."""

import threading
from collections import OrderedDict
from typing import Final

from omnigraph.store.model import Pin
from omnigraph.store.table import Table

__all__ = ["TableCache"]

_TABLES_MAX: Final = 512


class TableCache:
    """A cache of open versions, by their pins. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: OrderedDict[Pin, Table] = OrderedDict()

    def get(self, pin: Pin) -> Table | None:
        """Return a version that is open."""
        with self._lock:
            found = self._tables.get(pin)
            if found is not None:
                self._tables.move_to_end(pin)
            return found

    def keep(self, table: Table) -> None:
        """Keep a version, in the place of one with the same pin."""
        with self._lock:
            self._tables[table.pin] = table
            self._tables.move_to_end(table.pin)
            while len(self._tables) > _TABLES_MAX:
                self._tables.popitem(last=False)

    def forget(self, path: str, branch: str) -> None:
        """Drop the versions of a fork."""
        with self._lock:
            for pin in [p for p in self._tables if p.path == path and p.branch == branch]:
                del self._tables[pin]

    def clear(self) -> None:
        """Drop all of them."""
        with self._lock:
            self._tables.clear()
