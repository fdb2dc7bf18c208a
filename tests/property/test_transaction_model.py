"""Random changes in one transaction: what it reads and leaves is what the naive model says."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import ConstraintViolated
from omnigraph.exec.tuning import tuned
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.ops import InsertOp
from omnigraph.lang.query.params import bind
from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.ids import UlidIds
from omnigraph.testing.naive import Given, ModelGraph, Refused, apply
from omnigraph.testing.schemas import NUMBERS, SOCIAL, STRICT
from omnigraph.testing.strategies_mutation import changes
from tests.graphs import audit

SCHEMAS = {"social": SOCIAL, "numbers": NUMBERS, "strict": STRICT}
# Small data takes the ways of large data, and the usual ones.
WAYS: dict[str, dict[str, int]] = {
    "derived": {},
    "built": {"delta_rows_min": 0},
    "looked up": {"loaded_rows_max": 0},
}


class RecordedIds:
    """Remembers the ids that it gave."""

    def __init__(self) -> None:
        self._source = UlidIds.seeded(0, ManualClock())
        self.given: list[str] = []

    def new(self) -> str:
        self.given.append(self._source.new())
        return self.given[-1]


def ids_of(tx: og.Transaction, catalog: Catalog, access: Any) -> dict[str, set[Any]]:
    """What queries of a transaction find: the ids of nodes, and the ends of edges."""
    found: dict[str, set[Any]] = {}
    for node in catalog.nodes:
        text = f"query q() {{ match {{ $x: {node.name} }} return {{ $x }} }}"
        rows = tx.query(text, access=access).to_pylist()
        found[f"node:{node.name}"] = {row["x"]["id"] for row in rows}
        assert len(rows) == len(found[f"node:{node.name}"])
    for edge in catalog.edges:
        verb = edge.name[0].lower() + edge.name[1:]
        text = f"query q() {{ match {{ $a: {edge.source}  $a {verb} $b }} return {{ $a, $b }} }}"
        rows = tx.query(text, access=access).to_pylist()
        found[f"edge:{edge.name}"] = {(row["a"]["id"], row["b"]["id"]) for row in rows}
    return found


def ids_in(model: ModelGraph, catalog: Catalog) -> dict[str, set[Any]]:
    """The same, as the model has it."""
    found: dict[str, set[Any]] = {f"node:{node.name}": set() for node in catalog.nodes}
    found |= {f"edge:{edge.name}": set() for edge in catalog.edges}
    for key, rows in model.tables.items():
        is_node = key.startswith("node:")
        found[key] = set(rows) if is_node else {(r["src"], r["dst"]) for r in rows.values()}
    return found


def stored(graph: og.Graph) -> dict[str, Mapping[str, Any]]:
    repo = graph._repo
    snapshot = repo.snapshot()
    tables = {key: repo.read(snapshot, key).to_pylist() for key in snapshot.tables}
    return {key: {row["id"]: row for row in rows} for key, rows in tables.items() if rows}


def step(
    tx: og.Transaction, model: ModelGraph, catalog: Catalog, ids: RecordedIds, data: st.DataObject
) -> ModelGraph:
    """One query that the rules allow; the model after it."""
    drawn = data.draw(changes(catalog, model))
    assert tx._plans is not None
    plan = tx._plans.change(drawn.text, None)
    params = bind(plan.params, drawn.params)
    source, start = iter(RecordedIds().new, None), len(ids.given)
    try:
        # Allowed at all? Which ids it gets does not matter for that.
        apply(plan, model, catalog, Given(params), lambda: f"try-{next(source)}")
    except Refused:
        return model
    done = tx.mutate(drawn.text, drawn.params)
    inserts = [op for op in plan.ops if isinstance(op, InsertOp)]
    taken = zip(inserts, ids.given[start:], strict=False)
    mine = iter([each for op, each in taken if not op.key])
    expected = apply(plan, model, catalog, Given(params), lambda: next(mine))
    counts = (expected.affected_nodes, expected.affected_edges)
    assert (done.affected_nodes, done.affected_edges) == counts
    return expected.graph


@pytest.mark.parametrize("schema", SCHEMAS)
@given(data=st.data())
@settings(max_examples=3)
def test_a_transaction_is_its_queries_one_after_the_other(schema: str, data: st.DataObject) -> None:
    run(schema, data)


@pytest.mark.deep
@pytest.mark.parametrize("schema", SCHEMAS)
@given(data=st.data())
@settings(max_examples=100)
def test_many_transactions(schema: str, data: st.DataObject) -> None:
    run(schema, data)


def run(schema: str, data: st.DataObject) -> None:
    """Some transactions, one after the other."""
    way = data.draw(st.sampled_from(sorted(WAYS)))
    with TemporaryDirectory() as folder, tuned(**WAYS[way]):
        graph = og.init(str(Path(folder) / "g"), schema=SCHEMAS[schema])
        ids = RecordedIds()
        graph._repo.ids = ids
        catalog = graph._plans(graph._repo.snapshot()).catalog
        model = ModelGraph()
        for _ in range(data.draw(st.integers(1, 3))):
            before, commits = model, len(list(graph.commits.list()))
            broken: set[object] = set()
            try:
                with graph.transaction() as tx:
                    for _ in range(data.draw(st.integers(1, 5))):
                        model = step(tx, model, catalog, ids, data)
                        if data.draw(st.booleans()):
                            access = data.draw(st.sampled_from(["dense", "direct", "auto"]))
                            assert ids_of(tx, catalog, access) == ids_in(model, catalog)
            except ConstraintViolated as error:
                broken = {each["rule"] for each in error.violations}
                model = before
            # A node that was deleted and made again has lost its edges.
            assert broken <= {"cardinality"}
            assert len(list(graph.commits.list())) <= commits + 1
            found = stored(graph)
            left = {key: set(rows) for key, rows in found.items()}
            assert left == {key: set(rows) for key, rows in model.tables.items() if rows}
            check_values(found, model)
        audit(graph._repo)
        graph.close()


def check_values(found: Mapping[str, Mapping[str, Any]], model: ModelGraph) -> None:
    """Texts and whole numbers are those of the model; other forms are compared elsewhere."""
    for key, rows in model.tables.items():
        for name, row in rows.items():
            for column, value in row.items():
                mine = found[key][name][column]
                if isinstance(value, str | int) and isinstance(mine, str | int):
                    assert mine == value, (key, name, column)
