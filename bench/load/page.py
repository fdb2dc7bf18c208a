"""The figures for people: tables in the terminal, a page of the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.load.figures import Figures, Measured, Part
from bench.report import STYLES, duration
from omnigraph.cli import render
from omnigraph.cli.plain import Part as Piece

MISSING: Final = "-"
HEADINGS: Final = ("", "time", "processor", "rows/s", "MB/s", "peak memory")
BY_PROCESS: Final = ("driver", "JVM", "largest worker", "read")

METHOD: Final = """\
The data is made from a seed. The mixed file has people and companies in no order, then who knows
whom and who works where; lines of about 150 bytes. The schema has keys, an enum, a range and a
cardinality, so a load judges all of these, the ends of every edge, and the uniqueness of every
key, and ends with one commit that is synced to disk.

The floor reads the same files with Arrow and writes the same tables as Lance fragments, on two
threads, and that is all: nothing is judged, exchanged, committed or synced. "No ids" leaves out the
column of ids, which the input does not have and every table of a graph does.

Everybody runs in a process of their own on two cores, warm unless it says otherwise, into an empty
place; contenders take turns in shuffled order, for two to five rounds, and the least time of each
is told: a noisy machine only ever adds to it. Who does not end up with the right number of rows of
every type does not count. "Processor" is the time of all threads and processes together, "peak
memory" the sum of the peaks of all processes, the JVM of Spark included.
"""


def show_part(part: Part) -> None:
    """Print what one part found."""
    screen = render.out()
    screen.line((part.name, "bold"), f": {part.title}")
    screen.table(_headings(part), [_shown(part, item) for item in part.measured])
    for remark in part.remarks:
        screen.line(remark)
    for item in part.measured:
        if item.note:
            screen.line(f"{item.name}: not measured: {item.note}")


def show_goals(figures: Figures) -> None:
    """Print how a run compares with the targets."""
    screen = render.out()
    screen.line(("load", "bold"), f": scale {figures.scale:g}, against the targets")
    screen.table(
        ("part", "what", "found", "target", "verdict"),
        [
            (part.name, goal.text, goal.found, goal.target, (goal.verdict, STYLES[goal.verdict]))
            for part in figures.parts
            for goal in part.goals
        ],
    )
    missed = sum(goal.verdict == "MISSED" for part in figures.parts for goal in part.goals)
    if missed:
        screen.line((f"{missed} MISSED", "bold red"))


def markdown(figures: Figures) -> str:
    """The page."""
    facts = figures.facts
    parts = [
        "# Loads and exports, compared",
        "Written by `make bench`; do not edit. The same figures for programs: "
        "[load.json](load.json).",
        "![Time of each contender](load.svg)",
        "## Targets",
        _table(
            ("", "", "found", "target", ""),
            [
                (part.name, goal.text, goal.found, goal.target, goal.verdict)
                for part in figures.parts
                for goal in part.goals
            ],
        ),
    ]
    for part in figures.parts:
        parts += [f"## {part.title}", _part_table(part)]
        notes = [f"- {remark}" for remark in part.remarks]
        notes += [
            f"- {item.name}: not measured, {item.note}" for item in part.measured if item.note
        ]
        if notes:
            parts.append("\n".join(notes))
    parts += [
        "## How it is measured",
        METHOD.strip(),
        f"Measured with {facts.get('implementation')} {facts.get('python')} on "
        f"{facts.get('cores')} cores, {facts.get('machine')}.",
    ]
    return "\n\n".join(parts) + "\n"


def _part_table(part: Part) -> str:
    rows = []
    for item in part.measured:
        name, *cells = _cells(part, item)
        rows.append((f"**{name}**" if item.ours else name, *cells))
    return _table(_headings(part), rows)


def _shown(part: Part, item: Measured) -> tuple[Piece, ...]:
    name, *cells = _cells(part, item)
    return ((name, "bold" if item.ours else ""), *cells)


def _headings(part: Part) -> tuple[str, ...]:
    ratio = () if part.base is None else (f"x {part.base}",)
    return (*HEADINGS, *(BY_PROCESS if part.by_process else ()), *ratio)


def _cells(part: Part, item: Measured) -> tuple[str, ...]:
    ratio = part.ratio(item)
    told: tuple[str, ...] = (
        item.name,
        _seconds(item.seconds),
        _seconds(item.cpu_seconds),
        _number(item.rows_per_second),
        _number(item.megabytes_per_second),
        _mebibytes(item.peak_bytes),
    )
    if part.by_process:
        each = (item.driver_bytes, item.jvm_bytes, item.worker_bytes, item.read_bytes)
        told += tuple(map(_mebibytes, each))
    if part.base is None:
        return told
    return (*told, MISSING if ratio is None else f"{ratio:.2f}")


def _mebibytes(value: int | None) -> str:
    return MISSING if value is None else f"{value / (1 << 20):,.0f} MiB"


def _seconds(value: float | None) -> str:
    return MISSING if value is None else duration(value * 1e6)


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:,.0f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
