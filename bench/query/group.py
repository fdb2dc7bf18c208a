"""The whole group: prepare, compare, measure, tell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import report
from bench.query import chart, page
from bench.query.check import OVERLAP_LEAST, RECALL_LEAST
from bench.query.engines import ENGINES
from bench.query.figures import Figures
from bench.query.generate import Size
from bench.query.parameters import parameters
from bench.query.places import PUBLISHED, ROOT, Place
from bench.query.prepare import prepare
from bench.query.questions import QUESTIONS, Question
from bench.query.rounds import Warm, cold
from omnigraph.cli import render
from omnigraph.errors import JsonValue

FULL: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What of the group to run. The whole of it at full scale is published."""

    scale: float = FULL
    engines: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    cold: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether this is the comparison that the documentation shows."""
        return self.scale == FULL and not self.engines and not self.questions and self.cold


def run(choice: Choice) -> JsonValue:
    """Measure and tell; the figures as plain values."""
    place = Place.of(choice.scale)
    loaded = prepare(place, choice.engines or tuple(ENGINES), _say)
    questions = _chosen(choice.questions)
    params = parameters(place.data)
    warm = Warm(place, questions, params, _say)
    cells = warm.run([item.engine for item in loaded])
    figures = Figures(
        scale=choice.scale,
        questions=questions,
        loaded=tuple(loaded),
        warm=cells,
        cold=cold(place, cells, params, _say) if choice.cold else {},
        memory=warm.memory,
        facts=report.facts(),
    )
    page.show(figures)
    complete = len(loaded) == len(ENGINES)
    _write(figures, PUBLISHED if choice.is_whole and complete else place.results)
    return figures.to_json()


def _chosen(names: Sequence[str]) -> tuple[Question, ...]:
    return tuple(item for item in QUESTIONS if not names or item.name in names)


def _write(figures: Figures, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    size = Size.of(figures.scale)
    method = page.METHOD.format(
        persons=size.persons,
        knows=size.knows,
        docs=size.docs,
        recall=RECALL_LEAST,
        overlap=OVERLAP_LEAST,
    )
    text = json.dumps(figures.to_json(), indent=2)
    (folder / "query.json").write_text(f"{text}\n", encoding="utf-8")
    (folder / "query.md").write_text(page.markdown(figures, method), encoding="utf-8")
    (folder / "query.svg").write_text(chart.draw(figures), encoding="utf-8")
    shown = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
    _say(f"written: {shown}/query.md, query.svg, query.json")


def _say(text: str) -> None:
    """Progress goes where it does not mix with the tables."""
    render.err().line((text, "dim"))
