"""The profile of a query: its operators, their rows and times."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.exec.read.rows import Rows
from omnigraph.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One operator of a run."""

    label: str
    rows: int
    nanoseconds: int


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
        lines = [f"path: {self.path}"] if self.path else []
        lines += [f"began again: {reason}" for reason in self.restarts]
        width = max((len(item.label) for item in self.entries), default=0)
        for item in self.entries:
            lines.append(
                f"{item.label:<{width}}  {item.rows:>12,} rows  {item.nanoseconds / 1e6:>10.3f} ms"
            )
        return "\n".join(lines)
