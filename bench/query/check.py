"""Whether the engines answer the same question: nobody is timed on a wrong answer."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bench.query.questions import Compared

Rows: TypeAlias = Sequence[tuple[Any, ...]]

DIGITS: Final = 6
SCORE_TOLERANCE: Final = 1e-3
# How many of the best an approximate engine must find for its time to count.
RECALL_LEAST: Final = 0.9
OVERLAP_LEAST: Final = 0.6


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an engine's answers compare with the right ones."""

    right: bool
    note: str


def plain(rows: Rows) -> tuple[tuple[Any, ...], ...]:
    """Rows in a form that compares: floats to so many digits, in an order of its own."""
    return tuple(sorted((tuple(_plain(value) for value in row) for row in rows), key=repr))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


def common(answers: Mapping[str, Sequence[Rows]]) -> list[tuple[tuple[Any, ...], ...]]:
    """Per parameter set what most engines say; of equally many, what the first of them says."""
    longest = max((len(given) for given in answers.values()), default=0)
    agreed = []
    for number in range(longest):
        given = [plain(rows[number]) for rows in answers.values() if len(rows) > number]
        agreed.append(Counter(given).most_common(1)[0][0])
    return agreed


def same_rows(given: Sequence[Rows], agreed: Sequence[Rows]) -> Agreement:
    """The same rows for every parameter set that was tried."""
    wrong = sum(plain(rows) != right for rows, right in zip(given, agreed, strict=False))
    if wrong:
        return Agreement(False, f"{wrong} of {len(given)} answers differ")
    return Agreement(True, f"equal on {len(given)}")


def ranked(
    compared: Compared, given: Sequence[Rows], best: Sequence[Sequence[tuple[str, float]]]
) -> Agreement:
    """How many of the best documents are there; rows are (doc, title, author, score)."""
    shares, exact = [], True
    for rows, right in zip(given, best, strict=True):
        found = list(dict.fromkeys((row[0], float(row[3])) for row in rows))
        shares.append(_share(found, right, compared))
        exact = exact and all(
            math.isclose(score, right[place][1], rel_tol=SCORE_TOLERANCE)
            for place, (_, score) in enumerate(found)
        )
    share = sum(shares) / len(shares)
    told = f"{share:.2f} of the best"
    if compared is Compared.SCORES:
        return Agreement(exact and share == 1, told if exact else f"{told}, other scores")
    least = RECALL_LEAST if compared is Compared.DISTANCES else OVERLAP_LEAST
    return Agreement(share >= least, told)


def _share(
    found: Sequence[tuple[str, float]], right: Sequence[tuple[str, float]], compared: Compared
) -> float:
    """The share of the found documents that belong to the best; of equal scores any will do."""
    if not found:
        return 0.0 if right else 1.0
    last = right[len(found) - 1][1]
    scores = dict(right)
    if compared is Compared.DISTANCES:
        good = [key for key, _ in found if scores.get(key, math.inf) <= last * (1 + 1e-6)]
    else:
        good = [key for key, _ in found if scores.get(key, -math.inf) >= last * (1 - 1e-6)]
    return len(good) / len(found)
