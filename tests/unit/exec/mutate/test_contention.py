"""Mutations that lose a race: retry or conflict; conditions on the head; repeated operations."""

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.core.repository import OpenMode
from omnigraph.core.retry import RetryPolicy
from omnigraph.errors import (
    Busy,
    Code,
    Conflict,
    ConstraintViolated,
    Forbidden,
    GraphError,
    PreconditionFailed,
)
from omnigraph.exec.mutate.mutator import MutationRequest
from tests.graphs import audit, reopen
from tests.unit.exec.mutate.support import Lab, counts, lab

PERSON = "node:Person"


@pytest.fixture
def graph(tmp_path: Path) -> Lab:
    found = lab(tmp_path)
    found.run('insert Person { name: "a", age: 1 }')
    return found


def before_commit(graph: Lab, action: Callable[[int], object]) -> list[int]:
    """Do something between the preparation and the commit of every attempt; count attempts."""
    commit, attempts = graph.repo.commit, list[int]()

    def first(prepared: object) -> object:
        attempts.append(len(attempts) + 1)
        action(attempts[-1])
        return commit(prepared)  # type: ignore[arg-type]

    graph.repo.commit = first  # type: ignore[method-assign, assignment]
    return attempts


def rival(graph: Lab) -> Lab:
    return Lab(reopen(graph.repo.root))


def test_inserts_start_over(graph: Lab) -> None:
    other = rival(graph)

    def disturb(attempt: int) -> None:
        if attempt <= 3:
            other.run(
                "insert Person { name: $n, age: 0 }", {"n": f"r{attempt}"}, params="$n: String"
            )

    attempts = before_commit(graph, disturb)
    assert counts(graph.run('insert Person { name: "b" }')) == (1, 0)
    assert attempts == [1, 2, 3, 4]
    assert set(graph.rows(PERSON)) == {"a", "b", "r1", "r2", "r3"}
    assert graph.waits == [0.0, 0.002, 0.004]
    audit(other.repo)


def test_an_upsert_that_starts_over_replaces_what_came_between(graph: Lab) -> None:
    other = rival(graph)
    seen = before_commit(
        graph,
        lambda attempt: attempt == 1 and other.run('insert Person { name: "b", email: "theirs" }'),
    )
    graph.run('insert Person { name: "b", age: 7 }')
    assert seen == [1, 2]
    row = graph.rows(PERSON)["b"]
    assert (row["age"], row["email"]) == (7, None)


@pytest.mark.parametrize(
    "body",
    [
        'update Person set { age: 2 } where name = "a"',
        'delete Person where name = "a"',
        'insert Person { name: "c" } update Person set { age: 2 } where name = "c"',
    ],
)
def test_without_retries_the_conflict_is_told_at_once(graph: Lab, body: str) -> None:
    other = rival(graph)
    attempts = before_commit(graph, lambda _: other.run('insert Person { name: "b" }'))
    with pytest.raises(Conflict) as caught:
        graph.run(body, retries=0)
    assert caught.value.code is Code.EXPECTED_VERSION_MISMATCH
    (conflict,) = caught.value.conflicts
    assert conflict["table_key"] == PERSON
    assert caught.value.details["attempts"] == 1
    assert attempts == [1]
    assert set(graph.rows(PERSON)) == {"a", "b"}
    audit(other.repo)


def test_updates_are_evaluated_anew(graph: Lab) -> None:
    """The rival makes the condition false: what is not there any more is not updated."""
    other = rival(graph)
    attempts = before_commit(
        graph,
        lambda attempt: attempt == 1 and other.run('update Person set { age: 5 } where name = "a"'),
    )
    done = graph.run('update Person set { age: 2 } where name = "a" and age = 1')
    assert (counts(done), done.commit) == ((0, 0), None)
    assert attempts == [1]
    assert graph.rows(PERSON)["a"]["age"] == 5
    before_commit(graph, lambda _: None)
    assert counts(graph.run("update Person set { age: 2 } where age = 5")) == (1, 0)
    audit(other.repo)


def test_deletes_take_along_what_came_between(graph: Lab) -> None:
    other = rival(graph)
    both = 'insert Person { name: "b" } insert Knows { from: "a", to: "b" }'
    before_commit(graph, lambda attempt: attempt == 1 and other.run(both))
    assert counts(graph.run('delete Person where name = "a"')) == (1, 1)
    assert set(graph.rows(PERSON)) == {"b"}
    audit(other.repo)


def test_a_statement_that_matches_nothing_has_read_all_the_same(graph: Lab) -> None:
    """Two that each look at what the other writes: run one after the other, one sees the other."""
    other = rival(graph)
    graph.run('insert Company { name: "c" }')
    theirs = 'update Person set { age: 9 } where name = "a"'
    before_commit(graph, lambda attempt: attempt == 1 and other.run(theirs))
    graph.run('insert Company { name: "d" } update Person set { age: 1 } where age = 9')
    assert graph.rows(PERSON)["a"]["age"] == 1
    audit(other.repo)


@pytest.mark.parametrize(
    "error",
    [
        Conflict(Code.HEAD_CONTENTION, "x"),
        Conflict(Code.WRITER_ACTIVE, "x"),
        Busy(Code.BUSY, "x"),
    ],
)
def test_attempts_are_bounded(graph: Lab, error: GraphError) -> None:
    def refuse(_: int) -> None:
        raise error

    attempts = before_commit(graph, refuse)
    with pytest.raises(type(error)) as caught:
        graph.run('insert Person { name: "b" }')
    assert caught.value.code is error.code
    assert len(attempts) == caught.value.details["attempts"] == graph.repo.retry.retries + 1
    attempts.clear()
    with pytest.raises(type(error), match="attempt 3") as caught:
        graph.run('insert Person { name: "b" }', retries=2)
    assert len(attempts) == caught.value.details["attempts"] == 3
    graph.repo.retry = RetryPolicy(retries=4)
    attempts.clear()
    with pytest.raises(type(error)):
        graph.run('insert Person { name: "b" }')
    assert len(attempts) == 5


def test_other_conflicts_are_final(graph: Lab) -> None:
    def refuse(_: int) -> None:
        raise Conflict(Code.BRANCH_REPLACED, "x")

    attempts = before_commit(graph, refuse)
    with pytest.raises(Conflict):
        graph.run('insert Person { name: "b" }')
    assert attempts == [1]


def test_a_condition_on_the_head(graph: Lab) -> None:
    head = graph.repo.snapshot().head
    first = graph.run('insert Person { name: "b" }', if_commit=head)
    assert first.commit is not None
    with pytest.raises(PreconditionFailed) as caught:
        graph.run('insert Person { name: "c" }', if_commit=head)
    assert caught.value.details == {"expected": head, "actual": first.commit.id}
    # Also when nothing would have matched.
    with pytest.raises(PreconditionFailed):
        graph.run('delete Person where name = "nobody"', if_commit=head)


def test_a_condition_on_the_head_is_never_retried(graph: Lab) -> None:
    other = rival(graph)
    head = graph.repo.snapshot().head
    attempts = before_commit(graph, lambda _: other.run('insert Company { name: "c" }'))
    with pytest.raises(PreconditionFailed):
        graph.run('insert Person { name: "b" }', if_commit=head)
    assert attempts == [1]
    assert set(graph.rows(PERSON)) == {"a"}
    audit(other.repo)


def test_an_operation_is_done_once_per_key(graph: Lab) -> None:
    body = 'insert Company { name: "c" } insert WorksAt { from: "a", to: "c" }'
    first = graph.run(body, idempotency_key="k")
    # Run again it would break a rule; it is not run again.
    again = graph.run(body, idempotency_key="k")
    assert (counts(again), again.commit, again.replayed) == ((1, 1), first.commit, True)
    assert not first.replayed
    with pytest.raises(ConstraintViolated):
        graph.run(body, idempotency_key="other")
    gone = graph.run('delete Person where name = "a"', idempotency_key="d")
    assert counts(graph.run('delete Person where name = "a"', idempotency_key="d")) == counts(gone)


def test_a_repeated_operation_outlives_its_condition(graph: Lab) -> None:
    head = graph.repo.snapshot().head
    first = graph.run('insert Person { name: "b" }', if_commit=head, idempotency_key="k")
    again = graph.run('insert Person { name: "b" }', if_commit=head, idempotency_key="k")
    assert again.replayed
    assert again.commit == first.commit


def test_two_handles_with_one_key(graph: Lab) -> None:
    """The other handle comes first between our preparation and our commit."""
    other = rival(graph)
    done = []
    before_commit(
        graph,
        lambda _: done.append(other.run('insert Person { name: "b" }', idempotency_key="k")),
    )
    mine = graph.run('insert Person { name: "b" }', idempotency_key="k")
    assert mine.replayed
    assert mine.commit == done[0].commit
    assert counts(mine) == (1, 0)


def test_a_changed_schema_is_a_conflict(graph: Lab) -> None:
    snapshot = graph.repo.snapshot()
    plan = graph.plan('query q() { insert Person { name: "b" } }')
    catalog = graph.repo.schema(snapshot).catalog
    stale = type(catalog)(nodes=catalog.nodes[:1])
    with pytest.raises(Conflict) as caught:
        graph.mutator.mutate(MutationRequest(plan=plan, params={}, catalog=stale), snapshot)
    assert caught.value.code is Code.SCHEMA_CHANGED


def test_a_reading_handle_changes_nothing(graph: Lab) -> None:
    reader = Lab(reopen(graph.repo.root, OpenMode.READ_ONLY))
    with pytest.raises(Forbidden):
        reader.run('insert Person { name: "b" }')
    with pytest.raises(Forbidden):
        reader.run('delete Person where name = "nobody"')
