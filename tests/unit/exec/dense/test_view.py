"""The dense view says what the tables say."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.lang.ir.ops import Towards
from omnigraph.store.root import Root
from omnigraph.types import BranchName
from tests.graphs import Delta, companies, make, write
from tests.unit.exec.dense.dense_graphs import (
    COMPANY,
    KNOWS,
    PERSON,
    SCHEMA,
    WORKS_AT,
    check_view,
    handles,
    knows,
    persons,
    view_of,
)


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return make(Root.parse(str(tmp_path / "graph")), SCHEMA)


def people_and_friends(repo: Repository) -> None:
    # Stored out of order, with ids that differ late, in case, in length and in non-ASCII letters.
    ids = ["zoë", "anna", "Anna", "annabelle-of-the-hills", "annabelle-of-the-hill", "bo", "ä"]
    rows: list[dict[str, Any]] = [
        {"id": each, "name": each, "age": place if place % 2 else None, "tags": ["x", each]}
        for place, each in enumerate(ids)
    ]
    rows[0]["spot"] = [1.0, 2.0, 3.0]
    edges = knows(
        ("k1", "zoë", "anna"),
        ("k2", "zoë", "anna"),  # in parallel
        ("k0", "anna", "zoë"),  # and back
        ("k9", "bo", "bo"),  # a loop
        ("k4", "zoë", "ä"),
        ("k3", "annabelle-of-the-hill", "annabelle-of-the-hills"),
    )
    work = [{"id": "w1", "src": "bo", "dst": "acme"}, {"id": "w0", "src": "anna", "dst": "acme"}]
    write(
        repo,
        {
            "node:Person": Delta(insert=rows),
            "node:Company": companies("acme", "none"),
            "edge:Knows": edges,
            "edge:WorksAt": Delta(insert=work),
        },
    )


def test_an_empty_graph(repo: Repository) -> None:
    view = view_of(ViewCache(repo), repo)
    check_view(view, repo, repo.snapshot())
    assert view.find(PERSON, ["nobody"]).tolist() == [-1]
    assert view.find(KNOWS, ["nothing"]).tolist() == [-1]


def test_everything_agrees_with_the_tables(repo: Repository) -> None:
    people_and_friends(repo)
    check_view(view_of(ViewCache(repo), repo), repo, repo.snapshot())


def test_missing_handles_and_ids(repo: Repository) -> None:
    people_and_friends(repo)
    view = view_of(ViewCache(repo), repo)
    assert view.find(PERSON, ["bo", "b", "bob", "", "\ud800", "anna\0"]).tolist()[1:] == [-1] * 5
    many = ["bo", *(f"nobody{number}" for number in range(200)), "\ud800", "ä"]
    assert view.find(PERSON, many).tolist() == [view.find_one(PERSON, each) for each in many]
    at = view.find(PERSON, ["bo"]).tolist()[0]
    assert view.take(PERSON, "name", handles(at, -1)).to_pylist() == ["bo", None]
    assert view.rank(KNOWS, handles(-1, 0, -1)).tolist() == [-1, 1, -1]


def test_vectors_come_as_a_matrix(repo: Repository) -> None:
    people_and_friends(repo)
    view = view_of(ViewCache(repo), repo)
    matrix, valid = view.vectors(PERSON, "spot")
    at = view.find_one(PERSON, "zoë")
    assert matrix.shape == (7, 3)
    assert matrix.dtype == np.float32
    assert np.flatnonzero(valid).tolist() == [at]
    assert matrix[at].tolist() == [1.0, 2.0, 3.0]


def test_a_view_stays_as_it_is(repo: Repository) -> None:
    people_and_friends(repo)
    views = ViewCache(repo)
    before = repo.snapshot()
    old = view_of(views, repo, before)
    write(repo, {"node:Person": persons("carl"), "edge:Knows": knows(("k8", "carl", "bo"))})
    check_view(old, repo, before)
    check_view(view_of(views, repo), repo, repo.snapshot())


def test_branches_share_what_they_pin_alike(repo: Repository) -> None:
    people_and_friends(repo)
    views = ViewCache(repo)
    main = view_of(views, repo)
    branch = BranchName("draft")
    repo.create_branch(branch)
    write(repo, {"node:Company": companies("other")}, branch=branch)
    other = view_of(views, repo, repo.snapshot(branch))
    assert other.type_columns(PERSON) is main.type_columns(PERSON)
    assert other.adjacency(KNOWS) is main.adjacency(KNOWS)
    assert other.type_columns(COMPANY) is not main.type_columns(COMPANY)
    assert other.adjacency(WORKS_AT) is not main.adjacency(WORKS_AT)
    check_view(other, repo, repo.snapshot(branch))


def test_the_same_snapshot_gives_the_same_view(repo: Repository) -> None:
    views = ViewCache(repo)
    snapshot = repo.snapshot()
    assert view_of(views, repo, snapshot) is view_of(views, repo, snapshot)


def test_dangling_ends_are_skipped(repo: Repository) -> None:
    write(
        repo,
        {
            "node:Person": persons("a", "b"),
            "edge:Knows": knows(("1", "a", "b"), ("2", "a", "ghost"), ("3", "ghost", "b")),
        },
    )
    view = view_of(ViewCache(repo), repo)
    for towards, expected in ((Towards.OUT, [1, 0]), (Towards.IN, [0, 1]), (Towards.BOTH, [1, 1])):
        assert view.degrees(KNOWS, towards, None).tolist() == expected
        assert view.edges(KNOWS, towards, handles(0, 1)).counts.tolist() == expected


def test_shared_arrays_cannot_be_changed(repo: Repository) -> None:
    people_and_friends(repo)
    view = view_of(ViewCache(repo), repo)
    slices = view.neighbours(KNOWS, Towards.OUT, handles(view.find_one(PERSON, "zoë")))
    with pytest.raises(ValueError, match="read-only"):
        slices.targets[0] = 0


def test_nothing_depends_on_what_is_kept(repo: Repository) -> None:
    people_and_friends(repo)
    views = ViewCache(repo, bytes_max=0)
    check_view(view_of(views, repo), repo, repo.snapshot())
    write(repo, {"node:Person": persons("carl"), "edge:Knows": knows(("k8", "carl", "bo"))})
    check_view(view_of(views, repo), repo, repo.snapshot())


@pytest.mark.parametrize("bytes_max", [0, 2_000, 1 << 20])
def test_threads_share_one_view(repo: Repository, bytes_max: int) -> None:
    """Readers of two versions at once, with too little room for both."""
    people_and_friends(repo)
    views = ViewCache(repo, bytes_max=bytes_max)
    old = repo.snapshot()
    write(repo, {"node:Person": persons("carl"), "edge:Knows": knows(("k8", "carl", "bo"))})
    snapshots = [old, repo.snapshot()] * 4
    ready = threading.Barrier(len(snapshots))

    def look(snapshot: GraphVersion) -> None:
        ready.wait(60)
        check_view(view_of(views, repo, snapshot), repo, snapshot)

    with ThreadPoolExecutor(len(snapshots)) as pool:
        for future in [pool.submit(look, snapshot) for snapshot in snapshots]:
            future.result(120)
    assert views.cache.nbytes <= max(bytes_max, 1 << 12)


def test_cells_are_what_arrays_say(repo: Repository) -> None:
    people_and_friends(repo)
    view = view_of(ViewCache(repo), repo)
    wanted = handles(3, -1, 0, 6, 0)
    for column in view.type_columns(PERSON).table().schema.names:
        expected = view.take(PERSON, column, wanted).to_pylist()
        assert view.cells(PERSON, column, wanted.tolist()) == expected, column


def test_whether_a_query_would_read_much(repo: Repository) -> None:
    people_and_friends(repo)
    views = ViewCache(repo)
    view = view_of(views, repo)
    assert view.rows_to_read([PERSON]) == 7
    assert view.rows_to_read([PERSON, KNOWS]) == 13
    view.find(PERSON, ["bo"])
    assert view.rows_to_read([PERSON, KNOWS]) == 6
    view.degrees(KNOWS, Towards.IN, None)
    assert view.rows_to_read([PERSON, KNOWS]) == 0
    write(repo, {"node:Person": persons("carl"), "edge:Knows": knows(("k8", "carl", "bo"))})
    assert view_of(views, repo).rows_to_read([PERSON, KNOWS]) == 0
