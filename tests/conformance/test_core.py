"""The commit core on every kind of storage: one suite, the same answers."""

import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.core.repository import OpenMode, Repository
from omnigraph.errors import Code, Conflict, NotFound, RecoveryRequired, Unavailable
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import LostReply, Refuse
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
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
    make,
    people,
    prepare,
    reopen,
    rows,
    write,
)

DEV, CHILD = BranchName("agent/dev"), BranchName("child")


@pytest.fixture
def graph(root: Root) -> Repository:
    return make(root, durable=True)


def test_making_a_graph_once(root: Root) -> None:
    with pytest.raises(NotFound):
        reopen(root)
    repo = make(root)
    with pytest.raises(Conflict) as caught:
        make(root, "node Other { name: String @key }")
    assert caught.value.code is Code.GRAPH_EXISTS
    assert reopen(root, OpenMode.READ_ONLY).snapshot() == repo.snapshot()
    audit(repo)


def test_commits_of_one_and_of_three_tables(graph: Repository, root: Root) -> None:
    first = write(graph, {PERSON: people("a", "b", age=1)}, actor="ada")
    delta = Delta(update={"a": {"age": 2}}, delete=["b"], insert=[{"id": "c", "name": "c"}])
    deltas = {PERSON: delta, COMPANY: companies("x"), KNOWS: acquaintances(("a", "c"))}
    second = write(graph, deltas)
    assert second.commit.parent_id == first.commit.id
    for repo in (graph, reopen(root)):
        found = rows(repo, PERSON)
        assert {key: row["age"] for key, row in found.items()} == {"a": 2, "c": None}
        assert ids(repo, COMPANY) == {"x"}
        assert ids(repo, KNOWS) == {"a-c"}
        assert [each.actor for each in repo.commits()] == [None, "ada", None]
        audit(repo)


def test_branches_come_and_go(graph: Repository, root: Root) -> None:
    write(graph, {PERSON: people("a")})
    graph.create_branch(DEV)
    write(graph, {PERSON: people("dev")}, branch=DEV)
    graph.create_branch(CHILD, source=DEV)
    write(graph, {PERSON: people("child"), COMPANY: companies("x")}, branch=CHILD)
    write(graph, {PERSON: people("main")})
    for repo in (graph, reopen(root)):
        assert repo.branches.list() == (DEV, CHILD, MAIN)
        assert ids(repo, PERSON, CHILD) == {"a", "dev", "child"}
        assert ids(repo, PERSON, DEV) == {"a", "dev"}
        assert ids(repo, PERSON) == {"a", "main"}
        assert repo.merge_base(CHILD, MAIN) == chain(repo)[1]
        audit(repo)
    with pytest.raises(Conflict) as caught:
        graph.delete_branch(DEV)
    assert caught.value.code is Code.BRANCH_IN_USE
    with pytest.raises(Conflict):
        graph.create_branch(BranchName("agent"))
    old = graph.snapshot(CHILD)
    graph.delete_branch(CHILD)
    other = reopen(root)
    other.create_branch(CHILD)
    assert graph.snapshot(CHILD).incarnation != old.incarnation
    assert ids(graph, PERSON, CHILD) == {"a", "main"}
    with pytest.raises(Conflict) as caught:
        write(graph, {COMPANY: companies("late")}, base=old)
    assert caught.value.code in (Code.BRANCH_REPLACED, Code.EXPECTED_VERSION_MISMATCH)
    audit(graph)


def test_the_past_can_be_read(graph: Repository, root: Root) -> None:
    done = [write(graph, {PERSON: people(f"p{n}")}) for n in range(3)]
    graph.create_branch(DEV, commit=done[1].commit.id)
    write(graph, {PERSON: people("dev")}, branch=DEV)
    for repo in (graph, reopen(root, OpenMode.READ_ONLY)):
        for count, each in enumerate(done, start=1):
            snapshot = repo.snapshot_at(each.commit.id)
            assert repo.read(snapshot, PERSON).num_rows == count
            assert repo.snapshot_at_version(MAIN, each.manifest_version) == snapshot
        assert ids(repo, PERSON, DEV) == {"p0", "p1", "dev"}


def test_a_key_is_used_once(graph: Repository, root: Root) -> None:
    first = write(graph, {PERSON: people("a")}, idempotency_key="k")
    again = write(reopen(root), {PERSON: people("b")}, idempotency_key="k")
    assert again.replayed
    assert again.commit == first.commit
    assert ids(graph, PERSON) == {"a"}


def test_of_two_writes_one_wins(graph: Repository, root: Root) -> None:
    base = graph.snapshot()
    other = reopen(root)
    winner = prepare(graph, {PERSON: people("a")}, base=base)
    loser = prepare(other, {PERSON: people("b"), COMPANY: companies("b")}, base=base)
    graph.commit(winner)
    with pytest.raises(Conflict) as caught:
        other.commit(loser)
    assert caught.value.conflicts == [{"table_key": PERSON, "expected": 1, "actual": 2}]
    assert ids(other, PERSON) == {"a"}
    assert ids(other, COMPANY) == set()
    audit(other)


@pytest.mark.parametrize("branch", [MAIN, DEV])
def test_what_landed_and_was_not_published_goes_forward(
    graph: Repository, root: Root, branch: BranchName
) -> None:
    if branch != MAIN:
        graph.create_branch(branch)
    deltas = {PERSON: people("a"), COMPANY: companies("x")}
    prepared = prepare(graph, deltas, base=graph.snapshot(branch), actor="ada", idempotency_key="k")
    with failpoints.armed({Fp.PUBLISH: Refuse()}), pytest.raises(RecoveryRequired) as caught:
        graph.commit(prepared)
    assert caught.value.code is Code.OUTCOME_UNKNOWN
    healed = reopen(root)
    commit = healed.commit_info(healed.snapshot(branch).head)
    assert commit.id == caught.value.details["commit_id"]
    assert (commit.actor, commit.idempotency_key) == ("ada", "k")
    assert ids(healed, PERSON, branch) == {"a"}
    assert ids(healed, COMPANY, branch) == {"x"}
    assert write(healed, deltas, branch=branch, idempotency_key="k").replayed
    audit(healed)


def test_what_landed_in_part_goes_back(graph: Repository, root: Root) -> None:
    deltas = {PERSON: people("a"), COMPANY: companies("x")}
    prepared = prepare(graph, deltas, base=graph.snapshot())
    with failpoints.armed({Fp.LAND: Refuse()}, nth=2), pytest.raises(RecoveryRequired):
        graph.commit(prepared)
    healed = reopen(root)
    assert ids(healed, PERSON) == ids(healed, COMPANY) == set()
    audit(healed)
    write(healed, deltas)
    assert ids(graph, PERSON) == {"a"}


def test_a_lost_reply_is_found_out(graph: Repository) -> None:
    with failpoints.armed({Fp.PUBLISH: LostReply()}):
        done = write(graph, {PERSON: people("a")})
    assert graph.snapshot().head == done.commit.id
    audit(graph)


# -- branches that are made with a commit ----------------------------------------------------------


def commit_new_branch(graph: Repository, *, source: BranchName = MAIN) -> None:
    with graph.creating_branch(DEV, source=source) as base:
        deltas = {PERSON: people("born"), KNOWS: acquaintances(("born", "born"))}
        prepared = prepare(graph, deltas, base=base, idempotency_key="k")
        assert not graph.has_branch(DEV)
        graph.commit(prepared)


def test_a_branch_is_born_with_its_commit(graph: Repository, root: Root) -> None:
    write(graph, {PERSON: people("a")})
    commit_new_branch(graph)
    write(graph, {PERSON: people("later")}, branch=DEV)
    graph.create_branch(CHILD, source=DEV)
    for repo in (graph, reopen(root), reopen(root, OpenMode.READ_ONLY)):
        assert repo.branches.list() == (DEV, CHILD, MAIN)
        assert ids(repo, PERSON, DEV) == ids(repo, PERSON, CHILD) == {"a", "born", "later"}
        assert ids(repo, PERSON) == {"a"}
        assert repo.merge_base(DEV, MAIN) == chain(repo)[-1]
        audit(repo)
    graph.delete_branch(CHILD)
    graph.delete_branch(DEV)
    commit_new_branch(graph)
    assert ids(reopen(root), PERSON, DEV) == {"a", "born"}
    assert graph.branches.reclaim() == 0


def test_of_two_who_make_one_branch_one_wins(graph: Repository, root: Root) -> None:
    other = reopen(root)
    with other.creating_branch(DEV) as base:
        late = prepare(other, {PERSON: people("late")}, base=base)
        commit_new_branch(graph)
        with pytest.raises(Conflict) as caught:
            other.commit(late)
    assert caught.value.code is Code.BRANCH_EXISTS
    assert ids(other, PERSON, DEV) == {"born"}
    assert other.branches.reclaim() == 0
    audit(other)


@pytest.mark.parametrize(
    ("point", "lands"),
    [(Fp.ARM, False), (Fp.LAND, False), (Fp.FIRST_COMMIT, True), (Fp.PUBLISH, True)],
)
def test_a_branch_whose_creation_broke_off_is_there_or_not(
    graph: Repository, root: Root, point: Fp, lands: bool
) -> None:
    nth = 2 if point is Fp.LAND else 1
    refusal = Unavailable if point is Fp.ARM else RecoveryRequired
    with failpoints.armed({point: Refuse()}, nth=nth), pytest.raises(refusal):
        commit_new_branch(graph)
    assert reopen(root, OpenMode.READ_ONLY).branches.list() == (MAIN,)
    healed = reopen(root)
    assert healed.has_branch(DEV) == lands
    if not lands:
        commit_new_branch(healed)
    assert ids(healed, PERSON, DEV) == {"born"}
    assert healed.branches.reclaim() == 0
    audit(healed)


@pytest.mark.parametrize("point", [Fp.BEGIN, Fp.ARM, Fp.FIRST_COMMIT, Fp.PUBLISH])
def test_a_lost_reply_at_a_creation_is_found_out(graph: Repository, point: Fp) -> None:
    with failpoints.armed({point: LostReply()}):
        commit_new_branch(graph)
    assert ids(graph, PERSON, DEV) == {"born"}
    audit(graph)


def test_a_landing_that_is_applied_after_its_client_gave_up_is_refused(
    graph: Repository, root: Root
) -> None:
    """A slow put that a timeout or Ctrl-C left under way: recovery closes the door first."""
    deltas = {PERSON: people("late"), COMPANY: companies("late")}
    prepared = prepare(graph, deltas, base=graph.snapshot())
    with failpoints.armed({Fp.LAND: Refuse()}), pytest.raises(RecoveryRequired):
        graph.commit(prepared)
    other = reopen(root)  # settles it
    assert not other.intents.pending()
    for item in prepared.tables:
        with pytest.raises(StorageFailure) as caught:
            graph.tables.land(item.staged[0])
        assert caught.value.kind is FailureKind.CONFLICT
    write(graph, {PERSON: people("next"), COMPANY: companies("next")})
    assert ids(reopen(root), PERSON) >= {"next"}
    assert "late" not in ids(reopen(root), PERSON)
    audit(graph)
