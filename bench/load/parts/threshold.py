"""From which size on Spark is worth it: both engines at growing sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.load import generate
from bench.load.course import Course, Entry
from bench.load.figures import Measured, Part
from bench.load.parts.common import INPROCESS, SPARK, in_order, ours, small_graph

MEGABYTES: Final = (16, 32, 64, 128, 256, 512, 1_024)
FULL_MEGABYTES: Final = 590  # what scale 1 makes
ROUNDS: Final = 2


def threshold(course: Course, scale: float) -> Part:
    """The figures behind `engine="auto"`."""
    small = str(small_graph(course)[0] / "graph.jsonl")
    measured: list[Measured] = []
    remarks = []
    for megabytes in MEGABYTES:
        folder = course.place.data(f"graph-{megabytes}")
        size = generate.graph(folder, scale * megabytes / FULL_MEGABYTES, parquet=False)
        source = folder / "graph.jsonl"
        entries = _entries(source, size, small)
        found = course.run(entries, ROUNDS)
        here = in_order(found, entries)
        measured += here
        alone, warm, cold = (item.seconds for item in here)
        if alone and warm and cold:
            remarks.append(
                f"{source.stat().st_size / 1e6:,.0f} MB: Spark takes {warm / alone:.2f} times as "
                f"long warm, {cold / alone:.2f} times with its start"
            )
    return Part(
        name="threshold",
        title="NDJSON of growing sizes, for the choice of the engine",
        measured=tuple(measured),
        remarks=tuple(remarks),
    )


def _entries(source: Path, size: generate.Size, small: str) -> list[Entry]:
    told: dict[str, Any] = {"counts": size.counts, "bytes": source.stat().st_size}
    shown = f"{told['bytes'] / 1e6:,.0f} MB"
    warm = [
        replace(ours(name, str(source), small, **told), name=f"{shown}, {name}")
        for name in (INPROCESS, SPARK)
    ]
    cold = ours(SPARK, str(source), None, fresh=True, **told)
    return [*warm, replace(cold, name=f"{shown}, {SPARK}, new process")]
