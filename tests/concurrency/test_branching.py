"""Branches made and deleted by many at once."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from omnigraph.core.repository import Repository
from omnigraph.errors import Busy, Code, GraphError
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.conformance.conftest import fresh_root, s3_options
from tests.conformance.racing import in_processes, in_threads
from tests.graphs import PERSON, audit, ids, make, people, reopen, write

__all__ = ["s3_options"]

ROUNDS = 3


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.deep)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Root:
    return fresh_root(request.param, request, tmp_path)


def patiently(action: Any) -> str:
    """How an attempt ended; being told to wait is no end."""
    while True:
        try:
            action()
        except Busy:
            continue
        except GraphError as error:
            return error.code.value
        return "done"


def contend(repo: Repository, racer: int) -> list[str]:
    """Make a branch that all want, one that only we want, and one that lies in the way."""
    outcomes: list[str] = []
    for number in range(ROUNDS):
        own = BranchName(f"own{racer}-{number}")
        paths = ["path", "path/to", "path/too", "path/to/it"]
        names = (BranchName(f"same{number}"), own, BranchName(paths[racer % 4]))
        outcomes += [patiently(partial(repo.create_branch, name)) for name in names]
        write(repo, {PERSON: people(f"p{racer}-{number}")}, branch=own)
    return outcomes


def contend_in_process(starter: Any, racer: int, root: Root) -> list[str]:
    repo = reopen(root)
    starter.wait()
    return contend(repo, racer)


def judge(root: Root, outcomes: list[list[str]]) -> None:
    repo = reopen(root)
    names = set(repo.branches.list())
    for number in range(ROUNDS):
        contested = [mine[3 * number] for mine in outcomes]
        assert contested.count("done") == 1
        assert set(contested) <= {"done", Code.BRANCH_EXISTS}
        for racer, mine in enumerate(outcomes):
            assert mine[3 * number + 1] == "done"
            assert ids(repo, PERSON, BranchName(f"own{racer}-{number}")) == {f"p{racer}-{number}"}
    paths = sorted(name for name in names if name.startswith("path"))
    assert paths
    for name in paths:
        assert not any(other.startswith(f"{name}/") for other in paths)
    assert ids(repo, PERSON, MAIN) == set()
    audit(repo)


def test_threads_make_branches(tmp_path: Path) -> None:
    root = Root.parse(str(tmp_path / "graph"))
    repo = make(root)
    judge(root, in_threads(lambda racer: contend(repo, racer), 6))


def test_processes_make_branches(root: Root) -> None:
    make(root)
    judge(root, in_processes(contend_in_process, 4, root))


def churn(starter: Any, racer: int, root: Root) -> list[str]:
    """Make and delete one name over and over, writing in between."""
    repo = reopen(root)
    starter.wait()
    name = BranchName("churn")
    seen = []
    for number in range(ROUNDS * 2):
        mine = f"{racer}-{number}"
        seen.append(patiently(lambda: repo.create_branch(name)))
        seen.append(patiently(lambda mine=mine: write(repo, {PERSON: people(mine)}, branch=name)))
        seen.append(patiently(lambda: repo.delete_branch(name)))
    return seen


def test_one_name_is_made_and_deleted_by_many(root: Root) -> None:
    """Whatever the order, every failure is a clean one and the graph stays whole."""
    make(root)
    outcomes = {each for mine in in_processes(churn, 3, root) for each in mine}
    clean = {
        "done",
        Code.BRANCH_EXISTS,
        Code.BRANCH_IN_USE,
        Code.BRANCH_REPLACED,
        Code.NOT_FOUND,
        Code.EXPECTED_VERSION_MISMATCH,
        Code.WRITER_ACTIVE,
        Code.GONE,
    }
    assert outcomes <= clean, outcomes - clean
    repo = reopen(root)
    assert ids(repo, PERSON) == set()
    if "churn" in repo.branches.list():
        repo.delete_branch(BranchName("churn"))
    repo.branches.reclaim()
    assert repo.tables.forks(repo.snapshot().pin(PERSON).path) == {}
    audit(repo)
