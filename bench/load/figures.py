"""What was measured, and how it compares with the targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bench.load.client import Sample
from omnigraph.errors import JsonValue

MEGABYTE: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What somebody took for something. Without samples it could not be measured.

    Attributes:
        name: Who, and how.
        samples: The passes.
        rows: How many rows one pass moves.
        bytes: How many bytes they are, as input or as output.
        ours: Is it this graph?
        whole: Does the time count from the start of the process?
        note: Why there are no samples.
    """

    name: str
    samples: tuple[Sample, ...] = ()
    rows: int = 0
    bytes: int = 0
    ours: bool = False
    whole: bool = False
    note: str = ""

    @property
    def seconds(self) -> float | None:
        """The least of the times: what else the machine does can only add to it."""
        return None if self._best is None else self._time(self._best)

    @property
    def cpu_seconds(self) -> float | None:
        """The processor time of the same pass, all processes together."""
        return None if self._best is None else self._best.cpu_seconds

    @property
    def _best(self) -> Sample | None:
        return min(self.samples, key=self._time, default=None)

    def _time(self, sample: Sample) -> float:
        return sample.wall_seconds if self.whole else sample.seconds

    @property
    def peak_bytes(self) -> int | None:
        """The most memory of any pass, all processes together."""
        return max((sample.peak_bytes for sample in self.samples), default=None)

    @property
    def driver_bytes(self) -> int | None:
        """The most memory of the process that asked, in any pass."""
        return max((sample.driver_bytes for sample in self.samples), default=None)

    @property
    def jvm_bytes(self) -> int | None:
        """The most memory of Java processes, in any pass."""
        return max((sample.jvm_bytes for sample in self.samples), default=None)

    @property
    def worker_bytes(self) -> int | None:
        """The most memory of any one Python worker, in any pass."""
        return max((sample.worker_bytes for sample in self.samples), default=None)

    @property
    def read_bytes(self) -> int | None:
        """What all processes of the best pass have read."""
        return None if self._best is None else self._best.read_bytes

    @property
    def rows_per_second(self) -> float | None:
        """How many rows one second moves."""
        seconds = self.seconds
        return self.rows / seconds if seconds and self.rows else None

    @property
    def megabytes_per_second(self) -> float | None:
        """How many millions of bytes one second moves."""
        seconds = self.seconds
        return self.bytes / MEGABYTE / seconds if seconds and self.bytes else None

    def to_json(self) -> JsonValue:
        """Everything as plain values."""
        return {
            "name": self.name,
            "ours": self.ours,
            "rows": self.rows,
            "bytes": self.bytes,
            "seconds": _rounded(self.seconds),
            "cpu_seconds": _rounded(self.cpu_seconds),
            "rows_per_second": _rounded(self.rows_per_second),
            "megabytes_per_second": _rounded(self.megabytes_per_second),
            "peak_bytes": self.peak_bytes,
            "note": self.note,
            "samples": [_sample_json(sample, whole=self.whole) for sample in self.samples],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A figure that should not be passed, or that should be reached."""

    text: str
    value: float | None
    limit: float
    at_least: bool = False
    unit: str = "x"

    @property
    def verdict(self) -> str:
        """Whether it is met."""
        if self.value is None:
            return "-"
        good = self.value >= self.limit if self.at_least else self.value <= self.limit
        return "met" if good else "MISSED"

    @property
    def target(self) -> str:
        """The limit in words."""
        return f"{'>=' if self.at_least else '<='} {self.limit:g}{self.unit}"

    @property
    def found(self) -> str:
        """The figure in words."""
        return "-" if self.value is None else f"{self.value:.3g}{self.unit}"

    def to_json(self) -> JsonValue:
        """Everything as plain values."""
        return {
            "text": self.text,
            "value": _rounded(self.value),
            "limit": self.limit,
            "at_least": self.at_least,
            "unit": self.unit,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One comparison.

    Attributes:
        name: How it is called on the command line.
        title: What is compared.
        measured: Who took part.
        goals: What we ask of it.
        base: Whose time is 1 in the column of ratios.
        remarks: What one should know.
        by_process: Whether its table tells memory process by process, and what was read.
    """

    name: str
    title: str
    measured: tuple[Measured, ...]
    goals: tuple[Goal, ...] = ()
    base: str | None = None
    remarks: tuple[str, ...] = ()
    by_process: bool = False

    def ratio(self, item: Measured) -> float | None:
        """How many times as long as the base."""
        base = next((other for other in self.measured if other.name == self.base), None)
        return None if base is None or item is base else times(item, base)

    def to_json(self) -> JsonValue:
        """Everything as plain values."""
        return {
            "name": self.name,
            "title": self.title,
            "base": self.base,
            "measured": [item.to_json() for item in self.measured],
            "goals": [goal.to_json() for goal in self.goals],
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A whole run."""

    scale: float
    parts: tuple[Part, ...]
    facts: Mapping[str, JsonValue] = field(default_factory=dict)

    def to_json(self) -> JsonValue:
        """Everything as plain values."""
        return {
            "scale": self.scale,
            "facts": dict(self.facts),
            "parts": [part.to_json() for part in self.parts],
        }


def times(item: Measured | None, base: Measured | None) -> float | None:
    """How many times as long one takes as the other."""
    if item is None or base is None:
        return None
    taken, other = item.seconds, base.seconds
    return taken / other if taken is not None and other else None


def _sample_json(sample: Sample, *, whole: bool) -> JsonValue:
    return {
        "seconds": _rounded(sample.wall_seconds if whole else sample.seconds),
        "cpu_seconds": sample.cpu_seconds,
        "driver_bytes": sample.driver_bytes,
        "jvm_bytes": sample.jvm_bytes,
        "workers_bytes": sample.workers_bytes,
        "worker_bytes": sample.worker_bytes,
        "read_bytes": sample.read_bytes,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
