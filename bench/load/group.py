"""The whole group: prepare, measure, tell."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import report
from bench.load import chart, page
from bench.load.client import ContenderFailed
from bench.load.course import Course
from bench.load.figures import Figures
from bench.load.parts import PARTS
from bench.load.places import Place
from bench.query.places import PUBLISHED, ROOT
from bench.query.prepare import peers
from omnigraph.cli import render
from omnigraph.errors import JsonValue

FULL: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What of the group to run. The whole of it at full scale is published."""

    scale: float = FULL
    parts: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether these are the figures that the documentation shows."""
        return self.scale == FULL and not self.parts


def run(choice: Choice) -> JsonValue:
    """Measure and tell; the figures as plain values."""
    place = Place.of(choice.scale)
    course = Course(place, _say, peers=peers(_say))
    found = []
    for name, part in PARTS.items():
        if not choice.parts or name in choice.parts:
            _say(f"-- {name}")
            try:
                found.append(part(course, choice.scale))
            except ContenderFailed as failure:
                _say(f"{name} is left out: {failure}")
            else:
                page.show_part(found[-1])
    course.clear()
    figures = Figures(scale=choice.scale, parts=tuple(found), facts=report.facts())
    page.show_goals(figures)
    complete = len(found) == len(PARTS)
    _write(figures, PUBLISHED if choice.is_whole and complete else place.results)
    return figures.to_json()


def _write(figures: Figures, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(figures.to_json(), indent=2)
    (folder / "load.json").write_text(f"{text}\n", encoding="utf-8")
    (folder / "load.md").write_text(page.markdown(figures), encoding="utf-8")
    (folder / "load.svg").write_text(chart.draw(figures), encoding="utf-8")
    shown = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    _say(f"written: {shown}/load.md, load.svg, load.json")


def _say(text: str) -> None:
    """Progress goes where it does not mix with the tables."""
    render.err().line((text, "dim"))
