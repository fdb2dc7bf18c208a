"""Branches: isolation, forks, names, refusals, and names that are used again."""

import os
from pathlib import Path

import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.core.layout import fork_mark, fork_name
from omnigraph.core.locks.liveness import LIVE_OPERATIONS
from omnigraph.core.repository import Repository
from omnigraph.errors import (
    Code,
    Conflict,
    Gone,
    GraphError,
    InvalidInput,
    NotFound,
    RecoveryRequired,
    Unavailable,
)
from omnigraph.runtime import failpoints, telemetry
from omnigraph.runtime.failpoints import LostReply, Refuse
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin
from omnigraph.types import MAIN, BranchName
from tests.graphs import (
    COMPANY,
    PERSON,
    Delta,
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

DEV, CHILD, OTHER = BranchName("dev"), BranchName("child"), BranchName("agent/42")


@pytest.fixture
def graph(graph: Repository) -> Repository:
    write(graph, {PERSON: people("a", "b", age=1), COMPANY: companies("x")})
    return graph


def forks(repo: Repository, key: str) -> set[str]:
    return set(repo.tables.forks(repo.snapshot().pin(key).path))


# -- what a branch is ------------------------------------------------------------------------------


def test_a_branch_is_apart_from_where_it_came_from(graph: Repository) -> None:
    info = graph.create_branch(DEV)
    assert (info.name, info.parent) == (DEV, MAIN)
    assert graph.branches.list() == (DEV, MAIN)
    assert graph.snapshot(DEV).head == graph.snapshot(MAIN).head
    write(graph, {PERSON: Delta(update={"a": {"age": 2}}, delete=["b"])}, branch=DEV)
    write(graph, {PERSON: people("m")}, branch=MAIN)
    assert {key: row["age"] for key, row in rows(graph, PERSON, graph.snapshot(DEV)).items()} == {
        "a": 2
    }
    assert ids(graph, PERSON) == {"a", "b", "m"}
    assert ids(graph, COMPANY, DEV) == {"x"}
    assert chain(graph, DEV)[:-1] == chain(graph, MAIN)[:-1]
    assert graph.merge_base(DEV, MAIN) == chain(graph, MAIN)[-2]
    audit(graph)


def test_tables_fork_when_they_are_first_written(graph: Repository) -> None:
    graph.create_branch(DEV)
    assert forks(graph, PERSON) == forks(graph, COMPANY) == set()
    write(graph, {PERSON: people("c")}, branch=DEV)
    write(graph, {PERSON: people("d")}, branch=DEV)
    assert forks(graph, PERSON) == {fork_name(graph.manifest.branch(DEV).incarnation)}
    assert forks(graph, COMPANY) == set()
    assert graph.snapshot(DEV).pin(COMPANY) == graph.snapshot(MAIN).pin(COMPANY)


def test_a_child_of_a_child_keeps_what_each_of_them_saw(graph: Repository) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("dev")}, branch=DEV)
    graph.create_branch(CHILD, source=DEV)
    write(graph, {PERSON: people("dev2")}, branch=DEV)
    write(graph, {COMPANY: companies("child")}, branch=CHILD)
    graph.create_branch(OTHER, source=CHILD)
    write(graph, {PERSON: people("other")}, branch=OTHER)
    assert ids(graph, PERSON, DEV) == {"a", "b", "dev", "dev2"}
    assert ids(graph, PERSON, CHILD) == {"a", "b", "dev"}
    assert ids(graph, PERSON, OTHER) == {"a", "b", "dev", "other"}
    assert ids(graph, COMPANY, OTHER) == {"x", "child"}
    assert ids(graph, COMPANY, DEV) == {"x"}
    assert len(chain(graph, OTHER)) == 5
    audit(graph)


def test_a_branch_from_a_commit(graph: Repository) -> None:
    then = graph.snapshot().head
    write(graph, {PERSON: people("c")})
    graph.create_branch(DEV, commit=then)
    assert ids(graph, PERSON, DEV) == {"a", "b"}
    assert graph.snapshot(DEV).head == then
    write(graph, {PERSON: people("d")}, branch=DEV)
    graph.create_branch(CHILD, source=DEV, commit=then)
    assert ids(graph, PERSON, CHILD) == {"a", "b"}
    assert ids(graph, PERSON, DEV) == {"a", "b", "d"}
    assert ids(graph, PERSON) == {"a", "b", "c"}
    audit(graph)


# -- refusals --------------------------------------------------------------------------------------


def refused(action: object, kind: type[GraphError], code: Code) -> GraphError:
    with pytest.raises(kind) as caught:
        action()  # type: ignore[operator]
    assert caught.value.code is code
    return caught.value


def test_names_that_are_taken(graph: Repository) -> None:
    graph.create_branch(OTHER)
    refused(lambda: graph.create_branch(MAIN), InvalidInput, Code.NAME_INVALID)
    refused(lambda: graph.create_branch(OTHER), Conflict, Code.BRANCH_EXISTS)
    for text in ("agent", "agent/42/x"):
        error = refused(
            lambda text=text: graph.create_branch(BranchName(text)), Conflict, Code.BRANCH_EXISTS
        )
        assert error.details["other"] == OTHER
    graph.create_branch(BranchName("agent/43"))
    graph.create_branch(BranchName("agents"))
    assert len(graph.branches.list()) == 4


def test_what_cannot_be_deleted(graph: Repository) -> None:
    refused(lambda: graph.delete_branch(MAIN), InvalidInput, Code.NAME_INVALID)
    refused(lambda: graph.delete_branch(DEV), NotFound, Code.NOT_FOUND)
    graph.create_branch(DEV)
    graph.create_branch(CHILD, source=DEV)
    error = refused(lambda: graph.delete_branch(DEV), Conflict, Code.BRANCH_IN_USE)
    assert error.details["children"] == [CHILD]
    graph.delete_branch(CHILD)
    graph.delete_branch(DEV)
    assert graph.branches.list() == (MAIN,)


def test_nothing_comes_from_what_does_not_exist(graph: Repository) -> None:
    refused(lambda: graph.create_branch(CHILD, source=DEV), NotFound, Code.NOT_FOUND)
    refused(lambda: graph.snapshot(DEV), NotFound, Code.NOT_FOUND)
    refused(lambda: write(graph, {PERSON: people("c")}, branch=DEV), NotFound, Code.NOT_FOUND)
    assert graph.branches.list() == (MAIN,)


def test_a_branch_with_a_long_name_takes_writes(graph: Repository) -> None:
    name = BranchName("abcd/" * 20 + "x" * 20)
    assert len(name) == 120
    graph.create_branch(name)
    write(graph, {PERSON: people("c")}, branch=name)
    assert ids(graph, PERSON, name) == {"a", "b", "c"}
    graph.delete_branch(name)
    assert forks(graph, PERSON) == set()


# -- deleting --------------------------------------------------------------------------------------


def test_a_deleted_branch_takes_its_forks_along(graph: Repository, tmp_path: Path) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("c"), COMPANY: companies("y")}, branch=DEV)
    old = graph.snapshot(DEV)
    graph.delete_branch(DEV)
    assert forks(graph, PERSON) == forks(graph, COMPANY) == set()
    assert not [path for path in tmp_path.rglob("tree/*") if any(path.rglob("*.manifest"))]
    for repo in (graph, reopen(graph.root)):
        with pytest.raises(Gone):
            repo.read(old, PERSON)
    assert ids(graph, PERSON) == {"a", "b"}
    audit(graph)


def test_forks_that_nobody_owns_are_reclaimed(graph: Repository) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("c")}, branch=DEV)
    path = graph.snapshot().pin(PERSON).path
    dead = fork_name("an incarnation that is gone")
    graph.tables.fork(path, dead, Pin(path, 2))
    assert graph.branches.reclaim() == 1
    assert forks(graph, PERSON) == {fork_name(graph.manifest.branch(DEV).incarnation)}
    assert graph.branches.reclaim() == 0
    assert ids(graph, PERSON, DEV) == {"a", "b", "c"}


def test_a_branch_that_is_being_written_to_is_not_deleted(graph: Repository) -> None:
    graph.create_branch(DEV)
    prepared = prepare(graph, {PERSON: people("c")}, base=graph.snapshot(DEV))
    operation = graph.ids.new()
    with LIVE_OPERATIONS.working(operation):
        graph._writes.arm(prepared, operation)
        error = refused(lambda: graph.delete_branch(DEV), Conflict, Code.BRANCH_IN_USE)
        assert error.details["operations"] == [operation]
    # Its writer is gone, and so is what it meant to do.
    graph.delete_branch(DEV)
    graph.recovery.sweep()
    assert graph.branches.list() == (MAIN,)
    audit(graph)


# -- forks that are in the way ---------------------------------------------------------------------


def test_a_fork_that_a_dead_writer_left_untouched_is_used(graph: Repository) -> None:
    graph.create_branch(DEV)
    graph.writable_table(graph.snapshot(DEV), PERSON)
    write(graph, {PERSON: people("c")}, branch=DEV)
    assert len(forks(graph, PERSON)) == 1
    audit(graph)


def test_a_fork_with_foreign_content_is_left_alone(graph: Repository) -> None:
    """It may belong to a write that is going on, or hold what was just published."""
    graph.create_branch(DEV)
    base = graph.snapshot(DEV)
    table = graph.writable_table(base, PERSON)
    staged = graph.tables.stage(table, inserts=table.read(), uuid="foreign")
    assert staged is not None
    graph.tables.land(staged)
    write(graph, {PERSON: people("c")}, branch=DEV)
    assert ids(graph, PERSON, DEV) == {"a", "b", "c"}
    incarnation = base.incarnation
    assert forks(graph, PERSON) == {fork_name(incarnation, 0), fork_name(incarnation, 1)}
    audit(graph)


def test_a_stale_base_cannot_harm_what_was_published_meanwhile(graph: Repository) -> None:
    graph.create_branch(DEV)
    stale = graph.snapshot(DEV)
    write(graph, {PERSON: people("c")}, branch=DEV)
    with pytest.raises(Conflict) as caught:
        write(graph, {PERSON: people("d")}, base=stale)
    assert caught.value.code is Code.EXPECTED_VERSION_MISMATCH
    assert ids(graph, PERSON, DEV) == {"a", "b", "c"}
    audit(graph)


def test_a_fork_of_another_parent_is_not_taken_for_ours(graph: Repository) -> None:
    """Same name, same version, other content."""
    graph.create_branch(DEV)
    write(graph, {PERSON: people("dev")}, branch=DEV)
    graph.create_branch(CHILD, source=DEV)
    base = graph.snapshot(CHILD)
    pin = base.pin(PERSON)
    write(graph, {PERSON: people("main")}, branch=MAIN)
    assert graph.snapshot().pin(PERSON).version == pin.version
    graph.tables.fork(pin.path, fork_name(base.incarnation), Pin(pin.path, pin.version))
    write(graph, {PERSON: people("child")}, branch=CHILD)
    assert ids(graph, PERSON, CHILD) == {"a", "b", "dev", "child"}
    audit(graph)


def remove_record(root: Root, path: str, name: str) -> None:
    """What a process leaves that dies between the two steps of making or deleting a fork."""
    os.unlink(root.local_path / path / "_refs" / "branches" / f"{name}.json")


def test_a_branch_whose_deletion_stopped_half_way_can_be_made_again(
    graph: Repository, root: Root
) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("c")}, branch=DEV)
    with failpoints.armed({StorageCall.TABLE_DROP_FORK: Refuse()}):
        graph.delete_branch(DEV)
    for repo in (graph, reopen(root)):
        with pytest.raises(NotFound):
            repo.snapshot(DEV)
        assert repo.branches.list() == (MAIN,)
    graph.create_branch(DEV)
    assert ids(graph, PERSON, DEV) == {"a", "b"}
    write(graph, {PERSON: people("d")}, branch=DEV)
    assert ids(graph, PERSON, DEV) == {"a", "b", "d"}
    audit(graph)


def test_the_files_of_a_half_made_fork_are_not_in_the_way(graph: Repository, root: Root) -> None:
    graph.create_branch(DEV)
    base = graph.snapshot(DEV)
    graph.writable_table(base, PERSON)
    remove_record(root, base.pin(PERSON).path, fork_name(base.incarnation))
    for repo in (graph, reopen(root)):
        write(repo, {PERSON: people(f"c{id(repo)}")}, branch=DEV)
    assert len(ids(graph, PERSON, DEV)) == 4
    audit(graph)


# -- the same name again ---------------------------------------------------------------------------


@pytest.mark.parametrize("again", [True, False], ids=["made again", "gone"])
def test_a_writer_of_an_earlier_branch_is_refused(
    graph: Repository, root: Root, again: bool
) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("old")}, branch=DEV)
    base = graph.snapshot(DEV)
    fresh = reopen(root)
    forked = prepare(graph, {PERSON: people("late")}, base=base)
    unforked = prepare(graph, {COMPANY: companies("late")}, base=base)
    other = reopen(root)
    other.delete_branch(DEV)
    if again:
        other.create_branch(DEV)
    expected: type[GraphError] = Conflict if again else NotFound
    for late in (forked, unforked, prepare(graph, {}, base=base)):
        with pytest.raises(expected) as caught:
            graph.commit(late)
        assert caught.value.code is (Code.BRANCH_REPLACED if again else Code.NOT_FOUND)
    with pytest.raises(expected):
        prepare(fresh, {PERSON: people("late")}, base=base)
    if again:
        assert ids(graph, PERSON, DEV) == {"a", "b"}
        assert ids(graph, COMPANY, DEV) == {"x"}
    assert graph.branches.reclaim() <= 2
    audit(graph)


# -- faults ----------------------------------------------------------------------------------------


def test_a_branch_that_was_refused_is_not_there(graph: Repository) -> None:
    with failpoints.armed({Fp.FORK: Refuse()}), pytest.raises(Unavailable):
        graph.create_branch(DEV)
    assert graph.branches.list() == (MAIN,)
    graph.create_branch(DEV)


def test_a_lost_reply_is_no_failure(graph: Repository) -> None:
    with failpoints.armed({Fp.FORK: LostReply()}):
        graph.create_branch(DEV)
    with failpoints.armed({Fp.FORK: LostReply()}):
        write(graph, {PERSON: people("c")}, branch=DEV)
    assert ids(graph, PERSON, DEV) == {"a", "b", "c"}
    with failpoints.armed({Fp.DROP: LostReply()}):
        graph.delete_branch(DEV)
    assert graph.branches.list() == (MAIN,)
    assert forks(graph, PERSON) == set()


def test_a_deletion_that_was_refused_twice_is_unclear_and_can_be_repeated(
    graph: Repository,
) -> None:
    graph.create_branch(DEV)
    write(graph, {PERSON: people("c")}, branch=DEV)
    refused = {Fp.DROP: Refuse()}
    with (
        failpoints.armed(refused),
        failpoints.armed(refused),
        pytest.raises(RecoveryRequired) as caught,
    ):
        graph.delete_branch(DEV)
    assert caught.value.code is Code.OUTCOME_UNKNOWN
    assert ids(graph, PERSON, DEV) == {"a", "b", "c"}
    graph.delete_branch(DEV)


# -- cost ------------------------------------------------------------------------------------------


def test_looking_at_a_branch_costs_two_probes(graph: Repository) -> None:
    for number in range(5):
        graph.create_branch(BranchName(f"b{number}"))
    name = BranchName("b3")
    graph.snapshot(name)
    with telemetry.counting() as counts:
        graph.snapshot(name)
    assert counts.snapshot() == {"object.exists": 1, "table.head": 1}


def test_marks_of_forks_are_short_plain_words() -> None:
    mark = fork_mark("1:abc/2:def")
    assert mark.isalnum()
    assert len(mark) == 21
    assert fork_name("1:abc/2:def", 3) == f"{mark}.3"
