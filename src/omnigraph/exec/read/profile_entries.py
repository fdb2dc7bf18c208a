"""The steps of a profiled query, and how they are shown; without Arrow, for clients of servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One operator of a run."""

    label: str
    rows: int
    nanoseconds: int


def profile_text(path: str, restarts: Sequence[str], entries: Sequence[ProfileEntry]) -> str:
    """A profile as a table."""
    lines = [f"path: {path}"] if path else []
    lines += [f"began again: {reason}" for reason in restarts]
    width = max((len(item.label) for item in entries), default=0)
    for item in entries:
        lines.append(
            f"{item.label:<{width}}  {item.rows:>12,} rows  {item.nanoseconds / 1e6:>10.3f} ms"
        )
    return "\n".join(lines)
