"""Taking times: cases in interleaved rounds, so that a busy moment hits all of them alike."""

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

ROUNDS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Something to call; `calls` times per round, plus once beforehand to warm up."""

    name: str
    call: Callable[[], object]
    calls: int = 1
    target_us: float | None = None
    bytes_per_call: int | None = None  # to tell the throughput


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a case took, in microseconds."""

    case: Case
    samples: tuple[float, ...]

    @property
    def median_us(self) -> float:
        return statistics.median(self.samples)

    @property
    def p95_us(self) -> float:
        ordered = sorted(self.samples)
        return ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]

    @property
    def megabytes_per_second(self) -> float | None:
        size = self.case.bytes_per_call
        return None if size is None else size / self.median_us

    @property
    def verdict(self) -> str:
        if self.case.target_us is None:
            return "-"
        return "met" if self.median_us <= self.case.target_us else "MISSED"


def measure(cases: Sequence[Case], rounds: int = ROUNDS) -> list[Outcome]:
    """Run every case in every round."""
    samples: list[list[float]] = [[] for _ in cases]
    for case in cases:
        case.call()
    for _ in range(rounds):
        for case, taken in zip(cases, samples, strict=True):
            gc.collect()
            taken.extend(_batch(case))
    return [
        Outcome(case=case, samples=tuple(taken)) for case, taken in zip(cases, samples, strict=True)
    ]


def _batch(case: Case) -> list[float]:
    call, taken = case.call, []
    for _ in range(case.calls):
        start = perf_counter_ns()
        call()
        taken.append((perf_counter_ns() - start) / 1_000)
    return taken
