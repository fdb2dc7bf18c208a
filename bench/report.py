"""Telling what was measured, to people and to programs."""

import os
import platform
import sys
from collections.abc import Sequence

from bench.measure import Outcome
from omnigraph.cli import render
from omnigraph.cli.plain import Part
from omnigraph.errors import JsonValue

HEADINGS = ("case", "median", "p95", "target", "verdict", "note")
STYLES = {"met": "green", "MISSED": "bold red", "-": ""}


def facts() -> dict[str, JsonValue]:
    """What the figures depend on."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "machine": f"{platform.system()} {platform.machine()}",
    }


def show(group: str, outcomes: Sequence[Outcome], remarks: Sequence[str]) -> None:
    """Print the table of one group."""
    screen = render.out()
    about = facts()
    screen.line(
        (group, "bold"),
        f": {about['implementation']} {about['python']}, {about['cores']} cores, "
        f"{about['machine']}",
    )
    screen.table(HEADINGS, [_row(item) for item in outcomes])
    for remark in remarks:
        screen.line(remark)
    missed = sum(item.verdict == "MISSED" for item in outcomes)
    if missed:
        screen.line((f"{missed} MISSED", "bold red"))


def to_json(outcomes: Sequence[Outcome]) -> list[JsonValue]:
    """The outcomes of one group as plain values; times in microseconds."""
    return [
        {
            "name": item.case.name,
            "median_us": round(item.median_us, 3),
            "p95_us": round(item.p95_us, 3),
            "target_us": item.case.target_us,
            "against": item.case.against,
            "ratio": None if item.ratio is None else round(item.ratio, 3),
            "ratio_max": item.case.ratio_max,
            "verdict": item.verdict,
            "samples": len(item.samples),
        }
        for item in outcomes
    ]


def _row(item: Outcome) -> tuple[Part, ...]:
    speed = item.megabytes_per_second
    note = "" if speed is None else f"{speed:.2f} MB/s"
    if item.ratio is not None:
        note = f"{item.ratio:.2f}x of {item.case.against}"
    return (
        item.case.name,
        duration(item.median_us),
        duration(item.p95_us),
        _target(item),
        (item.verdict, STYLES[item.verdict]),
        note,
    )


def _target(item: Outcome) -> str:
    if item.case.ratio_max is not None:
        return f"<= {item.case.ratio_max:g}x"
    return "-" if item.case.target_us is None else f"< {duration(item.case.target_us)}"


def duration(microseconds: float) -> str:
    """A time in the unit that suits it."""
    if microseconds < 1_000:
        return f"{microseconds:.3g} us"
    if microseconds < 1_000_000:
        return f"{microseconds / 1_000:.3g} ms"
    return f"{microseconds / 1_000_000:.3g} s"
