"""What several parts share: who this graph is, and the small input to warm up with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.load import generate
from bench.load.contender import THREADS
from bench.load.course import Course, Entry
from bench.load.figures import Goal, Measured, times
from bench.load.schema import GRAPH

INPROCESS: Final = "omnigraph, in-process"
SPARK: Final = "omnigraph, Spark"
FLOOR: Final = "floor"
FLOOR_PLAIN: Final = "floor, no ids"

MASTER: Final = f"local[{THREADS}]"
# 20,000 lines: what does not count as bulk.
SMALL: Final = 0.005


def small_graph(course: Course) -> tuple[Path, generate.Size]:
    """The graph to warm up with."""
    folder = course.place.data("small")
    return folder, generate.graph(folder, SMALL)


def engine(name: str) -> dict[str, str]:
    """The arguments that choose an engine."""
    if name == INPROCESS:
        return {"engine": "inprocess"}
    return {"engine": "spark", "spark": MASTER}


def ours(
    name: str,
    source: Any,
    warm: Any,
    *,
    schema: str = GRAPH,
    counts: Mapping[str, int],
    bytes: int,
    engine_name: str | None = None,
    **more: Any,
) -> Entry:
    """This graph, filled from a source; its name is that of an engine unless that is given."""
    chosen = {**engine(engine_name or name), "schema": schema}
    return Entry(
        name=name,
        call="bench.load.ours:load",
        arguments={"source": source, **chosen},
        warm=None if warm is None else {"source": warm, **chosen},
        counts=counts,
        rows=sum(counts.values()),
        bytes=bytes,
        ours=True,
        **more,
    )


def at_most(found: Mapping[str, Measured], who: str, other: str, limit: float) -> Goal:
    """Somebody may take so many times as long as somebody else."""
    value = times(found.get(who), found.get(other))
    return Goal(text=f"{who}: time beside {other}", value=value, limit=limit)


def faster(found: Mapping[str, Measured], who: str, other: str, least: float) -> Goal:
    """Somebody should be so many times as fast as somebody else."""
    value = times(found.get(other), found.get(who))
    return Goal(text=f"{who}: speed beside {other}", value=value, limit=least, at_least=True)


def in_order(found: Mapping[str, Measured], entries: Sequence[Entry]) -> tuple[Measured, ...]:
    """What was measured, in the order of the entries."""
    return tuple(found[entry.name] for entry in entries)


def parquet_files(folder: Path, types: Sequence[str]) -> dict[str, str]:
    """The files of a folder by type."""
    return {name: str(folder / f"{name}.parquet") for name in types}


def bytes_of(files: Mapping[str, str]) -> int:
    """The size of some files together."""
    return sum(Path(path).stat().st_size for path in files.values())
