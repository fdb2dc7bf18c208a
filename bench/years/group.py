"""Measuring every subject, and the page about them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bench.figure import Figure, head, publish, table
from bench.years import aged, schema, upkeep
from omnigraph.errors import JsonValue

_PAGE: Final = "years"

# A subject measures in a folder of its own, at a scale.
SUBJECTS: Mapping[str, Callable[[Path, float], list[Figure]]] = {
    "Schema changes": schema.figures,
    "Upkeep": upkeep.figures,
    "A long history": aged.figures,
}


def run(scale: float) -> JsonValue:
    """Measure and tell; the figures as plain values."""
    found: dict[str, list[Figure]] = {}
    for subject, figures in SUBJECTS.items():
        folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
        try:
            found[subject] = figures(folder, scale)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    lines = head("A graph that lives for years, measured", _PAGE, scale)
    lines += ["Medians of a few rounds, in turns. Ratios are of processor time.", ""]
    for subject, each in found.items():
        lines += [f"## {subject}", "", *table(each), ""]
    everything = [figure for each in found.values() for figure in each]
    return publish(_PAGE, "\n".join(lines), everything, scale)
