"""Measuring: in turns, in this process, processor and clock; then the tables and the page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import lance
import numpy as np
import pyarrow as pa

import omnigraph as og
from bench.figure import Figure, Taken, head, publish, table
from bench.load.processes import forget_peaks, usage
from bench.query.places import ROOT
from bench.versioning import floor
from bench.versioning.graphs import Delta, branched, items, made
from omnigraph.cli import render
from omnigraph.errors import JsonValue

_ROWS, _MANY_ROWS = 1_000_000, 5_000_000
_COUNTS: Final = (1_000, 10_000, 100_000)
_ROUNDS: Final = 3
_FEED_COMMITS: Final = 200
_TYPES, _MANY_TYPES = 10, 100
_PAGE: Final = "versioning"


def run(scale: float, parts: Collection[str] = ()) -> JsonValue:
    """Measure and tell; the figures as plain values. Some parts alone are told, not published."""
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    chosen = [PARTS[name] for name in PARTS if name in parts] or PARTS.values()
    try:
        figures = [figure for part in chosen for figure in part(folder, scale)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = page(figures, scale)
    if not parts:
        return publish(_PAGE, text, figures, scale)
    render.out().line(text)
    return [{**asdict(each), "verdict": each.verdict} for each in figures]


def _three_way(folder: Path, scale: float) -> list[Figure]:
    """Three-way merges, against what they consist of, other sizes of the target, and Spark."""
    rows, many, counts = int(_ROWS * scale), int(_MANY_ROWS * scale), _counts(scale)
    small = _merges(folder, rows, counts)
    commit = _commit(folder)
    ends = list(dict.fromkeys((counts[0], counts[-1])))
    large = _merges(folder, many, ends)
    found = [*small.values(), commit]
    found += [_floored(small, commit, count, rows) for count in counts]
    for count in ends:
        mine, other = (
            each[f"merge {count:,} into {size:,}"] for each, size in ((large, many), (small, rows))
        )
        hand, less = (each[f"by hand, {count:,}"] for each in (large, small))
        hand = replace(hand, name=f"{hand.name}, in {many:,}")
        found += [
            mine.at_most(1.3, other),
            replace(hand, against=f"the same in {rows:,}", ratio=hand.cpu / less.cpu),
        ]
    spark = _spark(folder, rows, counts)
    for count in counts:
        mine = small[f"merge {count:,} into {rows:,}"]
        found.append(_slower(spark[str(count)], mine, count, 3))
    return found


def _counts(scale: float) -> list[int]:
    """The numbers of changed rows."""
    counts = [max(10, int(count * min(1.0, scale * 10))) for count in _COUNTS]
    return [count for count in counts if count * 2 <= int(_ROWS * scale)]


def _merges(folder: Path, rows: int, counts: list[int]) -> dict[str, Figure]:
    """Three-way merges of so many changed rows, in turns with the other ways."""
    found: dict[str, Figure] = {}
    raw, bare = folder / "raw", folder / "bare"
    with made(folder / f"graph{rows}", rows) as graph:
        floor.stored(raw, rows)
        floor.stored(bare, rows)
        for count in counts:
            ours, theirs, least = Taken.nothing(), Taken.nothing(), Taken.nothing()
            for turn in range(_ROUNDS):
                seed = turn + 10 * counts.index(count)
                name, delta = branched(graph, rows, count, seed)
                done = ours.time(lambda name=name: graph.branches.merge(name, resolve="theirs"))  # type: ignore[misc]
                assert done.outcome == "merged", done
                graph.branches.delete(name)
                table = lance.dataset(str(raw))
                theirs.time(lambda: floor.merge_insert(table, delta))  # noqa: B023
                fork = floor.fork_with(bare, delta, name)
                least.time(lambda: floor.merge_fork(bare, fork))  # noqa: B023
            label, raw_name = f"merge {count:,} into {rows:,}", f"raw merge_insert of {count:,}"
            raw_figure = theirs.figure(raw_name)
            found[label] = ours.figure(label).at_most(1.0, raw_figure)
            found[raw_name] = raw_figure
            found[f"by hand, {count:,}"] = least.figure(f"by hand, {count:,}")
    shutil.rmtree(folder / f"graph{rows}", ignore_errors=True)
    shutil.rmtree(raw, ignore_errors=True)
    shutil.rmtree(bare, ignore_errors=True)
    return found


def _commit(folder: Path) -> Figure:
    """A commit that changes one row of a small table."""
    taken = Taken.nothing()
    with made(folder / "commit", 10) as graph:
        for turn in range(5 * _ROUNDS):
            text = f'query q() {{ insert Item {{ name: "n{turn}", a: 1 }} }}'
            taken.time(lambda text=text: graph.mutate(text))  # type: ignore[misc]
    shutil.rmtree(folder / "commit", ignore_errors=True)
    return taken.figure("a commit of one row")


def _floored(small: dict[str, Figure], commit: Figure, count: int, rows: int) -> Figure:
    """A merge against the same by hand, and a commit."""
    mine, hand = small[f"merge {count:,} into {rows:,}"], small[f"by hand, {count:,}"]
    name = f"by hand, {count:,}, and a commit"
    least = Figure(name=name, cpu=hand.cpu + commit.cpu, wall=hand.wall + commit.wall)
    plain = Figure(name=f"{mine.name}, against the floor", cpu=mine.cpu, wall=mine.wall)
    return plain.at_most(1.5, least)


def _large(folder: Path, rows: int, count: int) -> Figure:
    """A three-way merge of many rows: a branch on which they were loaded anew."""
    place, taken = folder / "large", Taken.nothing()
    with made(place, rows) as graph:
        graph.branches.create("new")
        graph.load({"Item": items(np.arange(count), 5)}, mode="merge", branch="new")
        ours = items(np.arange(rows - count // 2, rows), 6)
        graph.load({"Item": ours}, mode="merge")
        del ours
        pa.default_memory_pool().release_unused()
        forget_peaks(os.getpid())
        start = resident()
        done = taken.time(lambda: graph.branches.merge("new"))
        peak = usage(os.getpid()).driver_bytes
        assert done.counts["node:Item"].updated == count, done
    shutil.rmtree(place, ignore_errors=True)
    more = (peak - start) >> 20
    return Figure(
        name=f"merge {count:,} into {rows:,}, of which {count // 2:,} changed, too: {more:,} MiB",
        cpu=taken.cpu[0],
        wall=taken.wall[0],
    )


def resident() -> int:
    """The memory of this process now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _slower(seconds: dict[str, float], ours: Figure, count: int, least: float) -> Figure:
    ratio = seconds["cpu"] / ours.cpu
    return Figure(
        name=f"Spark: join of {count:,} and overwrite of Parquet",
        cpu=seconds["cpu"],
        wall=seconds["wall"],
        against=ours.name,
        ratio=ratio,
        target=f">= {least:g}x",
        is_met=ratio >= least,
    )


def _spark(folder: Path, rows: int, counts: list[int]) -> dict[str, dict[str, float]]:
    place = folder / "spark"
    command = [sys.executable, "-m", "bench.versioning.on_spark", str(place), str(rows)]
    command += [str(count) for count in counts]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    shutil.rmtree(place, ignore_errors=True)
    seconds: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])["seconds"]
    return seconds


def _reload(folder: Path, rows: int) -> list[Figure]:
    """A branch on which all rows were loaded anew, merged by a fast-forward."""
    place = folder / "reload"
    with made(place, rows) as graph:
        data = {"Item": items(np.arange(rows), 3)}
        graph.load(data, mode="overwrite", branch="new", create_from="main")
        taken, copied = Taken.nothing(), Taken.nothing()
        done = taken.time(lambda: graph.branches.merge("new"))
        assert done.outcome == "fast_forward", done
    (table,) = (place / "nodes").iterdir()
    copied.time(lambda: floor.copy_rows(str(table), folder / "copy"))
    shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(folder / "copy", ignore_errors=True)
    copy = Figure(name=f"copy {rows:,} rows", cpu=copied.cpu[0], wall=copied.wall[0])
    mine = Figure(name=f"fast-forward of {rows:,} rows", cpu=taken.cpu[0], wall=taken.wall[0])
    return [mine.at_most(0.1, copy), copy]


def _diff(folder: Path, rows: int, count: int) -> Figure:
    """The numbers of changes between a branch and its parent."""
    place, taken = folder / "diff", Taken.nothing()
    with made(place, rows) as graph:
        graph.branches.create("new")
        Delta.of(rows, count, 1).apply(graph, "new")
        counts = dict(graph.diff("main", "new").counts)
        for _ in range(_ROUNDS):
            counts = taken.time(lambda: dict(graph.diff("main", "new").counts))
        assert counts["node:Item"].total == count, counts
    shutil.rmtree(place, ignore_errors=True)
    cpu, wall = taken.seconds
    return Figure(
        name=f"diff, counts of {count:,} changes in {rows:,}",
        cpu=cpu,
        wall=wall,
        target="< 50 ms",
        is_met=cpu < 0.05,
    )


def _feed(folder: Path, commits: int) -> Figure:
    """The change feed of small commits, with both images."""
    place, taken = folder / "feed", Taken.nothing()
    with made(place, 1_000) as graph:
        cursor = graph.changes.poll(start="now").cursor
        for number in range(commits):
            graph.load({"Item": items(np.arange(number, number + 3), number + 1)}, mode="merge")
        page = taken.time(lambda: graph.changes.poll(cursor, limit=10 * commits))
        assert len(page.events) == 3 * commits, len(page.events)
    shutil.rmtree(place, ignore_errors=True)
    per_second = commits / taken.cpu[0]
    return Figure(
        name=f"change feed, {commits:,} commits of 3 updates: {per_second:,.0f} commits/s",
        cpu=taken.cpu[0],
        wall=taken.wall[0],
        target=">= 150 commits/s",
        is_met=per_second >= 150,
    )


def _cycles(folder: Path, few: int, many: int) -> list[Figure]:
    """Make a branch, change ten rows on it, merge and delete it."""
    figures = []
    for types in (few, many):
        schema = "\n".join(f"node T{number} {{ name: String @key }}" for number in range(types))
        taken = Taken.nothing()
        with og.init(str(folder / f"types{types}"), schema=schema) as graph:
            for turn in range(2 * _ROUNDS + 1):
                taken.time(lambda turn=turn: _cycle(graph, turn))  # type: ignore[misc]
        shutil.rmtree(folder / f"types{types}", ignore_errors=True)
        cpu, wall = taken.seconds
        name = f"branch, 10 changes, merge, delete, with {types} types"
        figures.append(Figure(name=name, cpu=cpu, wall=wall))
    return [figures[0], figures[1].at_most(1.3, figures[0])]


def _cycle(graph: og.Graph, turn: int) -> None:
    graph.branches.create(f"b{turn}")
    for number in range(10):
        text = f'query q() {{ insert T{number % 3} {{ name: "{turn}-{number}" }} }}'
        graph.mutate(text, branch=f"b{turn}")
    graph.branches.merge(f"b{turn}", delete_branch=True)


def _larger(folder: Path, scale: float) -> list[Figure]:
    many = int(_MANY_ROWS * scale)
    return [_large(folder, many, 2 * many // 5)]


PARTS: Final[dict[str, Callable[[Path, float], list[Figure]]]] = {
    "merges": _three_way,
    "large-merge": _larger,
    "reload": lambda folder, scale: _reload(folder, int(_MANY_ROWS * scale)),
    "diff": lambda folder, scale: [_diff(folder, int(_MANY_ROWS * scale), _counts(scale)[0])],
    "feed": lambda folder, scale: [_feed(folder, max(20, int(_FEED_COMMITS * scale)))],
    "branches": lambda folder, scale: _cycles(
        folder, _TYPES, _MANY_TYPES if scale >= 0.1 else 2 * _TYPES
    ),
}


def page(figures: list[Figure], scale: float) -> str:
    """The page about some figures."""
    lines = [
        *head("Versioning, measured", _PAGE, scale),
        "Medians of a few rounds, in turns. Ratios are of processor time. Of the rows that a "
        "branch changes, 80% are updated, 10% inserted, 10% deleted; the target has changed 100 "
        "rows meanwhile. *By hand* finds the changes of a fork and lands them with as few calls of "
        "Lance as possible; nothing is compared, judged or published. The floor of a merge is that "
        "and a commit. Behind the largest merge stands the memory that it took at its peak, beyond "
        "what the process held before.",
        "",
        *table(figures),
    ]
    return "\n".join(lines) + "\n"
