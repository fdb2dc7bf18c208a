"""How many accidents of each kind a run of tests has caused.

They are counted where they are caused. Each test hands its counts over with its report, which also
reaches the process that collects the reports of a distributed run; there the sums are printed.
"""

from collections import Counter
from typing import Final

KEY: Final = "accidents"
_counts: Counter[str] = Counter()


def count(accident: str, number: int = 1) -> None:
    """Add to the accidents of the running test."""
    _counts[accident] += number


def taken() -> dict[str, int]:
    """The accidents since this was asked last."""
    found = dict(_counts)
    _counts.clear()
    return found
