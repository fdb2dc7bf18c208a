"""`tx.load` of entities without a key, which are known by their ids: edges that move, nodes."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

SCHEMA = """
node Person { name: String @key }
node Note { title: String?  place: I32?  @unique(place) }
edge Wrote: Person -> Note { year: I32? }
edge Pinned: Person -> Note @card(0..1)
edge Owns: Note -> Person @card(1..2)
"""
Step = Callable[[og.Transaction], object]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA) as graph:
        graph.load(
            {
                "Person": [{"name": "Ada"}, {"name": "Bo"}],
                "Note": [{"id": "n1", "place": 1}, {"id": "n2", "place": 2}],
                "Wrote": [{"id": "w", "from": "Ada", "to": "n1", "year": 1}],
                "Pinned": [
                    {"id": "p1", "from": "Ada", "to": "n1"},
                    {"id": "p2", "from": "Bo", "to": "n1"},
                ],
                "Owns": [
                    {"id": "o1", "from": "n1", "to": "Ada"},
                    {"id": "o2", "from": "n2", "to": "Ada"},
                ],
            }
        )
        yield graph


def load(kind: str, mode: Any = "merge", **row: Any) -> Step:
    values = {name.rstrip("_"): value for name, value in row.items()}
    return lambda tx: tx.load({kind: [values]}, mode=mode)


def delete(kind: str, condition: str) -> Step:
    return lambda tx: tx.mutate(f"query q() {{ delete {kind} where {condition} }}")


MOVED = load("Wrote", id="w", from_="Ada", to="n2")
GONE = delete("Wrote", 'from = "Ada"')
OWNED = [load("Owns", id=f"o{n}", from_=f"n{n}", to="Ada") for n in (1, 2)]


@pytest.mark.parametrize(
    "steps",
    [
        [MOVED],
        [GONE, MOVED],
        [GONE, load("Wrote", "append", id="w", from_="Ada", to="n2")],
        [MOVED, GONE, MOVED],
        [delete("Note", 'id = "n1"'), MOVED],
        [MOVED, delete("Note", 'id = "n1"')],
        [delete("Person", 'name = "Ada"'), load("Person", name="Ada"), MOVED, *OWNED],
    ],
)
def test_an_edge_that_moves_is_there_once(graph: og.Graph, steps: list[Step]) -> None:
    with graph.transaction() as tx:
        for step in steps:
            step(tx)
        seen = tx.query("query q() { match { $a $w: wrote $b } return { $w.id as i, $b.id as b } }")
        assert seen.to_pylist() == [{"i": "w", "b": "n2"}]
    found = [change for change in graph.changes.baseline() if change.type == "Wrote"]
    assert [(change.id, (change.after or {})["to"]) for change in found] == [("w", "n2")]


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        (load("Wrote", id="w", from_="Ada", to="n9"), "n9"),
        (load("Note", id="n1", place=2), "@unique"),
        (load("Pinned", id="p1", from_="Bo", to="n1"), "max 1"),
        (load("Owns", id="o1", from_="n2", to="Ada"), "min 1"),
    ],
)
def test_what_is_loaded_again_is_judged_again(graph: og.Graph, step: Step, rule: str) -> None:
    before = graph.snapshot().commit
    with pytest.raises(og.errors.ConstraintViolated, match=rule), graph.transaction() as tx:
        step(tx)
    assert graph.snapshot().commit == before
