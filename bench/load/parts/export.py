"""Out of a graph again: one NDJSON file, and Parquet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from bench.load import generate
from bench.load.course import Course, Entry
from bench.load.figures import Part
from bench.load.parts.common import INPROCESS, SPARK, engine, faster, in_order, ours

RAW: Final = "raw scan, polars.write_ndjson"
RAW_PARQUET: Final = "raw scan, Parquet"
PARQUET: Final = f"{INPROCESS}, Parquet"
PARTS: Final = f"{INPROCESS}, NDJSON in parts"
SPARK_PARTS: Final = f"{SPARK}, NDJSON in parts"
SHARE_LEAST: Final = 0.8


def export(course: Course, scale: float) -> Part:
    """The graph of the other parts, exported."""
    folder = course.place.data("graph")
    size = generate.graph(folder, scale)
    source = folder / "graph.jsonl"
    place = course.keep("exported")
    fill = ours(INPROCESS, str(source), None, counts=size.counts, bytes=0)
    course.say("filling a graph")
    course.once(replace(fill, arguments={**fill.arguments, "target": str(place)}))
    told: dict[str, Any] = {
        "counts": size.counts,
        "rows": sum(size.counts.values()),
        "bytes": None,
    }
    raw = {"graph": str(place)}
    entries = [
        Entry(name=RAW, call="bench.load.raw:export_ndjson", arguments=raw, warm=raw, **told),
        _ours(INPROCESS, INPROCESS, raw, {"format": "ndjson"}, told),
        _ours(PARTS, INPROCESS, raw, {"format": "ndjson", "parts": True}, told),
        _ours(SPARK_PARTS, SPARK, raw, {"format": "ndjson", "parts": True}, told),
        Entry(
            name=RAW_PARQUET, call="bench.load.raw:export_parquet", arguments=raw, warm=raw, **told
        ),
        _ours(PARQUET, INPROCESS, raw, {"format": "parquet", "parts": True}, told),
    ]
    found = course.run(entries)
    return Part(
        name="export",
        title=f"Export of {sum(size.counts.values()):,} rows",
        measured=in_order(found, entries),
        base=RAW,
        goals=(
            faster(found, INPROCESS, RAW, SHARE_LEAST),
            faster(found, PARQUET, RAW_PARQUET, SHARE_LEAST),
        ),
        remarks=("MB/s counts what is written. The raw scan writes the lines that a load takes.",),
    )


def _ours(
    name: str, who: str, raw: dict[str, str], more: dict[str, Any], told: dict[str, Any]
) -> Entry:
    arguments = {**raw, **engine(who), **more}
    return Entry(
        name=name,
        call="bench.load.ours:export",
        arguments=arguments,
        warm=arguments,
        ours=True,
        **told,
    )
