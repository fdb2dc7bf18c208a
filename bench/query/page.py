"""The figures for people: a table in the terminal, a page of the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.query.engines import OURS
from bench.query.figures import MEAN_LEAST, SPEEDUP_LEAST, Cell, Figures
from bench.query.questions import Question
from bench.query.rounds import EMPTY
from bench.report import STYLES, duration
from omnigraph.cli import render
from omnigraph.cli.plain import Part

MISSING: Final = "-"

METHOD: Final = """\
The graph is made from a seed: {persons:,} people, {knows:,} who-knows-whom edges with power-law
degrees, companies and employments, {docs:,} documents of about 40 words with vectors of 64 numbers,
one to three authors each. Every engine has the same data in its own format, with the indexes that
help it, and runs in a process of its own on two cores. Statements are prepared where an engine can
do that; all rows are fetched as Python values. This graph is asked through `graph.query(text,
params)`.

Answers are compared before anything is timed: of questions about the graph all engines must give
the same rows; of searches the best documents are computed by the plain formulas, and an engine must
find {recall:.0%} of them by vector ({overlap:.0%} when two rankings are fused, since engines fuse
different depths). An answer that does not pass does not count.

Then the engines take turns in bursts of up to 60 calls with different parameters or one second, in
five rounds and in shuffled order. "Best peer" is the fastest of the others that answers rightly.
"""


def show(figures: Figures) -> None:
    """Print what a run found."""
    screen = render.out()
    screen.line(("query", "bold"), f": scale {figures.scale:g}, medians of warm calls")
    headings = ("question", *figures.engines, "best peer", "speedup", "verdict")
    screen.table(headings, [_row(figures, item) for item in figures.questions])
    mean = figures.mean_speedup
    if mean is not None:
        style = STYLES[figures.mean_verdict]
        screen.line(
            f"geometric mean of the speedups: {mean:.2f}x (target {MEAN_LEAST:g}x): ",
            (figures.mean_verdict, style),
        )
    peaks = ", ".join(f"{name} {_bytes(peak)}" for name, peak in figures.memory.items())
    screen.line(f"peak memory over all questions: {peaks}")
    for (engine, question), cell in figures.warm.items():
        if not cell.counts:
            screen.line(f"{question}, {engine}: not counted: {cell.note}")


def _row(figures: Figures, question: Question) -> tuple[Part, ...]:
    peer, speedup = figures.best_peer(question), figures.speedup(question)
    verdict = figures.verdict(question)
    return (
        f"{question.name} {question.title}",
        *(_median(figures.warm.get((name, question.name))) for name in figures.engines),
        MISSING if peer is None else peer[0],
        MISSING if speedup is None else f"{speedup:.2f}x",
        (verdict, STYLES[verdict]),
    )


def _median(cell: Cell | None) -> str:
    if cell is None or not cell.samples:
        return MISSING
    return duration(cell.median_ms * 1e3) + ("" if cell.right else " (wrong)")


def markdown(figures: Figures, method: str) -> str:
    """The page."""
    mean = figures.mean_speedup
    facts = figures.facts
    parts = [
        "# Queries, compared",
        "Written by `make bench`; do not edit. The same figures for programs: "
        "[query.json](query.json).",
        "![Time per query of each engine, on a logarithmic scale](query.svg)",
        "## Warm",
        f"Median (p95) per call. Target: not slower than the best peer at any question, "
        f"{MEAN_LEAST:g} times as fast on the geometric mean.",
        _table(
            ("", *(_bold(name) for name in figures.engines), "best peer", "speedup"),
            [_warm_row(figures, item) for item in figures.questions],
        ),
    ]
    if mean is not None:
        parts.append(f"Geometric mean of the speedups: **{mean:.1f}x** ({figures.mean_verdict}).")
    parts += [
        "## From a new process",
        "Start of the interpreter, import, opening and the first answer together; in parentheses "
        "the first answer alone. Files are in the page cache. "
        f"`{EMPTY}` starts without anything that earlier processes derived.",
        _cold_table(figures),
        "## Size",
        _size_table(figures),
        "## How it is measured",
        method.strip(),
        "## Remarks",
        "\n".join(_remarks(figures)),
        f"Measured with {facts.get('implementation')} {facts.get('python')} on "
        f"{facts.get('cores')} cores, {facts.get('machine')}.",
    ]
    return "\n\n".join(parts) + "\n"


def _warm_row(figures: Figures, question: Question) -> tuple[str, ...]:
    peer, speedup = figures.best_peer(question), figures.speedup(question)
    cells = []
    for name in figures.engines:
        cell = figures.warm.get((name, question.name))
        if cell is None or not cell.counts:
            cells.append(MISSING)
            continue
        text = f"{duration(cell.median_ms * 1e3)} ({duration(cell.p95_ms * 1e3)})"
        cells.append(_bold(text) if name == OURS else text)
    fast = MISSING
    if speedup is not None:
        fast = _bold(f"{speedup:.1f}x") if speedup >= SPEEDUP_LEAST else f"{speedup:.2f}x"
    return (
        f"{question.name} {question.title}",
        *cells,
        MISSING if peer is None else peer[0],
        fast,
    )


def _cold_table(figures: Figures) -> str:
    names = [OURS, EMPTY, *(name for name in figures.engines if name != OURS)]
    names = [name for name in names if any(engine == name for engine, _ in figures.cold)]
    rows = []
    for question in figures.questions:
        cells = []
        for name in names:
            item = figures.cold.get((name, question.name))
            cells.append(
                MISSING if item is None else f"{item.wall_ms:.0f} ms ({item.first_ms:.3g} ms)"
            )
        if any(cell != MISSING for cell in cells):
            rows.append((f"{question.name} {question.title}", *cells))
    return _table(("", *names), rows)


def _size_table(figures: Figures) -> str:
    return _table(
        ("", "version", "load and index", "on disk", "peak memory, all questions"),
        [
            (
                item.engine,
                item.version,
                f"{item.seconds:.1f} s",
                _bytes(item.bytes_on_disk),
                _bytes(figures.memory[item.engine]) if item.engine in figures.memory else MISSING,
            )
            for item in figures.loaded
        ],
    )


def _remarks(figures: Figures) -> list[str]:
    told = [
        "- Which engines load the documents: those that search them. kuzu and ladybug do not: "
        "their vector and text search is an extension from the network, or takes ten minutes to "
        "index.",
        "- lance-graph has no parameters in conditions, no distinct count, no cycles and no "
        "negation; its keys stand in the text and its rows are counted in Python.",
    ]
    for (engine, question), cell in figures.warm.items():
        if not cell.counts:
            told.append(f"- {question}, {engine}: not counted, {cell.note}.")
        elif " of the best" in cell.note:
            told.append(f"- {question}, {engine}: {cell.note}.")
    return told


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _bold(text: str) -> str:
    return f"**{text}**"


def _bytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
