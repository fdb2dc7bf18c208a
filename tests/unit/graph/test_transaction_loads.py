"""`tx.load`: small tables in a transaction, seen by its later queries, as a load means them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.dataplane import tuning
from omnigraph.errors import Code
from omnigraph.types import BranchName
from tests.unit.graph.test_transactions import START, knows, people

SCHEMA = """
node Person {
  name: String @key  age: I32?  photo: Blob?  level: I32 @default(1)
  @range(age, 0..150)
}
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
edge Rates: Person -> Person { stars: I32  @key(src, dst) }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA, actor="tester") as graph:
        graph.mutate(START.replace(', email: "ada@x"', ""))
        yield graph


def rows_of(graph: og.Graph, branch: str = "main") -> dict[str, list[dict[str, Any]]]:
    """All rows without the ids that were made up."""
    repo = graph._repo
    version = repo.snapshot(BranchName(branch))
    found = {}
    for key in version.tables:
        keyed = key in ("node:Person", "edge:Rates")
        rows = repo.read(version, key).to_pylist()
        found[key] = sorted(
            ({k: v for k, v in row.items() if keyed or k != "id"} for row in rows), key=str
        )
    return found


@pytest.mark.parametrize("access", ["dense", "direct"])
def test_later_queries_see_the_rows_and_one_commit_has_all(graph: og.Graph, access: Any) -> None:
    with graph.transaction(message="people") as tx:
        tx.mutate('query q() { insert Person { name: "Di" } }')
        done = tx.load(
            {
                "Person": pa.table({"name": ["Ed", "Flo"], "age": [5, None]}),
                "Knows": [{"from": "Ed", "to": "Di"}, {"from": "Ada", "to": "Flo", "since": 3}],
            }
        )
        assert (done.affected_nodes, done.affected_edges, done.commit) == (2, 2, None)
        assert people(tx, access=access)["Ed"] == 5
        assert ("Ada", "Flo") in knows(tx, access=access)
        tx.mutate('query q() { update Person set { age: 6 } where name = "Ed" }')
        tx.mutate('query q() { delete Person where name = "Flo" }')
        assert "Ed" not in people(graph)
    assert tx.result.commit is not None
    assert people(graph)["Ed"] == 6
    assert knows(graph) >= {("Ed", "Di")}
    assert ("Ada", "Flo") not in knows(graph)
    levels = graph.query("query q() { match { $p: Person { level: 1 } } return { $p.name as n } }")
    assert len(levels) == 5, "the default is given"


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_it_means_what_a_load_of_its_own_means(graph: og.Graph, mode: Any) -> None:
    source: dict[str, Any] = {
        "Person": [
            {"name": "Ada", "age": 37},
            {"name": "Bo", "age": None, "photo": "base64:aGk="},
            {"name": "New"},
        ],
        "Note": [{"text": "one"}],
        "Knows": [{"from": "Ada", "to": "New"}],
        "Rates": [{"from": "Ada", "to": "Bo", "stars": 5}, {"from": "Bo", "to": "Cy", "stars": 1}],
    }
    if mode == "append":
        source["Person"], source["Rates"] = source["Person"][2:], source["Rates"][1:]
    graph.branches.create("apart")
    graph.load(source, mode=mode, branch="apart")
    with graph.transaction() as tx:
        tx.load(source, mode=mode)
    assert rows_of(graph) == rows_of(graph, "apart")
    assert graph.read_blob("Person", "Ada", "photo") == b"hello"


def test_what_is_refused_leaves_the_transaction_as_it_was(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.load({"Person": [{"name": "Di"}]})
        for rows in ([{"name": "Ada"}], [{"name": "Di"}], [{"name": "Ed"}] * 2, [{"nme": "Ed"}]):
            with pytest.raises(og.errors.ConstraintViolated):
                tx.load({"Person": rows})
        with pytest.raises(og.errors.InvalidInput):
            tx.load({"Person": []}, mode="overwrite")  # type: ignore[arg-type]
        with pytest.raises(og.errors.InvalidInput):
            tx.load({"Nobody": [{"name": "x"}]})
        assert set(people(tx)) == {"Ada", "Bo", "Cy", "Di"}
    assert set(people(graph)) == {"Ada", "Bo", "Cy", "Di"}


def test_rules_are_judged_at_the_end(graph: og.Graph) -> None:
    with pytest.raises(og.errors.ConstraintViolated, match="age"), graph.transaction() as tx:
        tx.load({"Person": [{"name": "Old", "age": 1000}]})
    with pytest.raises(og.errors.ConstraintViolated), graph.transaction() as tx:
        tx.load({"Knows": [{"from": "Ada", "to": "Nobody"}]})
    with graph.transaction() as tx:
        tx.load({"Person": [{"name": "Old", "age": 1000}]})
        tx.mutate('query q() { update Person set { age: 100 } where name = "Old" }')
    assert people(graph)["Old"] == 100


def test_a_repeated_transaction_is_recognised(graph: og.Graph) -> None:
    def run(name: str) -> og.TransactionResult[None]:
        with graph.transaction(idempotency_key="once") as tx:
            tx.load({"Person": [{"name": name}], "Note": [{"text": "n"}]})
        return tx.result

    first, again = run("Di"), run("Di")
    assert again.replayed
    assert again.commit == first.commit
    with pytest.raises(og.errors.Conflict, match="another operation"):
        run("Ed")


def test_large_inputs_are_for_loads_of_their_own(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning.active, "transaction_rows_max", 2)
    with graph.transaction() as tx:
        with pytest.raises(og.errors.LimitExceeded, match=r"graph\.load") as caught:
            tx.load({"Person": [{"name": f"p{n}"} for n in range(3)]})
        assert caught.value.code is Code.LIMIT_EXCEEDED
        tx.load({"Person": [{"name": "p"}]})
