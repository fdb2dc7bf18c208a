"""The repository's own promises on local disk: reads, writes, conflicts, preconditions, history."""

from pathlib import Path

import pytest

from omnigraph.core.repository import OpenMode, Repository
from omnigraph.errors import Code, Conflict, Forbidden, NotFound, PreconditionFailed
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName, CommitId
from tests.graphs import (
    COMPANY,
    KNOWS,
    PERSON,
    Delta,
    acquaintances,
    audit,
    chain,
    companies,
    ids,
    people,
    prepare,
    reopen,
    rows,
    write,
)

DEV = BranchName("dev")


def test_one_commit_changes_several_tables(graph: Repository) -> None:
    before = graph.snapshot()
    done = write(
        graph,
        {PERSON: people("a", "b"), COMPANY: companies("x"), KNOWS: acquaintances(("a", "b"))},
        actor="ada",
    )
    assert done.manifest_version == before.manifest_version + 1
    after = graph.snapshot()
    assert after.head == done.commit.id
    assert done.commit.parent_id == before.head
    assert done.commit.actor == "ada"
    assert {key: pin.row_count for key, pin in after.tables.items()} == {
        PERSON: 2,
        COMPANY: 1,
        KNOWS: 1,
    }
    assert rows(graph, PERSON, before) == {}
    audit(graph)


def test_inserts_updates_and_deletes_of_one_table_are_one_version(graph: Repository) -> None:
    write(graph, {PERSON: people("a", "b", "c", age=1)})
    version = graph.snapshot().pin(PERSON).version
    delta = Delta(insert=[{"id": "d", "name": "d"}], update={"a": {"age": 9}}, delete=["b"])
    write(graph, {PERSON: delta})
    assert graph.snapshot().pin(PERSON).version == version + 1
    found = rows(graph, PERSON)
    assert {key: row["age"] for key, row in found.items()} == {"a": 9, "c": 1, "d": None}
    audit(graph)


def test_two_writes_from_one_base_conflict_and_name_the_table(graph: Repository) -> None:
    base = graph.snapshot()
    first = prepare(graph, {PERSON: people("a")}, base=base)
    second = prepare(graph, {PERSON: people("b"), COMPANY: companies("x")}, base=base)
    graph.commit(first)
    with pytest.raises(Conflict) as caught:
        graph.commit(second)
    assert caught.value.code is Code.EXPECTED_VERSION_MISMATCH
    assert caught.value.conflicts == [{"table_key": PERSON, "expected": 1, "actual": 2}]
    assert ids(graph, PERSON) == {"a"}
    assert ids(graph, COMPANY) == set()
    audit(graph)


def test_writes_of_different_tables_from_one_base_both_land(graph: Repository) -> None:
    base = graph.snapshot()
    first = prepare(graph, {PERSON: people("a")}, base=base)
    second = prepare(graph, {COMPANY: companies("x")}, base=base)
    graph.commit(first)
    graph.commit(second)
    assert len(chain(graph)) == 3
    audit(graph)


def test_a_table_that_a_write_was_judged_against_may_not_move(graph: Repository) -> None:
    base = graph.snapshot()
    judged = {PERSON: base.pin(PERSON).version}
    late = prepare(graph, {KNOWS: acquaintances(("a", "b"))}, base=base, judged=judged)
    write(graph, {PERSON: people("a")})
    with pytest.raises(Conflict) as caught:
        graph.commit(late)
    assert caught.value.conflicts == [{"table_key": PERSON, "expected": 1, "actual": 2}]
    assert ids(graph, KNOWS) == set()
    audit(graph)


def test_the_callers_condition_on_the_head(graph: Repository) -> None:
    base = graph.snapshot()
    write(graph, {COMPANY: companies("x")})
    with pytest.raises(PreconditionFailed) as caught:
        write(graph, {PERSON: people("a")}, base=base, head=base.head)
    assert caught.value.details["expected"] == base.head
    assert caught.value.details["actual"] == graph.snapshot().head
    assert ids(graph, PERSON) == set()
    done = write(graph, {PERSON: people("a")}, head=graph.snapshot().head)
    assert graph.snapshot().head == done.commit.id
    audit(graph)


def test_a_key_is_used_once(graph: Repository, root: Root) -> None:
    first = write(graph, {PERSON: people("a")}, idempotency_key="k")
    write(graph, {PERSON: people("b")})
    for repo in (graph, reopen(root)):
        again = write(repo, {PERSON: people("c")}, idempotency_key="k")
        assert again.replayed
        assert again.commit == first.commit
    assert not first.replayed
    assert ids(graph, PERSON) == {"a", "b"}
    other = write(graph, {PERSON: people("c")}, idempotency_key='k"')
    assert not other.replayed
    assert write(reopen(root), {PERSON: people("d")}, idempotency_key='k"').replayed


def test_a_commit_without_tables_is_a_commit(graph: Repository) -> None:
    done = write(graph, {}, actor="ada", details={"note": "nothing"})
    assert graph.snapshot().head == done.commit.id
    assert graph.commit_info(done.commit.id).details == {"note": "nothing"}
    audit(graph)


def test_history_is_newest_first_and_can_be_narrowed_to_an_actor(graph: Repository) -> None:
    done = [write(graph, {PERSON: people(f"p{n}")}, actor=f"a{n % 2}").commit for n in range(4)]
    history = list(graph.commits())
    assert [commit.id for commit in history[:4]] == [commit.id for commit in done[::-1]]
    assert history[-1].kind == "init"
    assert [commit.id for commit in graph.commits(actor="a1")] == [done[3].id, done[1].id]
    assert graph.commit_info(done[2].id) == done[2]
    with pytest.raises(NotFound):
        graph.commit_info(CommitId("0" * 26))


def test_reading_only_never_writes(graph: Repository, root: Root, tmp_path: Path) -> None:
    write(graph, {PERSON: people("a")})
    files = sorted(str(path) for path in tmp_path.rglob("*"))
    reader = reopen(root, OpenMode.READ_ONLY)
    assert ids(reader, PERSON) == {"a"}
    assert reader.refresh() == ()
    for action in (
        lambda: write(reader, {PERSON: people("b")}),
        lambda: reader.create_branch(DEV),
        lambda: reader.delete_branch(DEV),
        lambda: write(reader, {}, base=reader.snapshot()),
    ):
        with pytest.raises(Forbidden) as caught:
            action()
        assert caught.value.code is Code.READ_ONLY
    assert sorted(str(path) for path in tmp_path.rglob("*")) == files


def test_there_is_no_graph_where_there_is_none(root: Root, tmp_path: Path) -> None:
    for mode in OpenMode:
        with pytest.raises(NotFound):
            reopen(root, mode)
    assert list(tmp_path.iterdir()) == []


def test_another_handle_sees_what_was_written(graph: Repository, root: Root) -> None:
    other = reopen(root)
    for number in range(3):
        write(graph, {PERSON: people(f"a{number}")})
        write(other, {PERSON: people(f"b{number}")})
        assert ids(graph, PERSON) == ids(other, PERSON)
    assert len(ids(graph, PERSON)) == 6
    assert chain(graph) == chain(other)
    assert graph.snapshot(MAIN) == other.snapshot(MAIN)
