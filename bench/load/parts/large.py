"""Loads whose shape is hard: very many pieces, very many rows in little space, all rows updated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.load import items
from bench.load.course import Course, Entry
from bench.load.figures import Goal, Measured, Part
from bench.load.parts.common import INPROCESS, SPARK, at_most, engine, in_order, ours

FEW: Final = ", few files"
MANY: Final = ", many files"
MANY_MOST: Final = 3.0
# Decision 0013 says where these bytes go.
DRIVER_MOST_MIB: Final = 1_536.0
WORKER_MOST_MIB: Final = 1_024.0
_MIB: Final = 1 << 20


def pieces(course: Course, scale: float) -> Part:
    """24 million rows in four files and in 2,000."""
    folder = course.place.data("pieces")
    rows, count = items.pieces(folder, scale)
    entries = [
        _fresh(name + suffix, name, folder / kind / "part-*.parquet", rows)
        for name in (INPROCESS, SPARK)
        for suffix, kind in ((FEW, "few"), (MANY, "many"))
    ]
    found = course.run(entries, 1)
    return Part(
        name="pieces",
        title=f"{rows:,} rows as Parquet, in {items.FEW_FILES} files and in {count:,}",
        measured=in_order(found, entries),
        goals=(
            *(at_most(found, who + MANY, who + FEW, MANY_MOST) for who in (INPROCESS, SPARK)),
            *_memory(found[SPARK + MANY]),
        ),
        by_process=True,
    )


def packed(course: Course, scale: float) -> Part:
    """16 million rows in a few megabytes."""
    folder = course.place.data("packed")
    rows = items.packed(folder, scale)
    source = folder / "Item.parquet"
    entries = [_fresh(name, name, source, rows) for name in (INPROCESS, SPARK)]
    found = course.run(entries, 1)
    size = source.stat().st_size / 1e6
    return Part(
        name="packed",
        title=f"{rows:,} rows in one Parquet file of {size:,.1f} MB",
        measured=in_order(found, entries),
        goals=_memory(found[SPARK]),
        by_process=True,
    )


def update(course: Course, scale: float) -> Part:
    """12 million rows, all of them updated by one merge."""
    folder = course.place.data("updated")
    rows = items.updated(folder, scale)
    graph = course.keep("updated")
    course.say("filling a graph")
    fill = ours(
        INPROCESS,
        {"Item": str(folder / "base.parquet")},
        None,
        schema=items.SCHEMA,
        counts={"Item": rows},
        bytes=0,
    )
    course.once(replace(fill, arguments={**fill.arguments, "target": str(graph)}))
    change = folder / "change.parquet"
    entries = []
    for name in (INPROCESS, SPARK):
        entry = _fresh(name, name, change, rows)
        arguments = {"source": {"Item": str(change)}, "mode": "merge", **engine(name)}
        entries.append(replace(entry, arguments=arguments, base=graph))
    found = course.run(entries, 1)
    return Part(
        name="update",
        title=f"Merge that updates all of {rows:,} rows, in another order",
        measured=in_order(found, entries),
        goals=_memory(found[SPARK]),
        by_process=True,
    )


def _fresh(name: str, who: str, source: Path, rows: int) -> Entry:
    """A load of items by a process of its own, so that its peaks are those of the load."""
    told: dict[str, Any] = {"counts": {"Item": rows}, "bytes": _bytes(source)}
    entry = ours(
        name,
        {"Item": str(source)},
        None,
        schema=items.SCHEMA,
        engine_name=who,
        fresh=True,
        **told,
    )
    return entry


def _memory(item: Measured) -> tuple[Goal, Goal]:
    """The bounds of decision 0013, at any size."""
    driver, worker = item.driver_bytes, item.worker_bytes
    return (
        _mebibytes(f"{item.name}: memory of the driver", driver, DRIVER_MOST_MIB),
        _mebibytes(f"{item.name}: memory of the largest worker", worker, WORKER_MOST_MIB),
    )


def _mebibytes(text: str, found: int | None, limit: float) -> Goal:
    value = None if found is None else found / _MIB
    return Goal(text=text, value=value, limit=limit, unit=" MiB")


def _bytes(source: Path) -> int:
    return sum(path.stat().st_size for path in source.parent.glob(source.name))
