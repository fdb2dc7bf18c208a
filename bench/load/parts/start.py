"""What comes before bulk: the start of Spark, and inputs too small to wait for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from bench.load.course import Course, Entry
from bench.load.figures import Goal, Measured, Part
from bench.load.parts.common import INPROCESS, MASTER, SPARK, in_order, ours, small_graph

FIRST: Final = "Spark, first job"
FIRST_TASK: Final = "Spark, first task of ours"
PLAIN: Final = "Spark as it comes, first job"
SERVED: Final = "kept Connect server, first job"
SERVED_TASK: Final = "kept Connect server, first task of ours"
FIRST_MOST_S: Final = 5.0
SERVED_MOST_S: Final = 1.2
SMALL_MOST_S: Final = 0.25
NEW: Final = ", new process"
ROUNDS: Final = 5
SMALL_ROUNDS: Final = 15


def start(course: Course, scale: float) -> Part:
    """New processes, and 20,000 lines. The same at every scale."""
    course.once(Entry(name="archive", call="bench.load.ours:ready", arguments={}, counts={}))
    cold = [_first(FIRST, MASTER), _first(FIRST_TASK, MASTER, task=True)]
    plain = Entry(
        name=PLAIN, call="bench.load.spark_alone:first_job", arguments={}, counts={}, fresh=True
    )
    served = [_first(SERVED, "connect"), _first(SERVED_TASK, "connect", task=True)]
    folder, size = small_graph(course)
    source = folder / "graph.jsonl"
    told: dict[str, Any] = {"counts": size.counts, "bytes": source.stat().st_size}
    small = [ours(name, str(source), str(source), **told) for name in (INPROCESS, SPARK)]
    new = [
        replace(ours(name, str(source), None, fresh=True, **told), name=name + NEW)
        for name in (INPROCESS, SPARK)
    ]
    found = course.run([*cold, plain, *new], ROUNDS)
    try:
        # The first one starts the server.
        course.once(_first(SERVED, "connect"))
        found |= course.run(served, ROUNDS)
    finally:
        course.once(Entry(name="end", call="bench.load.ours:end_server", arguments={}, counts={}))
    found |= course.run(small, SMALL_ROUNDS)
    lines = sum(size.counts.values())
    return Part(
        name="start",
        title=f"From a new process to the first job; {lines:,} lines into an empty graph",
        measured=in_order(found, [plain, *cold, *served, *small, *new]),
        goals=(
            _seconds(found[FIRST], FIRST_MOST_S),
            _seconds(found[SERVED], SERVED_MOST_S),
            _seconds(found[INPROCESS], SMALL_MOST_S, f"{lines:,} lines, {INPROCESS}"),
        ),
        remarks=(
            "New processes are timed from their start, the interpreter and imports included; the "
            "class-data archive of Spark is there.",
        ),
    )


def _first(name: str, master: str, *, task: bool = False) -> Entry:
    return Entry(
        name=name,
        call="bench.load.ours:first_job",
        arguments={"spark": master, "task": task},
        counts={},
        fresh=True,
        ours=True,
    )


def _seconds(item: Measured, limit: float, text: str | None = None) -> Goal:
    return Goal(text=text or item.name, value=item.seconds, limit=limit, unit=" s")
