"""Merging a little into a lot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.load import generate
from bench.load.course import Course, Entry
from bench.load.figures import Part
from bench.load.parts.common import INPROCESS, SPARK, at_most, engine, in_order
from bench.load.schema import GRAPH

RAW: Final = "raw merge_insert"
INDEXED: Final = ", index on ids"
MOST: Final = 3.0


def merge(course: Course, scale: float) -> Part:
    """100,000 people into five million, every second one known."""
    folder = course.place.data("merge")
    base, change = generate.merging(folder, scale)
    source = str(folder / "change.parquet")
    entries = [*_entries(course, base, change, source)]
    found = course.run(entries)
    return Part(
        name="merge",
        title=f"Merge of {change:,} rows, half of them known, into {base:,}",
        measured=in_order(found, entries),
        base=RAW,
        # So few rows do not go to Spark by themselves: it is told, and not judged.
        goals=(at_most(found, INPROCESS, RAW, MOST),),
        remarks=("Every pass starts from the same state of the table.",),
    )


def _entries(course: Course, base: int, change: int, source: str) -> list[Entry]:
    table, graph = course.keep("table"), course.keep("graph")
    whole = str(course.place.data("merge") / "base.parquet")
    course.say("filling a table and a graph")
    make = Entry(
        name=RAW,
        call="bench.load.raw:create",
        arguments={"source": whole, "target": str(table)},
        counts={"Person": base},
    )
    course.once(make)
    fill = {"source": {"Person": whole}, "target": str(graph), "schema": GRAPH}
    course.once(replace(make, call="bench.load.ours:load", arguments={**fill, **engine(INPROCESS)}))
    after = base + change - change // 2
    told: dict[str, Any] = {"rows": change, "bytes": _bytes(source), "warm": {"source": source}}
    raw = Entry(
        name=RAW,
        call="bench.load.raw:merge",
        arguments={"source": source},
        base=table,
        counts={"Person": after},
        **told,
    )
    rows = {"Person": source}
    found = [raw]
    for name in (INPROCESS, SPARK):
        arguments = {"source": rows, "mode": "merge", **engine(name)}
        found.append(
            replace(
                raw,
                name=name,
                call="bench.load.ours:load",
                arguments=arguments,
                warm=arguments,
                base=graph,
                ours=True,
            )
        )
    indexed_table, indexed_graph = course.keep("table-indexed"), course.keep("graph-indexed")
    for here, there, call in (
        (table, indexed_table, "bench.load.raw:index"),
        (graph, indexed_graph, "bench.load.ours:index"),
    ):
        course.copy(here, there)
        course.once(replace(make, call=call, arguments={"target": str(there)}))
    found += [
        replace(found[0], name=RAW + INDEXED, base=indexed_table),
        replace(found[1], name=INPROCESS + INDEXED, base=indexed_graph),
    ]
    return found


def _bytes(path: str) -> int:
    return Path(path).stat().st_size
