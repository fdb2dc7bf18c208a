"""The profile of a query: its operators, their rows and times."""

from __future__ import annotations

from omnigraph.exec.read.profile_entries import ProfileEntry, profile_text
from omnigraph.exec.read.rows import Rows
from omnigraph.runtime.clock import Clock


class Profile:
    """Collects the entries of one run; printed, it is a table.

    Attributes:
        entries: The operators in the order in which they ran.
        path: What the entities were read from, in a word.
        rows: The result of the query.
        restarts: Why the query had to begin again, each time that it had to.
    """

    __slots__ = ("_clock", "entries", "path", "restarts", "rows")

    def __init__(self, clock: Clock) -> None:
        """Measure with this clock."""
        self._clock = clock
        self.entries: list[ProfileEntry] = []
        self.path = ""
        self.rows = Rows((), (), 0)
        self.restarts: list[str] = []

    def ticks(self) -> int:
        """Nanoseconds since some moment."""
        return self._clock.ticks_ns()

    def add(self, label: str, rows: int, nanoseconds: int) -> None:
        """An operator has run."""
        self.entries.append(ProfileEntry(label, rows, nanoseconds))

    def restart(self, reason: str) -> None:
        """Forget what ran: the query begins again on another path."""
        self.restarts.append(reason)
        self.entries.clear()

    def __str__(self) -> str:
        return profile_text(self.path, self.restarts, self.entries)
