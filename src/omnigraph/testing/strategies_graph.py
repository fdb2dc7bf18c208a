"""Random graphs for a catalog: small, with few different values, so that things meet.

The values are those that `strategies_query` writes into queries, so that conditions hold often
enough to be worth testing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

from omnigraph.lang.catalog.identity import fnv1a64
from omnigraph.lang.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.lang.values import INT_RANGES, Base, ValueType
from omnigraph.testing.naive.graph import ModelGraph, Row, complete

_T = TypeVar("_T")

NAMES = ("a", "b", "ab", "Ada", "é", "'", "A b")
WORDS = ("graph", "graphs", "running", "run", "café", "the", "Zürich", "data", "dato", "naïve")
WORDY = ("title", "body", "comment")
TEXTS = (
    "",
    "the graph of graphs",
    "Running, running, run!",
    "CAFÉ naive data",
    "data data data the",
    "graph data run Zurich",
    "... --- ...",
    "café",
    "the run of the graph data",
)
VECTORS: dict[int, tuple[tuple[float, ...], ...]] = {
    2: ((0.0, 0.0), (1.0, 0.0), (0.0, 2.0), (-1.0, 0.5), (3.0, 1.0), (0.25, -2.0)),
    3: (
        (0.0, 0.0, 0.0),
        (1.0, 0.0, 0.0),
        (0.0, 1.0, 0.5),
        (-1.0, 2.0, 0.25),
        (2.0, -1.0, 4.0),
        (0.5, 0.5, -3.0),
    ),
}
"""Vectors of which no two have nearly the same distance to a third: only equal ones tie."""

_SAMPLE_VALUES: dict[Base, tuple[ConstValue, ...]] = {
    Base.STRING: ("", "a", "b", "ab", "Ada", "a'b", "%", "é"),
    Base.BOOL: (False, True),
    Base.F32: (0.0, -0.0, 0.5, -1.0, 3.0, 0.10000000149011612),
    Base.F64: (0.0, -0.0, 0.5, -1.0, 3.0, 0.1),
    Base.DATE: (0, 1, 3, -719_162, 2_932_896),
    Base.DATETIME: (0, 1, 3, 86_400_000, -62_135_596_800_000, 253_402_300_799_999),
}


def pool(entity: EntityType, name: str) -> tuple[ConstValue, ...]:
    """The values that a property may have in a random graph, in stored form; lists aside."""
    kind = entity.property_by_name[name].type
    some: tuple[ConstValue, ...]
    if name in entity.key and kind.base is Base.STRING:
        some = NAMES
    elif name in WORDY:
        some = TEXTS
    elif kind.base is Base.VECTOR:
        some = VECTORS[kind.dim]
    else:
        some = scalars(kind)
    # A null is as likely as a value of a small pool.
    return (None, *some) if kind.nullable and not kind.is_list else some


def scalars(kind: ValueType) -> tuple[ConstValue, ...]:
    """A few values of a scalar type, its ends among them."""
    if kind.enum:
        return kind.enum
    if kind.base in INT_RANGES:
        low, high = INT_RANGES[kind.base]
        return (*range(max(low, -2), 5), low, high)
    return _SAMPLE_VALUES[kind.base]


def _values(entity: EntityType, name: str) -> st.SearchStrategy[ConstValue]:
    kind = entity.property_by_name[name].type
    some = st.sampled_from(pool(entity, name))
    if not kind.is_list:
        return some
    whole: st.SearchStrategy[ConstValue] = st.lists(some, max_size=3).map(tuple)
    return st.none() | whole if kind.nullable else whole


def _rows(entity: EntityType) -> st.SearchStrategy[dict[str, ConstValue]]:
    return st.fixed_dictionaries(
        {item.name: _values(entity, item.name) for item in entity.properties}
    )


def sample_graph(catalog: Catalog, seed: int = 0, nodes: int = 6, edges: int = 14) -> ModelGraph:
    """One graph that looks random and is always the same, with few empty places."""

    def pick(some: Sequence[_T], *place: object) -> _T:
        digest = fnv1a64(" ".join(map(str, (seed, *place))))
        return some[int(digest[:8], 16) % len(some)]

    def row(entity: EntityType, number: int) -> dict[str, ConstValue]:
        made: dict[str, ConstValue] = {}
        for item in entity.properties:
            place = (entity.kind, entity.name, number, item.name)
            if not item.type.is_list:
                made[item.name] = pick(pool(entity, item.name), *place)
            elif not item.type.nullable or pick((0, 1, 2), *place):
                size = pick(range(4), *place, "size")
                some = pool(entity, item.name)
                made[item.name] = tuple(pick(some, *place, each) for each in range(size))
        return made

    tables: dict[str, dict[str, Row]] = {}
    for node in catalog.nodes:
        rows = [row(node, number) for number in range(nodes)]
        tables[f"node:{node.name}"] = _identified(node, rows, "n", range(nodes)[::-1])
    for edge in catalog.edges:
        sources, targets = (sorted(tables[f"node:{end}"]) for end in (edge.source, edge.target))
        rows = [
            {
                "src": pick(sources, edge.name, number, "src"),
                "dst": pick(targets, edge.name, number, "dst"),
                **row(edge, number),
            }
            for number in range(edges)
        ]
        tables[f"edge:{edge.name}"] = _identified(edge, rows, "e", range(edges)[::-1])
    return ModelGraph(tables)


@st.composite
def graphs(draw: st.DrawFn, catalog: Catalog, size: int = 5) -> ModelGraph:
    """A graph with up to `size` nodes of each type and twice as many edges of each."""
    tables: dict[str, dict[str, Row]] = {}
    for node in catalog.nodes:
        drawn = draw(st.lists(_rows(node), max_size=size))
        numbers = draw(st.permutations(range(len(drawn))))
        tables[f"node:{node.name}"] = _identified(node, drawn, "n", numbers)
    for edge in catalog.edges:
        tables[f"edge:{edge.name}"] = _edges(draw, edge, tables, 2 * size)
    return ModelGraph(tables)


def _edges(
    draw: st.DrawFn, edge: EdgeType, tables: dict[str, dict[str, Row]], most: int
) -> dict[str, Row]:
    sources = sorted(tables[f"node:{edge.source}"])
    targets = sorted(tables[f"node:{edge.target}"])
    if not sources or not targets:
        return {}
    ends = st.tuples(st.sampled_from(sources), st.sampled_from(targets))
    drawn = draw(st.lists(st.tuples(ends, _rows(edge)), max_size=most))
    rows = [{"src": source, "dst": target, **row} for (source, target), row in drawn]
    return _identified(edge, rows, "e", draw(st.permutations(range(len(rows)))))


def _identified(
    entity: EntityType, rows: Sequence[Row], letter: str, numbers: Sequence[int]
) -> dict[str, Row]:
    """Rows by id. Without a key the ids are in no relation to the order of the rows."""
    made: dict[str, Row] = {}
    for number, row in zip(numbers, rows, strict=True):
        whole = complete(entity, {"id": f"{letter}{number}", **row})
        made[str(whole["id"])] = whole
    return made
