"""The executor gives what nested loops give, in any view and for any query."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from omnigraph.errors import InvalidInput
from omnigraph.exec.read.program import prepare
from omnigraph.exec.search.search import Search
from omnigraph.exec.tuning import tuned
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.lang.query.params import bind
from omnigraph.testing.naive.graph import ModelGraph
from omnigraph.testing.schemas import NUMBERS, SOCIAL, STRICT
from omnigraph.testing.strategies_graph import graphs, sample_graph
from omnigraph.testing.strategies_query import TypedQuery
from omnigraph.testing.strategies_search import any_queries
from tests.examples import examples
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
def eager() -> Iterator[None]:
    """Small graphs take the ways that are meant for large ones."""
    with tuned(
        dictionary_rows_min=1,
        dictionary_share=1,
        fold_rows_min=2,
        inner_rows_min=2,
        partial_sort_rows_min=2,
        partial_rank_rows_min=2,
        top_factor=1,
        top_growth_factor=2,
        marked_pairs_max=8,
        probed_nodes_max=-1,
        marked_owners_max=2,
        intersected_nodes_max=3,
    ):
        yield


def in_id_order(catalog: Catalog, graph: ModelGraph) -> FakeView:
    return FakeDense(catalog, graph)


def as_met(catalog: Catalog, graph: ModelGraph) -> FakeView:
    return FakeView(catalog, graph, shuffled=True)


@pytest.mark.parametrize("make", [in_id_order, as_met])
@pytest.mark.parametrize("name", sorted(CATALOGS))
@examples(75, suppress_health_check=list(HealthCheck))
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
