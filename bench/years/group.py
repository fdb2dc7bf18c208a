"""Measuring every subject, or some of them, and the page about all that were measured."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from bench.figure import Figure, head, publish, table
from bench.query.places import PUBLISHED, Place
from bench.years import aged, schema, upkeep
from omnigraph.errors import JsonValue

_PAGE: Final = "years"

# A subject measures in a folder of its own, at a scale.
SUBJECTS: Final[Mapping[str, Callable[[Path, float], list[Figure]]]] = {
    "schema changes": schema.figures,
    "clean-up": upkeep.cleanup,
    "large tables": upkeep.large,
    "a long history": aged.figures,
}
# The names by which they are chosen.
YEARS_PARTS: Final[Mapping[str, str]] = {
    "schema": "schema changes",
    "cleanup": "clean-up",
    "large": "large tables",
    "history": "a long history",
}


def run(scale: float, parts: Sequence[str] = ()) -> JsonValue:
    """Measure and tell; the figures as plain values. Parts that are not chosen stay as they are."""
    chosen = [YEARS_PARTS[part] for part in parts] or list(SUBJECTS)
    found = known(PUBLISHED if scale == 1 else Place.of(scale).results)
    told: JsonValue = None
    for subject in chosen:
        folder = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
        try:
            taken = SUBJECTS[subject](folder, scale)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        found[subject] = [replace(each, subject=subject) for each in taken]
        everything = [each for name in SUBJECTS for each in found.get(name, ())]
        told = publish(_PAGE, page(found, scale), everything, scale)
    return told


def page(found: Mapping[str, Sequence[Figure]], scale: float) -> str:
    """The page about these figures, by subject."""
    lines = head("A graph that lives for years, measured", _PAGE, scale)
    lines += ["Medians of a few rounds, in turns. Ratios are of processor time.", ""]
    for subject in SUBJECTS:
        if subject in found:
            lines += [f"## {subject.capitalize()}", "", *table(found[subject]), ""]
    return "\n".join(lines)


def known(folder: Path) -> dict[str, list[Figure]]:
    """The figures of an earlier run, by subject."""
    file = folder / f"{_PAGE}.json"
    found: dict[str, list[Figure]] = {}
    if file.exists():
        names = {each.name for each in fields(Figure)}
        for item in json.loads(file.read_text(encoding="utf-8"))["figures"]:
            values = {name: value for name, value in item.items() if name in names}
            found.setdefault(item["subject"], []).append(Figure(**values))
    return found
