"""What was measured, and how it compares with the targets."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.query.engines import OURS
from bench.query.prepare import Loaded
from bench.query.questions import Question
from omnigraph.errors import JsonValue

SPEEDUP_LEAST: Final = 1.0
MEAN_LEAST: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One engine at one question, warm. Without samples it could not be measured."""

    samples: tuple[int, ...] = ()  # nanoseconds
    right: bool = False
    note: str = ""

    @property
    def median_ms(self) -> float:
        """The middle of the times."""
        return statistics.median(self.samples) / 1e6

    @property
    def p95_ms(self) -> float:
        """What 95 of 100 calls stay below; with few calls simply a high one."""
        ordered = sorted(self.samples)
        return ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))] / 1e6

    @property
    def counts(self) -> bool:
        """Whether the time is the time of a right answer."""
        return self.right and bool(self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cold:
    """One engine at one question in new processes; medians in milliseconds, the peak in bytes."""

    wall_ms: float
    open_ms: float
    first_ms: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A whole run."""

    scale: float
    questions: tuple[Question, ...]
    loaded: tuple[Loaded, ...]
    warm: Mapping[tuple[str, str], Cell]  # by engine and question
    cold: Mapping[tuple[str, str], Cold]
    memory: Mapping[str, int]  # the peak of each engine over all questions, in bytes
    facts: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def engines(self) -> tuple[str, ...]:
        """Who took part."""
        return tuple(item.engine for item in self.loaded)

    def ours(self, question: Question) -> Cell | None:
        """Our own figures, if the answer was right."""
        cell = self.warm.get((OURS, question.name))
        return cell if cell is not None and cell.counts else None

    def best_peer(self, question: Question) -> tuple[str, Cell] | None:
        """The fastest of the others that answer rightly."""
        found = [
            (name, cell)
            for name in self.engines
            if name != OURS
            and (cell := self.warm.get((name, question.name))) is not None
            and cell.counts
        ]
        return min(found, key=lambda item: item[1].median_ms, default=None)

    def speedup(self, question: Question) -> float | None:
        """How many times as long the best peer takes."""
        ours, peer = self.ours(question), self.best_peer(question)
        if ours is None or peer is None:
            return None
        return peer[1].median_ms / ours.median_ms

    def verdict(self, question: Question) -> str:
        """Whether the question meets its target."""
        if (speedup := self.speedup(question)) is None:
            return "-"
        return "met" if speedup >= SPEEDUP_LEAST else "MISSED"

    @property
    def mean_speedup(self) -> float | None:
        """The geometric mean over all questions that can be compared."""
        return geometric_mean(
            [value for item in self.questions if (value := self.speedup(item)) is not None]
        )

    @property
    def mean_verdict(self) -> str:
        """Whether the mean meets its target."""
        mean = self.mean_speedup
        if mean is None:
            return "-"
        return "met" if mean >= MEAN_LEAST else "MISSED"

    def to_json(self) -> JsonValue:
        """Everything as plain values; times in milliseconds."""
        mean = self.mean_speedup
        return {
            "scale": self.scale,
            "facts": dict(self.facts),
            "engines": [
                {
                    "name": item.engine,
                    "version": item.version,
                    "load_seconds": item.seconds,
                    "bytes_on_disk": item.bytes_on_disk,
                    "peak_bytes": self.memory.get(item.engine),
                }
                for item in self.loaded
            ],
            "questions": [self._question_json(item) for item in self.questions],
            "mean_speedup": None if mean is None else round(mean, 3),
            "mean_speedup_least": MEAN_LEAST,
            "mean_verdict": self.mean_verdict,
        }

    def _question_json(self, question: Question) -> JsonValue:
        speedup, peer = self.speedup(question), self.best_peer(question)
        warm: dict[str, JsonValue] = {}
        cold: dict[str, JsonValue] = {}
        for (engine, name), cell in self.warm.items():
            if name == question.name:
                warm[engine] = {"right": cell.right, "note": cell.note, **_times(cell)}
        for (engine, name), item in self.cold.items():
            if name == question.name:
                cold[engine] = {
                    "wall_ms": round(item.wall_ms, 3),
                    "open_ms": round(item.open_ms, 3),
                    "first_ms": round(item.first_ms, 3),
                    "peak_bytes": item.peak_bytes,
                }
        return {
            "name": question.name,
            "title": question.title,
            "warm": warm,
            "cold": cold,
            "best_peer": None if peer is None else peer[0],
            "speedup": None if speedup is None else round(speedup, 3),
            "verdict": self.verdict(question),
        }


def _times(cell: Cell) -> dict[str, JsonValue]:
    if not cell.samples:
        return {"samples": 0}
    return {
        "median_ms": round(cell.median_ms, 5),
        "p95_ms": round(cell.p95_ms, 5),
        "samples": len(cell.samples),
    }


def geometric_mean(values: Sequence[float]) -> float | None:
    """The mean of ratios."""
    if not values:
        return None
    return math.exp(sum(math.log(value) for value in values) / len(values))
