"""The bound on reading entity by entity, beyond which loading whole types is faster."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.exec.memory import QUERY_BYTES_MAX


class TooWide(Exception):
    """A query touches more than is worth looking up one by one; the dense view answers it.

    Never reaches a user: whoever asks a direct view catches it and starts over.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupBounds:
    """The most that one query reads directly.

    An index finds some hundred keys in about the time that a hundred thousand rows take to read.
    """

    keys: int = 1_000  # ids that are looked up
    rows: int = 20_000  # rows that come back
    bytes: int = QUERY_BYTES_MAX  # and what they take


class LookupBudget:
    """The rest of the bounds of one query."""

    __slots__ = ("bytes", "keys", "rows")

    def __init__(self, bounds: LookupBounds) -> None:
        """Start with everything."""
        self.keys = bounds.keys
        self.rows = bounds.rows
        self.bytes = bounds.bytes

    def look_up(self, keys: int) -> None:
        """Spend some lookups."""
        self.keys -= keys
        if self.keys < 0:
            raise TooWide(f"{-self.keys} keys too many")

    def read(self, rows: int, nbytes: int) -> None:
        """Spend some rows, and the memory that they take."""
        self.rows -= rows
        self.bytes -= nbytes
        if self.bytes < 0:
            raise TooWide(f"{-self.bytes} bytes too many")
        if self.rows < 0:
            raise TooWide(f"{-self.rows} rows too many")

    def allows(self, rows: int) -> bool:
        """True if so many rows can still be read."""
        return rows <= self.rows
