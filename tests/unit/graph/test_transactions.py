# ruff: noqa: PT012 - a transaction ends with its block, which has several statements.
"""`graph.transaction` and `graph.transact`: own writes are seen, one commit, all or nothing."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Code
from omnigraph.exec.tuning import tuned

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  email: String? @unique
  photo: Blob?
  @range(age, 0..150)
}
node Note { text: String  words: String? @index }
edge Knows: Person -> Person { since: I32? }
edge Rates: Person -> Person { stars: I32  @key(src, dst) }
edge Owns: Person -> Note @card(1..2)
"""
START = """
query start() {
  insert Person { name: "Ada", age: 36, email: "ada@x", photo: "base64:aGVsbG8=" }
  insert Person { name: "Bo", age: 41 }
  insert Person { name: "Cy" }
  insert Knows { from: "Ada", to: "Bo", since: 1 }
  insert Knows { from: "Bo", to: "Cy" }
  insert Rates { from: "Ada", to: "Bo", stars: 3 }
}
"""
PEOPLE = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"
KNOWS = "query q() { match { $a: Person  $a knows $b } return { $a.name as a, $b.name as b } }"
ONE = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age as age } }"
SET_AGE = 'query q($a: I32) { update Person set { age: $a } where name = "Bo" }'
ANY: Any = og


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(str(tmp_path / "g.omni"), schema=SCHEMA, actor="tester") as graph:
        graph.mutate(START)
        yield graph


@pytest.fixture(params=["dense", "direct"])
def access(request: pytest.FixtureRequest) -> Any:
    return request.param


def q(body: str) -> str:
    return f"query q() {{ {body} }}"


def people(of: Any, **options: Any) -> dict[str, int | None]:
    return {row["name"]: row["age"] for row in of.query(PEOPLE, **options)}


def knows(of: Any, **options: Any) -> set[tuple[str, str]]:
    return {(row["a"], row["b"]) for row in of.query(KNOWS, **options)}


def commits(graph: og.Graph) -> int:
    return len(list(graph.commits.list()))


def reason(error: pytest.ExceptionInfo[og.errors.InvalidInput]) -> object:
    assert error.value.code is Code.TRANSACTION_INVALID
    return error.value.details["reason"]


# -- what is seen ----------------------------------------------------------------------------------


def test_queries_see_own_changes_and_others_do_not(graph: og.Graph, access: Any) -> None:
    before = commits(graph)
    with graph.transaction(message="all of it") as tx:
        assert people(tx, access=access) == {"Ada": 36, "Bo": 41, "Cy": None}
        tx.mutate(q('insert Person { name: "Di", age: 9 }'))
        tx.mutate(q('update Person set { age: 37 } where name = "Ada"'))
        tx.mutate(q('delete Person where name = "Bo"'))
        assert people(tx, access=access) == {"Ada": 37, "Cy": None, "Di": 9}
        assert knows(tx, access=access) == set()
        tx.mutate(q('insert Knows { from: "Di", to: "Ada" }'))
        tx.mutate(q('insert Person { name: "Bo", age: 1 }'))
        assert knows(tx, access=access) == {("Di", "Ada")}
        for name, age in (("Bo", 1), ("Di", 9), ("Ada", 37), ("Ed", "none")):
            rows = tx.query(ONE, {"n": name}, access=access).to_pylist()
            assert rows == ([] if age == "none" else [{"age": age}])
        assert people(graph) == {"Ada": 36, "Bo": 41, "Cy": None}
    assert people(graph) == {"Ada": 37, "Bo": 1, "Cy": None, "Di": 9}
    assert knows(graph) == {("Di", "Ada")}
    assert commits(graph) == before + 1
    done = tx.result
    # Ada and Bo changed, Di is new; two friendships and a rating are gone, one is new.
    assert (done.affected_nodes, done.affected_edges) == (3, 4)
    assert done.commit is not None
    assert (done.commit.message, done.commit.actor, done.commit.kind) == (
        "all of it",
        "tester",
        "transaction",
    )
    assert tx.state == "committed"
    assert tx.base == done.commit.parent_id
    # What a blob held stays although the row was rewritten.
    assert graph.read_blob("Person", "Ada", "photo") == b"hello"


def test_what_was_made_is_changed_and_deleted_again(graph: og.Graph, access: Any) -> None:
    with graph.transaction() as tx:
        made = tx.mutate(q('insert Note { text: "a" } insert Note { text: "b", words: "old oak" }'))
        assert made.affected_nodes == 2
        assert tx.mutate(q('update Note set { words: "new elm" } where text = "a"')).commit is None
        found = 'match { $n: Note  search($n.words, "elm") } return { $n.text as t }'
        assert tx.query(q(found), access=access).to_pylist() == [{"t": "a"}]
        assert tx.mutate(q('delete Note where text = "a"')).affected_nodes == 1
        assert tx.mutate(q('delete Note where text = "a"')).affected_nodes == 0
        rated = tx.mutate(q('insert Rates { from: "Ada", to: "Bo", stars: 5 }'))
        assert rated.affected_edges == 1
        assert tx.mutate(q('delete Person where name = "Ada"')).affected_edges == 2
        assert tx.mutate(q("delete Rates where stars >= 0")).affected_edges == 0
    assert tx.result.affected_nodes == 2
    assert tx.result.affected_edges == 2
    assert graph.snapshot().counts["node:Note"] == 1
    assert graph.snapshot().counts["edge:Rates"] == 0


def test_a_large_base_is_read_by_its_indexes_and_incrementally(graph: og.Graph) -> None:
    graph.load({"Person": [{"name": f"p{n}", "age": n % 100} for n in range(3_000)]})
    graph.load({"Knows": [{"from": f"p{n}", "to": f"p{n + 1}"} for n in range(2_000)]})
    near = 'match { $p: Person { name: "p7" }  $p knows $o } return { $o.name as n } order { n }'
    count = "match { $p: Person  $p.age = 150 } return { count($p) as n }"
    with tuned(loaded_rows_max=10), graph.transaction() as tx:
        tx.mutate(q('insert Knows { from: "p7", to: "Ada" }'))
        tx.mutate(q('delete Person where name = "p8"'))
        assert [row["n"] for row in tx.query(q(near))] == ["Ada"]
        tx.mutate(q("update Person set { age: 150 } where age < 10"))
        assert tx.query(q(count))[0]["n"] == 299
        tx.mutate(q("update Person set { age: 149 } where age = 150"))
        assert tx.query(q(count))[0]["n"] == 0
    assert graph.query(q(near)).to_pylist() == [{"n": "Ada"}]


def test_nothing_changed_makes_no_commit(graph: og.Graph) -> None:
    before = commits(graph)
    with graph.transaction() as tx:
        assert people(tx)["Bo"] == 41
        assert tx.mutate(q('delete Person where name = "nobody"')).affected_nodes == 0
    assert tx.result.commit is None
    assert commits(graph) == before


# -- rules -----------------------------------------------------------------------------------------


def test_rules_are_judged_on_what_is_left_in_the_end(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        # Each of these alone would be refused.
        tx.mutate(q('insert Person { name: "Di", email: "ada@x" }'))
        tx.mutate(q('update Person set { email: null } where name = "Ada"'))
        tx.mutate(q('insert Knows { from: "Ed", to: "Di" }'))
        tx.mutate(q('insert Person { name: "Ed" }'))
    assert ("Ed", "Di") in knows(graph)


BAD = {
    "unique": ['insert Person { name: "Di", email: "ada@x" }'],
    "range": ['insert Person { name: "Di", age: 151 }'],
    "endpoint": ['delete Person where name = "Bo"', 'insert Knows { from: "Bo", to: "Ada" }'],
    "cardinality": ['insert Note { text: "n" }', 'delete Owns where from = "Ada"'],
}


@pytest.mark.parametrize("rule", ["unique", "range", "endpoint"])
def test_broken_rules_drop_everything(graph: og.Graph, rule: str) -> None:
    before = commits(graph), people(graph)
    with pytest.raises(og.errors.ConstraintViolated) as error, graph.transaction() as tx:
        tx.mutate(q('insert Person { name: "Zoe" }'))
        for body in BAD[rule]:
            tx.mutate(q(body))
    assert rule[:5] in str(error.value.violations[0]["rule"])
    assert (commits(graph), people(graph)) == before
    assert tx.state == "failed"


def test_the_only_edge_is_replaced(graph: og.Graph) -> None:
    graph.load({"Note": [{"id": "n1", "text": "1"}, {"id": "n2", "text": "2"}]}, mode="append")
    graph.mutate(q('insert Owns { from: "Ada", to: "n1" }'))
    with pytest.raises(og.errors.ConstraintViolated):
        graph.mutate(q('delete Owns where from = "Ada"'))
    with graph.transaction() as tx:
        tx.mutate(q('delete Owns where from = "Ada"'))
        tx.mutate(q('insert Owns { from: "Ada", to: "n2" }'))
    assert tx.result.affected_edges == 2
    with pytest.raises(og.errors.ConstraintViolated), graph.transaction() as tx:
        tx.mutate(q('delete Owns where from = "Ada"'))


def test_a_query_needs_both_ends_of_an_edge(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.mutate(q('insert Knows { from: "Ada", to: "Di" }'))
        with pytest.raises(og.errors.ConstraintViolated):
            tx.query(KNOWS)
        tx.mutate(q('insert Person { name: "Di" }'))
        assert ("Ada", "Di") in knows(tx)


# -- the end ---------------------------------------------------------------------------------------


def test_an_exception_drops_everything(graph: og.Graph) -> None:
    before = commits(graph)
    with pytest.raises(ZeroDivisionError), graph.transaction() as tx:
        tx.mutate(q('insert Person { name: "Di" }'))
        raise ZeroDivisionError
    assert tx.state == "rolled_back"
    assert commits(graph) == before
    with graph.transaction() as tx:
        tx.mutate(q('insert Person { name: "Di" }'))
        tx.rollback()
        with pytest.raises(og.errors.InvalidInput) as error:
            tx.query(PEOPLE)
    assert reason(error) == "rolled_back"
    assert commits(graph) == before
    with pytest.raises(og.errors.InvalidInput) as error:
        _ = tx.result
    assert reason(error) == "rolled_back"


def test_a_wrong_text_changes_nothing_and_a_failed_query_ends_it(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        for text in ("query q() { insert Nobody { } }", PEOPLE):
            with pytest.raises(og.errors.InvalidInput):
                tx.mutate(text)
        tx.mutate(q('insert Person { name: "Di" }'))
    assert "Di" in people(graph)
    with pytest.raises(og.errors.InvalidInput) as error, graph.transaction() as tx:
        with pytest.raises(og.errors.InvalidInput):
            tx.mutate('query q($n: String) { insert Person { name: "Ed", photo: $n } }', {"n": "?"})
        with pytest.raises(og.errors.InvalidInput):
            tx.query(PEOPLE)
    assert reason(error) == "failed"
    assert "Ed" not in people(graph)


USES: dict[str, Callable[[og.Transaction], object]] = {
    "mutate": lambda tx: tx.mutate(q('delete Person where name = "Bo"')),
    "query": lambda tx: tx.query(PEOPLE),
    "rollback": lambda tx: tx.rollback(),
}


@pytest.mark.parametrize("use", USES)
def test_wrong_uses(graph: og.Graph, use: str) -> None:
    fresh = graph.transaction()
    with pytest.raises(og.errors.InvalidInput) as error:
        USES[use](fresh)
    assert reason(error) == "new"
    with graph.transaction() as tx:
        found: list[BaseException] = []

        def other() -> None:
            try:
                USES[use](tx)
            except og.errors.InvalidInput as refused:
                found.append(refused)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert [each.details["reason"] for each in found] == ["thread"]  # type: ignore[attr-defined]
    with pytest.raises(og.errors.InvalidInput) as error:
        USES[use](tx)
    assert reason(error) == "committed"
    with pytest.raises(og.errors.InvalidInput) as error, tx:
        pass
    assert reason(error) == "committed"
    with pytest.raises(og.errors.InvalidInput) as closed, graph.transaction() as tx:
        graph.close()
        USES[use](tx)
    assert closed.value.code is Code.CLOSED


def test_one_transaction_of_a_branch_at_a_time(graph: og.Graph) -> None:
    graph.branches.create("draft")
    with graph.transaction():
        with pytest.raises(og.errors.InvalidInput) as error, graph.transaction():
            pass
        assert reason(error) == "nested"
        with graph.transaction("draft") as other:
            other.mutate(q('insert Person { name: "Di" }'))
    assert "Di" in people(graph, branch="draft")
    assert "Di" not in people(graph)
    abandoned = graph.transaction()
    abandoned.__enter__()
    del abandoned
    with graph.transaction():
        pass


def test_arguments_are_checked(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(og.errors.InvalidInput):
        graph.transaction("no such name!")
    with pytest.raises(og.errors.NotFound), graph.transaction("nowhere"):
        pass
    with pytest.raises(og.errors.InvalidInput):
        ANY.Graph.transact(graph, None)
    with pytest.raises(og.errors.InvalidInput):
        graph.transact(people, retries=-1)
    with og.open(graph.uri, mode="r") as reading, pytest.raises(og.errors.Forbidden):
        reading.transaction()
    head = graph.snapshot().commit
    with graph.transaction(if_commit=head) as tx:
        tx.mutate(q('insert Person { name: "Di" }'))
    with pytest.raises(og.errors.PreconditionFailed), graph.transaction(if_commit=head):
        pass


# -- others ----------------------------------------------------------------------------------------

READ_AND_WRITE: dict[str, tuple[str, str, bool]] = {
    # what the transaction reads or writes, what another commits, whether they conflict
    "read": ("Knows", "insert Person", True),
    "write": ("Person", "insert Person", True),
    "apart": ("Person", "insert Note", False),
}


@pytest.mark.parametrize("case", READ_AND_WRITE)
def test_conflicts(graph: og.Graph, case: str) -> None:
    mine, theirs, is_refused = READ_AND_WRITE[case]
    other = {
        "insert Person": q('insert Person { name: "Other" }'),
        "insert Note": q('insert Note { text: "other" }'),
    }[theirs]

    def run() -> og.Transaction:
        with graph.transaction() as tx:
            if mine == "Knows":
                people(tx)
                tx.mutate(q('insert Note { text: "mine" }'))
            else:
                tx.mutate(q('update Person set { age: 1 } where name = "Bo"'))
            graph.mutate(other)
        return tx

    if is_refused:
        with pytest.raises(og.errors.Conflict) as error:
            run()
        assert error.value.code is Code.EXPECTED_VERSION_MISMATCH
        assert people(graph)["Bo"] == 41
    else:
        run()
        assert people(graph)["Bo"] == 1


def test_a_branch_that_is_deleted_meanwhile(graph: og.Graph) -> None:
    graph.branches.create("draft")
    with pytest.raises(og.errors.Conflict) as error, graph.transaction("draft") as tx:
        tx.mutate(q('insert Person { name: "Di" }'))
        graph.branches.delete("draft")
        graph.branches.create("draft")
    assert error.value.code is Code.BRANCH_REPLACED
    assert "Di" not in people(graph, branch="draft")
    with pytest.raises((og.errors.Conflict, og.errors.NotFound)), graph.transaction("draft") as tx:
        tx.mutate(q('insert Person { name: "Di" }'))
        graph.branches.delete("draft")


def test_a_function_runs_again_when_others_came_first(graph: og.Graph) -> None:
    runs: list[int] = []

    def older(tx: og.Transaction) -> int:
        age = tx.query(ONE, {"n": "Bo"})[0]["age"]
        if len(runs) < 2:
            graph.mutate(q(f'update Person set {{ age: {age + 10} }} where name = "Bo"'))
        runs.append(age)
        tx.mutate(
            'query q($a: I32) { update Person set { age: $a } where name = "Bo" }', {"a": age + 1}
        )
        return int(age)

    done = graph.transact(older, message="older")
    assert (runs, done.value, people(graph)["Bo"]) == ([41, 51, 61], 61, 62)
    assert done.commit is not None
    assert done.commit.message == "older"
    runs.clear()
    with pytest.raises(og.errors.Conflict) as error:
        graph.transact(older, retries=1)
    assert error.value.details["attempts"] == 2
    assert len(runs) == 2


def test_errors_of_the_function_end_it(graph: og.Graph) -> None:
    runs: list[int] = []

    def bad(tx: og.Transaction) -> None:
        runs.append(1)
        raise og.errors.Conflict(Code.WRITER_ACTIVE, "mine")

    with pytest.raises(og.errors.Conflict, match="mine"):
        graph.transact(bad)
    assert len(runs) == 1
    assert graph.transact(lambda tx: tx.rollback()).commit is None


def test_an_idempotency_key_does_it_once(graph: og.Graph) -> None:
    def older(tx: og.Transaction) -> int:
        age = int(tx.query(ONE, {"n": "Bo"})[0]["age"])
        tx.mutate(
            'query q($a: I32) { update Person set { age: $a } where name = "Bo" }', {"a": age + 1}
        )
        return age

    first = graph.transact(older, idempotency_key="k1")
    graph.mutate(q('update Person set { age: 90 } where name = "Bo"'))
    again = graph.transact(older, idempotency_key="k1")
    assert again.replayed
    assert not first.replayed
    assert (again.commit, again.value, again.affected_nodes) == (first.commit, 41, 1)
    assert people(graph)["Bo"] == 90
    with pytest.raises(og.errors.Conflict, match="another operation"):
        graph.transact(
            lambda tx: tx.mutate(q('delete Person where name = "Bo"')), idempotency_key="k1"
        )
