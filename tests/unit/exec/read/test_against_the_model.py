"""The executor gives what nested loops give, in any view and for any query."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.errors import InvalidInput
from omnigraph.exec.read import ahead, coded, fold, intersect, join, order, ranking, reach
from omnigraph.exec.read.plan import prepare
from omnigraph.exec.search.engine import Search
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.testing.naive.graph import ModelGraph
from omnigraph.testing.schemas import NUMBERS, SOCIAL, STRICT
from omnigraph.testing.strategies_graph import graphs, sample_graph
from omnigraph.testing.strategies_query import TypedQuery
from omnigraph.testing.strategies_search import any_queries
from tests.modelled import NOW_MS, expected, same
from tests.unit.exec.read.fake_view import FakeDense, FakeView

CATALOGS = {
    name: compile_schema(text)
    for name, text in {"social": SOCIAL, "numbers": NUMBERS, "strict": STRICT}.items()
}


def answer(catalog: Catalog, view: FakeView, query: TypedQuery) -> list[dict[str, Any]]:
    (read,) = compile_queries(query.text, catalog)
    assert isinstance(read, ReadPlan)
    params = bind(read.params, query.params)
    rows = prepare(read, catalog).run(view, params, NOW_MS, Search())
    listed = rows.to_pylist()
    assert len(rows) == len(listed)
    table = rows.to_arrow()
    assert (table.num_rows, tuple(table.column_names)) == (len(rows), rows.columns)
    return listed


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small graphs take the ways that are meant for large ones."""
    monkeypatch.setattr(coded, "_ROWS_MIN", 1)
    monkeypatch.setattr(coded, "_SHARE", 1)
    monkeypatch.setattr(fold, "_WORTH", 2)
    monkeypatch.setattr(join, "_WORTH", 2)
    monkeypatch.setattr(order, "_WORTH", 2)
    monkeypatch.setattr(ranking, "_WORTH", 2)
    monkeypatch.setattr(ahead, "_SPARE", 1)
    monkeypatch.setattr(ahead, "_GROWTH", 2)
    monkeypatch.setattr(reach, "_SEEN_MAX", 8)
    monkeypatch.setattr(intersect, "_FEW", -1)
    monkeypatch.setattr(intersect, "_BITS", 2)
    monkeypatch.setattr(intersect, "_AT_ONCE", 3)


def in_id_order(catalog: Catalog, graph: ModelGraph) -> FakeView:
    return FakeDense(catalog, graph)


def as_met(catalog: Catalog, graph: ModelGraph) -> FakeView:
    return FakeView(catalog, graph, shuffled=True)


@pytest.mark.parametrize("make", [in_id_order, as_met])
@pytest.mark.parametrize("name", sorted(CATALOGS))
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_query_of_any_graph(
    name: str, make: Callable[[Catalog, ModelGraph], FakeView], data: st.DataObject
) -> None:
    catalog = CATALOGS[name]
    some = st.integers(0, 50).map(lambda seed: sample_graph(catalog, seed))
    graph = data.draw(graphs(catalog) | some)
    query = data.draw(any_queries(catalog))
    view = make(catalog, graph)
    try:
        wanted = expected(query, catalog, graph)
    except InvalidInput:
        with pytest.raises(InvalidInput):
            answer(catalog, view, query)
        return
    found = answer(catalog, view, query)
    assert same(found, wanted), (query.text, query.params, found, wanted)
