"""Figures of operations that change what they work on: a few rounds each, processor and clock."""

from __future__ import annotations

import gc
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter, process_time
from typing import Any

from bench import report
from bench.query.places import PUBLISHED, Place
from omnigraph.cli import render
from omnigraph.errors import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What one operation took, in seconds, and what it is held against."""

    name: str
    cpu: float
    wall: float
    against: str = ""
    ratio: float | None = None
    target: str = ""
    is_met: bool | None = None
    subject: str = ""  # the part of its page

    @property
    def verdict(self) -> str:
        """The outcome in a word."""
        return "-" if self.is_met is None else "met" if self.is_met else "MISSED"

    def at_most(self, most: float, other: Figure) -> Figure:
        """Held against another figure: so many times its processor time."""
        ratio = self.cpu / other.cpu
        return replace(
            self,
            against=other.name,
            ratio=ratio,
            target=f"<= {most:g}x",
            is_met=ratio <= most,
        )

    def below(self, seconds: float) -> Figure:
        """Held against a time of the processor."""
        target = f"< {report.duration(seconds * 1e6)}"
        return replace(self, target=target, is_met=self.cpu < seconds)


@dataclass(slots=True)
class Taken:
    """The times of several rounds."""

    cpu: list[float]
    wall: list[float]

    @classmethod
    def nothing(cls) -> Taken:
        """No round yet."""
        return cls([], [])

    def time(self, call: Callable[[], Any]) -> Any:
        """Call something, and add what it took."""
        gc.collect()
        begin, clock = process_time(), perf_counter()
        found = call()
        self.cpu.append(process_time() - begin)
        self.wall.append(perf_counter() - clock)
        return found

    @property
    def seconds(self) -> tuple[float, float]:
        """The medians of processor and clock."""
        return statistics.median(self.cpu), statistics.median(self.wall)

    def figure(self, name: str) -> Figure:
        """The medians as a figure."""
        cpu, wall = self.seconds
        return Figure(name=name, cpu=cpu, wall=wall)


def publish(name: str, text: str, figures: Sequence[Figure], scale: float) -> JsonValue:
    """Print a page, write it with its figures, and give the figures as plain values."""
    render.out().line(text)
    target = PUBLISHED if scale == 1 else Place.of(scale).results
    target.mkdir(parents=True, exist_ok=True)
    (target / f"{name}.md").write_text(text, encoding="utf-8")
    found: JsonValue = {
        "facts": report.facts(),
        "figures": [{**asdict(each), "verdict": each.verdict} for each in figures],
    }
    (target / f"{name}.json").write_text(f"{json.dumps(found, indent=2)}\n", encoding="utf-8")
    return found


def head(title: str, group: str, scale: float) -> list[str]:
    """The first lines of a page."""
    about = report.facts()
    return [
        f"# {title}",
        "",
        f"Written by `python -m bench {group}`; do not edit. The same figures for programs: "
        f"[{group}.json]({group}.json).",
        "",
        f"{about['implementation']} {about['python']}, {about['cores']} cores, "
        f"{about['machine']}" + ("." if scale == 1 else f", scale {scale:g}."),
        "",
    ]


def table(figures: Sequence[Figure]) -> list[str]:
    """The lines of a table of figures."""
    lines = [
        "| what | processor | clock | ratio | target | verdict |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for each in figures:
        ratio = "" if each.ratio is None else f"{each.ratio:.2f}x of {each.against}"
        cells = (
            each.name,
            report.duration(each.cpu * 1e6),
            report.duration(each.wall * 1e6),
            ratio,
            each.target,
            each.verdict,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines
