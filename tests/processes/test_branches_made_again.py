"""A branch that another process deletes and makes again is another one."""

import multiprocessing
from pathlib import Path

import pytest

from omnigraph.core.repository import Repository
from omnigraph.errors import (
    NotFound,
)
from omnigraph.store.root import Root
from omnigraph.types import BranchName
from tests.graphs import (
    COMPANY,
    PERSON,
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
