"""Real graphs beside their models: writing a model down, asking both, comparing the answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.repository import Components, Repository, components
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.embed.provider import Embedder
from omnigraph.graph.opening import _graph
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.catalog.model import Catalog, EdgeType, EntityType
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.lang.values import Base, ValueType
from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.root import Root
from omnigraph.testing.naive import Given, ModelGraph, Row, evaluate
from omnigraph.testing.naive.graph import column_type
from omnigraph.testing.strategies_query import TypedQuery

NOW_MS = 1_700_000_000_000
# In results the ends of an edge are called as queries call them.
_SPOKEN = {"src": "from", "dst": "to"}
_STORED = {"from": "src", "to": "dst"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def make(folder: Path, schema: str, embedder: Embedder | None = None) -> og.Graph:
    """An empty graph that is not synced to disk and whose clock stands still."""
    root = Root.parse(str(folder))
    parts = components(root, durable=False)
    clock = ManualClock(NOW_MS * 1000)
    parts = Components(
        objects=parts.objects, tables=parts.tables, clock=clock, ids=UlidIds.seeded(1, clock)
    )
    accepted = AcceptedSchema(catalog=compile_schema(schema), text=schema)
    return _graph(Repository.init(root, accepted, parts), None, embedder, None)


def engine_of(graph: og.Graph) -> Repository:
    return graph._repo


def catalog_of(graph: og.Graph) -> Catalog:
    return compile_schema(graph.snapshot().schema)


def write(graph: og.Graph, model: ModelGraph) -> None:
    """Add the entities of a model in one commit, ids and all; no rule is asked."""
    repo = engine_of(graph)
    base = repo.snapshot()
    writes = []
    for key, rows in model.tables.items():
        table = repo.writable_table(base, key)
        columns = [
            pa.array([row.get(field.name) for row in rows.values()], field.type)
            for field in table.schema
        ]
        staged = repo.tables.stage(
            table,
            inserts=pa.Table.from_arrays(columns, schema=table.schema) if rows else None,
            updates=None,
            deletes=None,
            uuid=repo.ids.new(),
        )
        if staged is not None:
            writes.append(TableWrite(table_key=key, staged=(staged,)))
    commit = repo.new_commit(base, WriterKind.MUTATION)
    repo.commit(Prepared(base=base, commit=commit, tables=tuple(writes)))


def read(
    graph: og.Graph, catalog: Catalog, branch: str = "main", at: str | None = None
) -> ModelGraph:
    """Every entity of a graph, through queries."""
    snapshot = graph.snapshot(branch, at=at)
    tables: dict[str, dict[str, Row]] = {}
    for entity in (*catalog.nodes, *catalog.edges):
        match = f"$x: {entity.name}"
        if isinstance(entity, EdgeType):
            name = entity.name[0].lower() + entity.name[1:]
            match = f"$a: {entity.source} $a $x: {name} $b"
        found = snapshot.query(f"query q() {{ match {{ {match} }} return {{ $x }} }}")
        rows = [_stored_row(entity, row["x"]) for row in found]
        tables[f"{entity.kind}:{entity.name}"] = {str(row["id"]): row for row in rows}
        assert len(tables[f"{entity.kind}:{entity.name}"]) == len(rows), "an id is there twice"
    return ModelGraph({key: rows for key, rows in tables.items() if rows})


def _stored_row(entity: EntityType, row: Mapping[str, Any]) -> Row:
    """An entity as results show it, in stored form."""
    return {
        _STORED.get(name, name): stored(value, column_type(entity, _STORED.get(name, name)))
        for name, value in row.items()
    }


def adopt(model: ModelGraph, actual: ModelGraph) -> ModelGraph:
    """The model with the ids that the graph generated in the place of its own."""
    tables = model.copied()
    for key, rows in tables.items():
        spare = {name: row for name, row in actual.tables.get(key, {}).items() if name not in rows}
        for made in [name for name in rows if name.startswith("~")]:
            row = rows.pop(made)
            twin = next(
                (
                    name
                    for name, other in spare.items()
                    if same({**other, "id": ""}, {**other, **row, "id": ""})
                ),
                None,
            )
            assert twin is not None, (key, row, spare)
            rows[twin] = spare.pop(twin)
    return ModelGraph(tables)


# -- values ----------------------------------------------------------------------------------


def python(value: Any, kind: ValueType) -> Any:
    """A stored value as results show it."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return [python(each, ValueType(kind.base)) for each in value]
    if kind.base is Base.DATE:
        return date(1970, 1, 1) + timedelta(days=value)
    if kind.base is Base.DATETIME:
        return _EPOCH + timedelta(milliseconds=value)
    return value


def stored(value: Any, kind: ValueType) -> Any:
    """A result value in stored form."""
    if isinstance(value, list):
        return tuple(stored(each, ValueType(kind.base)) for each in value)
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    return value


def expected(query: TypedQuery, catalog: Catalog, model: ModelGraph) -> list[dict[str, Any]]:
    """What a query must answer, as results show it."""
    (plan,) = compile_queries(query.text, catalog)
    assert isinstance(plan, ReadPlan)
    given = Given(bind(plan.params, query.params), NOW_MS)
    found = evaluate(plan, model, given)
    for row in found:
        for item in plan.outputs:
            value = row[item.name]
            if isinstance(value, Mapping):
                types = {column.name: column.type for column in item.expr.columns}  # type: ignore[union-attr]
                row[item.name] = {
                    _SPOKEN.get(name, name): python(cell, types[name])
                    for name, cell in value.items()
                }
            else:
                row[item.name] = python(value, item.type)
    return found


def same(left: Any, right: Any) -> bool:
    """Equal, but for what rounding may do to a sum or a distance."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-6)
    if type(left) is not type(right):
        return False
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, Sequence) and not isinstance(left, str):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)
