"""Measuring: every contender in a process of its own, then the tables and the page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import report
from bench.algorithms.edges import write_edges
from bench.algorithms.ours import fill
from bench.query.places import PUBLISHED, ROOT, Place, home
from bench.query.prepare import peers
from omnigraph.cli import render
from omnigraph.errors import JsonValue

# The jar of GraphFrames for the Spark that is installed.
JAR: Final = "OMNIGRAPH_GRAPHFRAMES_JAR"
_ROUNDS: Final = {"omnigraph": 5, "igraph": 3, "networkx": 1, "spark": 2}
_BUILT: Final = (
    "Its jar is made by `python -m bench.algorithms.graphframes` from a checkout of its source "
    "(commit e49a655b of May 2026): Maven Central answers 404 for "
    "`io.graphframes:graphframes-spark4_2.13` and its older names."
)
_OURS: Final = (sys.executable, "-m", "bench.algorithms.ours")
_PAGE: Final = "algorithms"


def run(scale: float) -> JsonValue:
    """Measure and tell; the figures as plain values."""
    folder = Place.of(scale).folder / "algorithms"
    file, graph = folder / "edges.npy", folder / "graph.omni"
    vertices, edges = write_edges(file, scale)
    if not graph.exists():
        fill(str(graph), str(file), vertices)
    figures: dict[str, Any] = {"facts": report.facts(), "vertices": vertices, "edges": edges}
    figures["inprocess"] = {
        "omnigraph": _answer(
            [sys.executable, "-m", "bench.algorithms.ours", str(graph)], "omnigraph"
        )
    }
    if peers(_say):
        python = str(home() / "venv" / "bin" / "python")
        script = str(Path(__file__).with_name("peer.py"))
        for name in ("igraph", "networkx"):
            command = [python, script, name, str(file), str(vertices)]
            figures["inprocess"][name] = _answer(command, name)
    jar = os.environ.get(JAR)
    if jar:
        command = [sys.executable, "-m", "bench.algorithms.on_spark", str(graph), jar]
        figures["spark"] = _answer(command, "spark")
    else:
        _say(f"left out: GraphFrames; {JAR} names its jar, see bench.algorithms.graphframes")
    text = page(figures)
    render.out().line(text)
    whole = scale == 1 and len(figures["inprocess"]) == 3 and jar is not None
    target = PUBLISHED if whole else Place.of(scale).results
    target.mkdir(parents=True, exist_ok=True)
    (target / f"{_PAGE}.md").write_text(text, encoding="utf-8")
    written = json.dumps(figures, indent=2)
    (target / f"{_PAGE}.json").write_text(f"{written}\n", encoding="utf-8")
    plain: JsonValue = json.loads(written)
    return plain


def _answer(command: Sequence[str], name: str) -> Any:
    return _json([*command, str(_ROUNDS[name])])


def _json(command: Sequence[str]) -> Any:
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _say(text: str) -> None:
    render.out().line(text)


def page(figures: dict[str, Any]) -> str:
    """The page about some figures."""
    about = figures["facts"]
    lines = [
        "# Graph algorithms, compared",
        "",
        "Written by `python -m bench algorithms`; do not edit. The same figures for programs: "
        f"[{_PAGE}.json]({_PAGE}.json).",
        "",
        f"An R-MAT graph of {figures['vertices']:,} vertices and {figures['edges']:,} edges, with "
        f"loops and parallel edges. {about['implementation']} {about['python']}, "
        f"{about['cores']} cores, {about['machine']}.",
        "",
        "## In one process",
        "",
        "Processor seconds of one call with the graph in memory, the best of a few rounds; in "
        "parentheses how many times as long as ours. Our call includes making the table of ids and "
        "values. igraph and networkx propagate labels in random order until they are stable, we in "
        "20 synchronous iterations at most. igraph lists triangles, since it has no call that "
        "counts them per vertex.",
        "",
    ]
    lines += _table(figures["inprocess"])
    lines += ["", _versions(figures["inprocess"])]
    if "spark" in figures:
        found = figures["spark"]
        lines += [
            "",
            "## On Spark",
            "",
            f"Processor seconds of the JVM and its workers together on Spark {found['spark']}, "
            "`local[2]`, both in one session, in turns; the graph was read before. Five iterations "
            "of PageRank and label propagation. GraphFrames is given numbers for ids, cached. "
            f"{_BUILT}",
            "",
            "|  | omnigraph | GraphFrames |",
            "| --- | --- | --- |",
        ]
        for name, each in found["algorithms"].items():
            mine, other = each.get("omnigraph"), each.get("graphframes")
            ratio = "" if None in (mine, other) else f" ({other / mine:.1f}x)"
            shown = ["-" if time is None else f"{time:.2f} s" for time in (mine, other)]
            lines.append(f"| {name} | {shown[0]} | {shown[1]}{ratio} |")
    return "\n".join(lines) + "\n"


def _table(found: dict[str, Any]) -> list[str]:
    names = list(found)
    lines = [f"|  | {' | '.join(names)} |", f"| --- |{' --- |' * len(names)}"]
    for algorithm, ours in found["omnigraph"]["algorithms"].items():
        cells = [report.duration(ours["seconds"] * 1e6)]
        for name in names[1:]:
            seconds = found[name]["algorithms"][algorithm]["seconds"]
            ratio = f"{seconds / ours['seconds']:.1f}x"
            cells.append(f"{report.duration(seconds * 1e6)} ({ratio})")
        lines.append(f"| {algorithm} | {' | '.join(cells)} |")
    return lines


def _versions(found: dict[str, Any]) -> str:
    return ", ".join(f"{name} {each['version']}" for name, each in found.items()) + "."
