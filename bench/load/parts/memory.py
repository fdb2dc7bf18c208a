"""Whether memory follows the input: the same load of four times as much."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from bench.load import generate
from bench.load.course import Course, Entry
from bench.load.figures import Goal, Measured, Part
from bench.load.parts.common import INPROCESS, SPARK, in_order, ours

TIMES: Final = 4
GROWTH_MOST: Final = 1.3


def memory(course: Course, scale: float) -> Part:
    """Each load in a process of its own, so that nothing is left of another."""
    entries: list[Entry] = []
    for name in (INPROCESS, SPARK):
        for factor in (1, TIMES):
            folder = course.place.data("graph" if factor == 1 else "graph-large")
            size = generate.graph(folder, scale * factor, parquet=factor == 1)
            source = folder / "graph.jsonl"
            told: dict[str, Any] = {"counts": size.counts, "bytes": source.stat().st_size}
            entry = ours(name, str(source), None, fresh=True, **told)
            entries.append(replace(entry, name=_name(name, factor)))
    found = course.run(entries, 1)
    return Part(
        name="memory",
        title=f"Peak memory of NDJSON loads, once and {TIMES} times as much",
        measured=in_order(found, entries),
        by_process=True,
        goals=tuple(_growth(found, name) for name in (INPROCESS, SPARK)),
        remarks=(
            "Of Spark the memory of the driver, the JVM and the workers is added up. "
            "The times are those of new processes.",
        ),
    )


def _name(name: str, factor: int) -> str:
    return name if factor == 1 else f"{name}, {factor} times as much"


def _growth(found: dict[str, Measured], name: str) -> Goal:
    once, more = found[name].peak_bytes, found[_name(name, TIMES)].peak_bytes
    value = more / once if once and more else None
    return Goal(text=f"{name}: memory of {TIMES} times as much", value=value, limit=GROWTH_MOST)
