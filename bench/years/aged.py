"""A graph with a long history beside a young one: opening, reading, writing, branches, clean-up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import omnigraph as og
from bench.figure import Figure, Taken
from omnigraph.core.cleanup.cleaner import CleanupRequest
from omnigraph.core.cleanup.retention import RetentionPolicy

_COMMITS: Final = 5_000
_BRANCHES: Final = 50
_CHANGES: Final = 20
_YOUNG: Final = 100
_ROWS: Final = 1_000
_ROUNDS: Final = 9
# Room for what a history may cost, and for noise.
_RATIO_MAX: Final = 1.5
_REQUEST: Final = CleanupRequest(policy=RetentionPolicy(keep=1), superseded_us=0)
_QUERY: Final = 'query q() { match { $i: Item { name: "k7" } } return { $i.a } }'


def figures(folder: Path, scale: float) -> list[Figure]:
    """Measure both in turns."""
    commits = max(_YOUNG, int(_COMMITS * scale))
    old, young = folder / "old", folder / "young"
    _lived(old, commits, _BRANCHES, _CHANGES)
    _lived(young, _YOUNG, 1, 0)
    places = {"old": old, "young": young}
    taken: dict[str, dict[str, Taken]] = {}
    for turn in range(_ROUNDS):
        for age, place in places.items():
            _worked(place, turn, taken.setdefault(age, {}))
    about = f"after {commits:,} commits, {_BRANCHES} branches, {_CHANGES} schema changes"
    found = []
    for name, took in taken["old"].items():
        floor = taken["young"][name].figure(f"{name}, young")
        found += [took.figure(f"{name}, {about}").at_most(_RATIO_MAX, floor), floor]
    cleaned = {age: _cleaned(place, age) for age, place in places.items()}
    return [*found, cleaned["old"].at_most(_RATIO_MAX, cleaned["young"]), cleaned["young"]]


def _lived(place: Path, commits: int, branches: int, changes: int) -> None:
    """A graph with a history: updates, and now and then a branch or another schema."""
    columns = ["name: String @key", "a: I64"]
    with og.init(str(place), schema=_schema(columns)) as graph:
        rows = [{"name": f"k{row}", "a": 0} for row in range(_ROWS)]
        graph.load({"Item": rows}, mode="append")
        for number in range(commits):
            if changes and number % (commits // changes) == 0:
                columns.append(f"x{number}: String?")
                graph.schema.apply(_schema(columns))
            if number % (commits // branches) == 0:
                graph.branches.create(f"b{number}")
            _update(graph, number)


def _schema(columns: list[str]) -> str:
    return f"node Item {{ {'  '.join(columns)} }}"


def _update(graph: og.Graph, number: int) -> None:
    name = f"k{number % _ROWS}"
    graph.mutate(f'query q() {{ update Item set {{ a: {number} }} where name = "{name}" }}')


def _worked(place: Path, turn: int, taken: dict[str, Taken]) -> None:
    def timed(name: str) -> Taken:
        return taken.setdefault(name, Taken.nothing())

    with timed("open").time(lambda: og.open(str(place))) as graph:
        timed("first query").time(lambda: graph.query(_QUERY).to_pylist())
        _update(graph, turn)
        timed("commit").time(lambda: _update(graph, turn + 1))
        timed("branch create").time(lambda: graph.branches.create(f"turn{turn}"))
        graph.branches.delete(f"turn{turn}")


def _cleaned(place: Path, age: str) -> Figure:
    """What a clean-up takes for each version that it removes."""
    took = Taken.nothing()
    with og.open(str(place)) as graph:
        done = took.time(lambda: graph._repo.cleanup(_REQUEST, lambda _: None))
    count = sum(part.versions for part in done.parts)
    whole = took.figure(f"clean-up per version, {count:,} removed, {age}")
    return replace(whole, cpu=whole.cpu / count, wall=whole.wall / count)
