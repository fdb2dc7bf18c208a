"""Histories and merge bases, against a definition that is too slow to ship."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.commits.lineage import (
    Ancestry,
    ancestors,
    first_parents,
    merge_base,
    merge_bases,
    merge_bases_of_all,
    only_behind,
    parents,
)
from omnigraph.core.commits.records import CommitRecord
from omnigraph.runtime.ids import encode
from omnigraph.types import MAIN, CommitId

Dag = Mapping[CommitId, CommitRecord]


def cid(number: int) -> CommitId:
    return CommitId(encode(number))


def commit(number: int, parent: int | None = None, merged: int | None = None) -> CommitRecord:
    return CommitRecord(
        id=cid(number),
        parent_id=None if parent is None else cid(parent),
        merged_parent_id=None if merged is None else cid(merged),
        branch=MAIN,
        actor=None,
        created_at=number,
    )


def dag(*commits: CommitRecord) -> Dag:
    return {each.id: each for each in commits}


def slow_bases(graph: Dag, left: CommitId, right: CommitId) -> set[CommitId]:
    """Common ancestors that are no ancestor of another one."""
    shared = ancestors(graph.get, left) & ancestors(graph.get, right)
    return {
        each
        for each in shared
        if not any(each in ancestors(graph.get, other) for other in shared if other != each)
    }


def test_the_history_of_a_branch_leaves_out_what_was_merged() -> None:
    graph = dag(commit(1), commit(2, 1), commit(3, 1), commit(4, 2, 3))
    assert [each.id for each in first_parents(graph.get, cid(4))] == [cid(4), cid(2), cid(1)]
    assert ancestors(graph.get, cid(4)) == {cid(n) for n in (1, 2, 3, 4)}


def test_a_history_ends_where_commits_are_unknown() -> None:
    graph = dag(commit(5, 4), commit(6, 5, 3))
    assert [each.id for each in first_parents(graph.get, cid(6))] == [cid(6), cid(5)]
    assert merge_base(graph.get, cid(6), cid(5)) == cid(5)
    assert merge_base(graph.get, cid(6), cid(1)) is None


FORK = dag(commit(1), commit(2, 1), commit(3, 2), commit(4, 2), commit(5, 3))
#  Both sides merged the other's 2 and 3, so neither of them is before the other.
CRISS_CROSS = dag(
    commit(1),
    commit(2, 1),
    commit(3, 1),
    commit(4, 2, 3),
    commit(5, 3, 2),
    commit(6, 4),
    commit(7, 5),
)
MERGED_BACK = dag(commit(1), commit(2, 1), commit(3, 1), commit(4, 3, 2), commit(5, 2))


@pytest.mark.parametrize(
    ("graph", "left", "right", "expected"),
    [
        pytest.param(FORK, 5, 4, {2}, id="the commit before the fork"),
        pytest.param(FORK, 5, 3, {3}, id="an ancestor of the other"),
        pytest.param(FORK, 4, 4, {4}, id="the same commit"),
        pytest.param(CRISS_CROSS, 6, 7, {2, 3}, id="criss-cross"),
        pytest.param(MERGED_BACK, 4, 5, {2}, id="what was merged counts"),
        pytest.param(dag(commit(1), commit(2)), 1, 2, set(), id="nothing in common"),
    ],
)
def test_merge_bases(graph: Dag, left: int, right: int, expected: set[int]) -> None:
    bases = {cid(number) for number in expected}
    assert merge_bases(graph.get, cid(left), cid(right)) == bases
    assert merge_bases(graph.get, cid(right), cid(left)) == bases
    assert merge_base(graph.get, cid(left), cid(right)) == max(bases, default=None)


@st.composite
def dags(draw: st.DrawFn) -> tuple[Dag, Sequence[CommitId]]:
    """Any lineage; clocks of several machines may disagree, so ids need not follow the order."""
    size = draw(st.integers(2, 12))
    numbers = draw(st.permutations(range(1, size + 1)))
    if draw(st.booleans()):
        numbers = sorted(numbers)
    made: list[CommitRecord] = []
    for place, number in enumerate(numbers):
        older = [None, *numbers[:place]]
        parent = draw(st.sampled_from(older))
        merged = draw(st.sampled_from(older)) if parent is not None else None
        made.append(commit(number, parent, merged))
    return dag(*made), [each.id for each in made]


@given(dags(), st.data())
def test_merge_bases_are_the_latest_common_ancestors(
    lineage: tuple[Dag, Sequence[CommitId]], data: st.DataObject
) -> None:
    graph, names = lineage
    left, right = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    assert merge_bases(graph.get, left, right) == slow_bases(graph, left, right)


@given(dags(), st.data())
def test_one_walk_finds_the_merge_bases_of_every_pair(
    lineage: tuple[Dag, Sequence[CommitId]], data: st.DataObject
) -> None:
    graph, names = lineage
    heads = data.draw(st.lists(st.sampled_from(names), unique=True))
    expected: set[CommitId] = set()
    for left, right in combinations(heads, 2):
        expected |= slow_bases(graph, left, right)
    found = merge_bases_of_all(graph.get, heads)
    if all(parent < each.id for each in graph.values() for parent in parents(each)):
        assert found == expected
    # Where ids mislead, some may be found that are none.
    assert expected <= found


def test_the_merge_bases_of_many_branches_take_one_look_at_each_commit() -> None:
    length, branches = 1_000, 50
    trunk = {cid(n): commit(n, n - 1 if n > 1 else None) for n in range(1, length + 1)}
    places = range(length - branches * 10, length, 10)
    tips = {cid(length + place): commit(length + place, place) for place in places}
    looked: list[CommitId] = []

    def find(at: CommitId) -> CommitRecord | None:
        looked.append(at)
        return trunk.get(at) or tips.get(at)

    assert merge_bases_of_all(find, [*tips, cid(length)]) == {cid(place) for place in places}
    # Each commit since the oldest base is reached, walked on from, and compared with its children.
    since = branches * 10 + branches + 1
    assert len(looked) <= 4 * since
    assert min(looked) == cid(length - branches * 10)


@given(dags(), st.data())
def test_a_merge_brings_along_what_only_its_source_has(
    lineage: tuple[Dag, Sequence[CommitId]], data: st.DataObject
) -> None:
    graph, names = lineage
    left, right = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
    found = only_behind(graph.get, left, right)
    expected = ancestors(graph.get, left) - ancestors(graph.get, right)
    if all(parent < each.id for each in graph.values() for parent in parents(each)):
        assert found == expected
    # Where ids mislead, commits behind both may be listed, too.
    assert expected <= found <= ancestors(graph.get, left)


def test_merges_look_at_the_commits_since_the_merge_base_alone() -> None:
    length = 5_000
    trunk = {cid(n): commit(n, n - 1 if n > 1 else None) for n in range(1, length + 1)}
    trunk[cid(length + 1)] = commit(length + 1, length - 5)
    looked: set[CommitId] = set()

    def find(at: CommitId) -> CommitRecord | None:
        looked.add(at)
        return trunk.get(at)

    assert merge_base(find, cid(length), cid(length + 1)) == cid(length - 5)
    listed = Ancestry(find).brought_along(cid(length), cid(length + 1))
    assert listed == [[cid(length + 1), cid(length - 5), None]]
    assert len(looked) < 20
