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
    against: str | None = None  # the case to compare with
    ratio_max: float | None = None  # how many times as long it may take


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a case took, in microseconds."""

    case: Case
    samples: tuple[float, ...]
    against_us: float | None = None  # the median of the case it is compared with

    @property
    def ratio(self) -> float | None:
        return None if self.against_us is None else self.median_us / self.against_us

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
        limits = []
        if self.case.target_us is not None:
            limits.append(self.median_us <= self.case.target_us)
        if self.case.ratio_max is not None and self.ratio is not None:
            limits.append(self.ratio <= self.case.ratio_max)
        if not limits:
            return "-"
        return "met" if all(limits) else "MISSED"


def measure(
    cases: Sequence[Case], rounds: int = ROUNDS, clock_ns: Callable[[], int] = perf_counter_ns
) -> list[Outcome]:
    """Run every case in every round."""
    samples: list[list[float]] = [[] for _ in cases]
    for case in cases:
        case.call()
    for _ in range(rounds):
        for case, taken in zip(cases, samples, strict=True):
            gc.collect()
            taken.extend(_batch(case, clock_ns))
    medians = {
        case.name: statistics.median(taken) for case, taken in zip(cases, samples, strict=True)
    }
    return [
        Outcome(
            case=case,
            samples=tuple(taken),
            against_us=medians[case.against] if case.against is not None else None,
        )
        for case, taken in zip(cases, samples, strict=True)
    ]


def _batch(case: Case, clock_ns: Callable[[], int]) -> list[float]:
    call, taken = case.call, []
    for _ in range(case.calls):
        start = clock_ns()
        call()
        taken.append((clock_ns() - start) / 1_000)
    return taken
