"""Graphs for tests of the dense view, and what it must say about them, counted naively."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.exec.dense.view import DenseView
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.exec.view import Handles
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Towards
from tests.graphs import Delta, rows

SCHEMA = """
node Person { name: String @key  age: I32?  bio: String?  tags: [String]?  spot: Vector(3)? }
node Company { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge WorksAt: Person -> Company
"""
PERSON = EntityRef("node", "Person", "")
COMPANY = EntityRef("node", "Company", "")
KNOWS = EntityRef("edge", "Knows", "")
WORKS_AT = EntityRef("edge", "WorksAt", "")
ENTITIES = (PERSON, COMPANY, KNOWS, WORKS_AT)
ENDS = {"Knows": (PERSON, PERSON), "WorksAt": (PERSON, COMPANY)}


def view_of(views: ViewCache, repo: Repository, snapshot: GraphVersion | None = None) -> DenseView:
    pinned = snapshot or repo.snapshot()
    return views.view(pinned, repo.schema(pinned).catalog)


def persons(*ids: str, **values: Any) -> Delta:
    return Delta(insert=[{"id": each, "name": each, **values} for each in ids])


def knows(*edges: tuple[str, str, str]) -> Delta:
    """Edges as id, source and target."""
    return Delta(insert=[{"id": edge, "src": src, "dst": dst} for edge, src, dst in edges])


def handles(*numbers: int) -> Handles:
    return np.array(numbers, np.int32)


def check_view(view: DenseView, repo: Repository, snapshot: GraphVersion) -> None:
    """Compare everything that a view says with the rows of the tables."""
    for entity in ENTITIES:
        check_entities(view, entity, rows(repo, entity.table_key, snapshot))
    for edge in (KNOWS, WORKS_AT):
        check_edges(view, edge, rows(repo, edge.table_key, snapshot))


def check_entities(view: DenseView, entity: EntityRef, stored: Mapping[str, Any]) -> None:
    ids = view.take(entity, "id", None).to_pylist()
    assert view.size(entity) == len(ids)
    assert sorted(ids) == sorted(stored)
    everyone = np.arange(len(ids), dtype=np.int32)
    if entity.kind == "node":
        assert ids == sorted(stored, key=str.encode)
    ranks = view.rank(entity, everyone).tolist()
    assert sorted(ids, key=str.encode) == [ids[i] for i in np.argsort(ranks)]
    assert view.find(entity, ids).tolist() == everyone.tolist()
    assert [view.find_one(entity, each) for each in ids] == everyone.tolist()
    for column in next(iter(stored.values()), {}):
        expected = [stored[each][column] for each in ids]
        assert view.take(entity, column, None).to_pylist() == expected, column


def check_edges(view: DenseView, edge: EntityRef, stored: Mapping[str, Any]) -> None:
    source, target = ENDS[edge.name]
    check_way(view, edge, Towards.OUT, source, target, _triples(stored, "src", "dst"))
    check_way(view, edge, Towards.IN, target, source, _triples(stored, "dst", "src"))
    if source == target:
        out, back = _triples(stored, "src", "dst"), _triples(stored, "dst", "src")
        check_way(view, edge, Towards.BOTH, source, target, out | back)


def check_way(
    view: DenseView,
    edge: EntityRef,
    towards: Towards,
    source: EntityRef,
    target: EntityRef,
    triples: set[tuple[str, str, str]],
) -> None:
    names = {entity: view.take(entity, "id", None).to_pylist() for entity in (source, target, edge)}
    everyone = np.arange(len(names[source]), dtype=np.int32)
    slices = view.neighbours(edge, towards, everyone)
    pairs = _pairs(names[source], names[target], slices.counts.tolist(), slices.targets.tolist())
    assert pairs == sorted({(s, t) for s, t, _ in triples}, key=_by_bytes)
    assert view.degrees(edge, towards, None).tolist() == slices.counts.tolist()
    full = view.edges(edge, towards, everyone)
    assert full.edges is not None
    ends = _pairs(names[source], names[target], full.counts.tolist(), full.targets.tolist())
    named = [names[edge][each] for each in full.edges.tolist()]
    found = [(s, t, e) for (s, t), e in zip(ends, named, strict=True)]
    assert len(found) == len(set(found))
    assert set(found) == triples
    for handle in everyone.tolist():
        one = view.neighbours(edge, towards, handles(handle))
        assert one.counts.tolist() == [slices.counts[handle]]
        mine = [t for s, t in pairs if s == names[source][handle]]
        assert [names[target][each] for each in one.targets] == mine
    _check_linked(view, edge, towards, names[source], names[target], set(pairs))


def _check_linked(
    view: DenseView,
    edge: EntityRef,
    towards: Towards,
    sources: list[str],
    targets: list[str],
    pairs: set[tuple[str, str]],
) -> None:
    left = np.repeat(np.arange(len(sources), dtype=np.int32), len(targets))
    right = np.tile(np.arange(len(targets), dtype=np.int32), len(sources))
    expected = [
        (sources[a], targets[b]) in pairs
        for a, b in zip(left.tolist(), right.tolist(), strict=True)
    ]
    assert view.linked(edge, towards, left, right).tolist() == expected


def _triples(stored: Mapping[str, Any], one: str, other: str) -> set[tuple[str, str, str]]:
    return {(row[one], row[other], name) for name, row in stored.items()}


def _pairs(
    sources: list[str], targets: list[str], counts: Iterable[int], ends: list[int]
) -> list[tuple[str, str]]:
    starts = [sources[place] for place, count in enumerate(counts) for _ in range(count)]
    return [(start, targets[end]) for start, end in zip(starts, ends, strict=True)]


def _by_bytes(pair: tuple[str, str]) -> tuple[bytes, bytes]:
    return pair[0].encode(), pair[1].encode()
