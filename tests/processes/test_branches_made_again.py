"""A branch that another process deletes and makes again is another one."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from omnigraph.core.repository import Repository
from omnigraph.errors import Busy, Code, Conflict, NotFound
from omnigraph.store.root import Root
from omnigraph.types import BranchName
from tests.graphs import (
    COMPANY,
    PERSON,
    audit,
    chain,
    companies,
    ids,
    make,
    people,
    reopen,
    rows,
    write,
)

DEV = BranchName("dev")
ROUNDS = 4
TRIES_MAX = 1_000


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.parse(str(tmp_path / "graph"))


@pytest.fixture
def graph(root: Root) -> Repository:
    repo = make(root)
    write(repo, {PERSON: people("a", "b", age=1), COMPANY: companies("x")})
    return repo


def replace(root: Root, *added: str) -> None:
    """Delete the branch and make it again, as another process would."""
    repo = reopen(root)
    repo.delete_branch(DEV)
    repo.create_branch(DEV)
    for name in added:
        write(repo, {PERSON: people(name)}, branch=DEV)


def replaced_elsewhere(root: Root, *added: str) -> None:
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=replace, args=(root, *added))
    child.start()
    child.join()
    assert child.exitcode == 0
    child.close()


def test_a_reader_never_sees_rows_of_an_earlier_branch(graph: Repository, root: Root) -> None:
    """The new branch has the same versions; only the record of the branch tells them apart."""
    graph.create_branch(DEV)
    old = [write(graph, {PERSON: people(f"old{n}")}, branch=DEV) for n in range(2)]
    before = graph.snapshot(DEV)
    replaced_elsewhere(root, "new0", "new1")
    after = graph.snapshot(DEV)
    assert after.manifest_version == before.manifest_version
    assert after.incarnation != before.incarnation
    assert ids(graph, PERSON, DEV) == {"a", "b", "new0", "new1"}
    assert not {each.commit.id for each in old} & set(chain(graph, DEV))
    with pytest.raises(NotFound):
        graph.snapshot_at(old[0].commit.id, DEV)
    then = graph.snapshot_at_version(DEV, old[0].manifest_version)
    assert set(rows(graph, PERSON, then)) == {"a", "b", "new0"}


def test_the_past_of_an_earlier_branch_is_not_shown(graph: Repository, root: Root) -> None:
    graph.create_branch(DEV)
    version = write(graph, {PERSON: people("old")}, branch=DEV).manifest_version
    assert "old" in rows(graph, PERSON, graph.snapshot_at_version(DEV, version))
    replaced_elsewhere(root, "new")
    assert set(rows(graph, PERSON, graph.snapshot_at_version(DEV, version))) == {"a", "b", "new"}


def delete_and_make_again(root: Root, starter: Any, rounds: int) -> None:
    """Delete the branch as often as nobody stands in the way, and make it again each time."""
    repo = reopen(root)
    starter.wait()
    done = 0
    for _ in range(TRIES_MAX):
        try:
            repo.delete_branch(DEV)
        except Conflict as error:
            assert error.code is Code.BRANCH_IN_USE  # noqa: PT017 - the loop goes on
            continue
        repo.create_branch(DEV)
        done += 1
        if done == rounds:
            return
    raise AssertionError("no progress")


def test_a_writer_and_a_deletion_in_another_process_never_miss_each_other(
    graph: Repository, root: Root
) -> None:
    """Each commit says which branch it was made for, and is found there or on none."""
    graph.create_branch(DEV)
    context = multiprocessing.get_context("spawn")
    starter = context.Event()
    child = context.Process(target=delete_and_make_again, args=(root, starter, ROUNDS))
    child.start()
    starter.set()
    made: list[tuple[str, str]] = []
    number = 0
    while child.is_alive() or number < ROUNDS:
        name, number = f"w{number}", number + 1
        try:
            base = graph.snapshot(DEV)
            write(graph, {PERSON: people(name)}, branch=DEV, base=base)
        except (Conflict, NotFound, Busy):
            continue
        made.append((base.incarnation, name))
    child.join()
    assert child.exitcode == 0
    child.close()
    now = reopen(root)
    incarnation = now.snapshot(DEV).incarnation
    mine = {name for branch, name in made if branch == incarnation}
    assert ids(now, PERSON, DEV) == {"a", "b"} | mine
    audit(now)
