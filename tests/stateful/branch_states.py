"""Everything that is on a branch, as dictionaries, and what has to hold of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import omnigraph as og
from omnigraph.lang.catalog.model import Catalog
from omnigraph.testing.naive import ModelGraph
from omnigraph.testing.naive.graph import derived_id
from omnigraph.testing.naive.rules import broken_rules
from omnigraph.types import BranchName
from tests import graphs

State = dict[tuple[str, str], dict[str, Any]]
"""Rows by table key and id, with the columns that are stored; of a blob there is the size."""

STORED = {"from": "src", "to": "dst"}


def catalog_of(graph: og.Graph, branch: str) -> Catalog:
    repo = graph._repo
    repo.refresh()
    return repo.schema(repo.snapshot(BranchName(branch))).catalog


def state(graph: og.Graph, branch: str) -> State:
    """Every row, as it is in the tables."""
    repo, catalog = graph._repo, catalog_of(graph, branch)
    snapshot = repo.snapshot(BranchName(branch))
    return {
        (key, name): {column: shown(value) for column, value in row.items()}
        for entity in (*catalog.nodes, *catalog.edges)
        for key in [f"{entity.kind}:{entity.name}"]
        for name, row in graphs.rows(repo, key, snapshot).items()
    }


def shown(value: Any) -> Any:
    return {"size": len(value)} if isinstance(value, bytes) else value


def stored(entity_id: str, image: Mapping[str, Any]) -> dict[str, Any]:
    """A row as it is in a table, from one that a change shows."""
    return {"id": entity_id, **{STORED.get(name, name): value for name, value in image.items()}}


def applied(changes: Iterable[og.Change], start: State) -> State:
    """A state with changes, each of which has to fit what is there."""
    found = dict(start)
    for change in changes:
        key = f"{change.kind}:{change.type}", change.id
        assert (change.before is None) == (key not in found), change
        if change.before is not None:
            before = stored(change.id, change.before)
            assert {name: found[key][name] for name in before} == before
        if change.after is None:
            del found[key]
        else:
            found[key] = stored(change.id, change.after)
    return found


def baseline(graph: og.Graph, branch: str) -> State:
    """Every row, as a new reader of the feed gets it."""
    return applied(graph.changes.baseline(branch=branch), {})


def same(found: State, wanted: State, why: str) -> None:
    """Compare two states, and tell only where they differ."""
    differing = [key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)]
    told = [(key, found.get(key), wanted.get(key)) for key in sorted(differing)[:6]]
    assert not told, f"{why}: found and wanted {told}"


def check_rules(catalog: Catalog, found: State) -> None:
    """Check every rule of a schema, by looking at everything.

    A node without edges may be older than the rule that asks for some.
    """
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for (key, name), row in found.items():
        tables.setdefault(key, {})[name] = row
    sources = {
        edge.name: [row["src"] for row in tables.get(f"edge:{edge.name}", {}).values()]
        for edge in catalog.edges
    }
    assert broken_rules(catalog, ModelGraph(tables), sources) == []
    for entity in (*catalog.nodes, *catalog.edges):
        for name, row in tables.get(f"{entity.kind}:{entity.name}", {}).items():
            assert not entity.key or derived_id(entity, row) == name, row
