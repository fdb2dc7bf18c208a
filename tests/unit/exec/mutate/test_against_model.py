"""Random changes, one after the other: a graph does what dictionaries and loops do."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import ConstraintViolated
from omnigraph.exec.mutate.mutator import MutationRequest
from omnigraph.lang.ir.ops import InsertOp, MutationPlan
from omnigraph.lang.query.params import bind
from omnigraph.runtime.clock import ManualClock
from omnigraph.runtime.ids import UlidIds
from omnigraph.testing.naive import Given, ModelGraph, Outcome, Refused, apply
from omnigraph.testing.schemas import NUMBERS, SOCIAL, STRICT
from omnigraph.testing.strategies_mutation import changes
from tests.graphs import audit
from tests.unit.exec.mutate.support import Lab, counts, lab

STEPS = 6
_PLAIN = {pa.date32(): pa.int32(), pa.timestamp("ms", "UTC"): pa.int64()}


class Recorded:
    """Remembers the ids that it gave. Reproducible: what is drawn next depends on them."""

    def __init__(self) -> None:
        self._source = UlidIds.seeded(0, ManualClock())
        self.given: list[str] = []

    def new(self) -> str:
        self.given.append(self._source.new())
        return self.given[-1]


def stored(column: pa.ChunkedArray) -> list[Any]:
    """Values in the form of plans: numbers for dates, tuples for lists."""
    kind = column.type
    if pa.types.is_list(kind) and kind.value_type in _PLAIN:
        column = column.cast(pa.list_(_PLAIN[kind.value_type]))
    elif kind in _PLAIN:
        column = column.cast(_PLAIN[kind])
    return [tuple(value) if isinstance(value, list) else value for value in column.to_pylist()]


def tables(graph: Lab) -> dict[str, dict[str, dict[str, Any]]]:
    snapshot = graph.repo.snapshot()
    found = {}
    for key in snapshot.tables:
        table = graph.repo.read(snapshot, key)
        columns = [stored(table.column(name)) for name in table.schema.names]
        rows = [
            dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)
        ]
        found[key] = {row["id"]: row for row in rows}
        assert len(found[key]) == len(rows)
    return found


def filled(graph: ModelGraph) -> Mapping[str, Mapping[str, Any]]:
    return {key: dict(rows) for key, rows in graph.tables.items() if rows}


def blamed(rule: str, type_name: str, entity: str) -> tuple[str, str, str]:
    """A broken rule. Of two entities that hold one value, either may be called the second."""
    return rule, type_name, "" if rule == "unique" else entity


def modelled(
    plan: MutationPlan, model: ModelGraph, graph: Lab, params: Any, ids: Iterator[str]
) -> Outcome | set[tuple[str, str, str]]:
    """The outcome by the model, or what is broken."""
    catalog = graph.repo.schema(graph.repo.snapshot()).catalog
    try:
        return apply(plan, model, catalog, Given(params), lambda: next(ids))
    except Refused as refused:
        return {blamed(each.rule, each.type_name, each.id) for each in refused.broken}


def step(graph: Lab, model: ModelGraph, ids: Recorded, data: st.DataObject) -> ModelGraph:
    """One change of both; the graph after it."""
    before = graph.repo.snapshot()
    catalog = graph.repo.schema(before).catalog
    drawn = data.draw(changes(catalog, model))
    plan = graph.plan(drawn.text)
    params = bind(plan.params, drawn.params)
    start = len(ids.given)
    done = broken = None
    try:
        done = graph.mutator.mutate(
            MutationRequest(plan=plan, params=params, catalog=catalog), before
        )
    except ConstraintViolated as error:
        told = [(str(v["rule"]), str(v["type"]), v["id"]) for v in error.violations]
        broken = {blamed(rule, name, str(each or "")) for rule, name, each in told}
    # The statements take the first ids, each insert one of them.
    inserts = [op for op in plan.ops if isinstance(op, InsertOp)]
    taken = zip(inserts, ids.given[start:], strict=False)
    expected = modelled(plan, model, graph, params, iter([i for op, i in taken if not op.key]))
    if not isinstance(expected, Outcome):
        assert broken == expected
        assert graph.repo.snapshot().head == before.head
        return model
    assert done is not None, broken
    assert counts(done) == (expected.affected_nodes, expected.affected_edges)
    assert (done.commit is not None) == expected.published
    assert {key: rows for key, rows in tables(graph).items() if rows} == filled(expected.graph)
    return expected.graph


@pytest.mark.parametrize("schema", [SOCIAL, NUMBERS, STRICT], ids=["social", "numbers", "strict"])
@given(data=st.data())
@settings(max_examples=15)
def test_changes(schema: str, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        graph = lab(Path(folder), schema)
        graph.repo.ids = ids = Recorded()
        model = ModelGraph()
        for _ in range(data.draw(st.integers(1, STEPS))):
            model = step(graph, model, ids, data)
        audit(graph.repo)
