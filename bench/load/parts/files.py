"""The same lines in one file and in very many."""

from __future__ import annotations

from typing import Final

from bench.load import generate
from bench.load.course import Course
from bench.load.figures import Part
from bench.load.parts.common import INPROCESS, SPARK, at_most, in_order, ours, small_graph

FILES: Final = 20_000
FEWEST: Final = 200
# Ten lines in each file.
SHARE: Final = 0.05
MOST: Final = 3.0
ONE: Final = ", one file"
MANY: Final = ", many files"


def files(course: Course, scale: float) -> Part:
    """20,000 files of ten lines beside one file of the same bytes."""
    folder = course.place.data("files")
    count = max(FEWEST, round(FILES * scale))
    size = generate.graph(folder / "one", SHARE * scale, parquet=False)
    source = folder / "one" / "graph.jsonl"
    generate.divided(source, folder / "many", count)
    small = str(small_graph(course)[0] / "graph.jsonl")
    entries = [
        ours(
            engine + suffix,
            str(given),
            small,
            counts=size.counts,
            bytes=source.stat().st_size,
            engine_name=engine,
        )
        for engine in (INPROCESS, SPARK)
        for suffix, given in ((ONE, source), (MANY, folder / "many" / "part-*.jsonl"))
    ]
    found = course.run(entries)
    return Part(
        name="files",
        title=f"{sum(size.counts.values()):,} lines in one file and in {count:,}",
        measured=in_order(found, entries),
        by_process=True,
        base=INPROCESS + ONE,
        goals=tuple(
            at_most(found, engine + MANY, engine + ONE, MOST) for engine in (INPROCESS, SPARK)
        ),
    )
