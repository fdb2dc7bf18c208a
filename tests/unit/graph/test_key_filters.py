"""Filters of keys: large loads leave them, look-ups use them, optimizing replaces them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import ConstraintViolated
from omnigraph.store import tuning
from omnigraph.store.tables import KEY_FILTER
from omnigraph.types import BranchName
from tests.graphs import clean

SCHEMA = "node Person { name: String @key  age: I64? } edge Knows: Person -> Person"
MANY = 300


@pytest.fixture(autouse=True)
def small_is_large() -> Iterator[None]:
    with tuning.tuned(filtered_rows_min=MANY, filtered_load_rows_min=20, file_rows_max=100):
        yield


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", schema=SCHEMA)


def load(graph: og.Graph, start: int, count: int, **terms: str) -> og.LoadResult:
    rows = [{"name": f"p{number}", "age": number} for number in range(start, start + count)]
    return graph.load({"Person": rows}, **terms)  # type: ignore[arg-type]


def kinds(graph: og.Graph, key: str = "node:Person", branch: str = "main") -> dict[str, str]:
    """The kinds of the indexes of a table, by column."""
    repo = graph._repo
    table = repo.table(repo.snapshot(BranchName(branch)).pin(key))
    fragments = set(table.fragment_ids())
    assert all(index.fragments == fragments for index in table.indexes())
    return {index.columns[0]: index.type for index in table.indexes()}


def ages(graph: og.Graph, *names: str, branch: str = "main") -> list[int | None]:
    found = []
    for name in names:
        text = f'query q() {{ match {{ $p: Person {{ name: "{name}" }} }} return {{ $p.age }} }}'
        found += [row["p.age"] for row in graph.query(text, branch=branch).to_pylist()]
    return found


def mutate(graph: og.Graph, text: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def test_a_large_load_leaves_a_filter_of_its_keys_and_a_small_one_none(graph: og.Graph) -> None:
    load(graph, 0, MANY - 1)
    assert kinds(graph) == {}
    done = load(graph, MANY, MANY)
    assert kinds(graph) == {"id": KEY_FILTER}
    head, before = list(graph.commits.list())[:2]
    assert (head.kind, before.id) == ("ensure_indices", done.commit.id)
    load(graph, 5 * MANY, MANY)
    assert kinds(graph) == {"id": KEY_FILTER}


def test_edges_are_found_by_their_ends(graph: og.Graph) -> None:
    load(graph, 0, MANY)
    edges = [{"from": f"p{n}", "to": f"p{(n * 7) % MANY}"} for n in range(MANY)]
    graph.load({"Knows": edges})
    assert kinds(graph, "edge:Knows") == dict.fromkeys(("id", "src", "dst"), KEY_FILTER)
    mutate(graph, 'delete Person where name = "p7"')  # and its edges, by either end
    count = "query q() { match { $a: Person  $b: Person  $a knows $b } return { count($a) as n } }"
    assert graph.query(count).to_pylist() == [{"n": MANY - 2}]


def test_what_is_changed_behind_a_filter_is_found_as_it_is(graph: og.Graph) -> None:
    load(graph, 0, MANY)
    mutate(graph, 'update Person set { age: 1000 } where name = "p5"')
    mutate(graph, 'delete Person where name = "p6"')
    mutate(graph, 'insert Person { name: "new", age: 7 }')
    load(graph, 10, 1, mode="merge")
    assert ages(graph, "p5", "p6", "new", "p10", "p299", "nobody") == [1000, 7, 10, 299]
    graph.branches.create("dev")
    mutate(graph, 'update Person set { age: 2000 } where name = "p8"', "dev")
    graph.branches.merge("dev")
    assert ages(graph, "p8", "p9") == [2000, 9]
    with pytest.raises(ConstraintViolated):
        load(graph, 20, 1, mode="append")
    clean(graph._repo)
    assert not graph.verify("rows", engine="inprocess").findings


@pytest.mark.parametrize("call", ["optimize", "ensure_indices"])
def test_ordered_indexes_take_the_place_of_filters(graph: og.Graph, call: str) -> None:
    load(graph, 0, MANY)
    mutate(graph, 'update Person set { age: 1000 } where name = "p5"')
    mutate(graph, "delete Person where age < 90 and age > 10")
    if call == "optimize":
        graph.optimize(engine="inprocess")
    else:
        graph.ensure_indices()
    assert kinds(graph)["id"] == "BTree"
    assert ages(graph, "p5", "p6", "p50", "p299") == [1000, 6, 299]
    load(graph, MANY, MANY)  # whoever has optimized does it again
    repo = graph._repo
    table = repo.table(repo.snapshot(BranchName("main")).pin("node:Person"))
    assert KEY_FILTER not in {index.type for index in table.indexes()}


@pytest.mark.parametrize("afterwards", ["nothing", "optimize"])
def test_the_commit_of_a_load_can_be_demanded_although_an_index_came_after_it(
    graph: og.Graph, afterwards: str
) -> None:
    loaded = load(graph, 0, MANY).commit
    if afterwards == "optimize":
        graph.optimize()
    assert loaded is not None
    assert graph.snapshot().commit != loaded.id
    text = 'query q() { update Person set { age: 1 } where name = "p7" }'
    with graph.transaction(if_commit=loaded.id) as tx:
        assert tx.query("query q() { match { $p: Person } return { count($p) as n } }")
    changed = graph.mutate(text, if_commit=loaded.id)
    assert changed.commit is not None
    for wanted in (loaded.id, "01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        with pytest.raises(og.errors.PreconditionFailed, match="moved on"):
            graph.mutate(text, if_commit=wanted)
    graph.schema.apply(
        SCHEMA.replace("age: I64?", "age: I64?  note: String?"), if_commit=changed.commit.id
    )
