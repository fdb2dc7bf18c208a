"""Tags and protected branches."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.core import tuning
from omnigraph.core.repository import Repository, components
from omnigraph.errors import Code, Conflict, Forbidden, InvalidInput, NotFound
from omnigraph.store.root import Root

NAMES = "query all() { match { $p: Person } return { $p.name as name } order { name } }"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    schema = "node Person { name: String @key }"
    with og.init(str(tmp_path / "g.omni"), schema=schema, actor="ada") as graph:
        add(graph, "Ada")
        yield graph


def add(graph: og.Graph, name: str, branch: str = "main") -> str:
    text = f'query q() {{ insert Person {{ name: "{name}" }} }}'
    commit = graph.mutate(text, branch=branch).commit
    assert commit is not None
    return commit.id


def names(graph: og.Graph, at: str) -> list[str]:
    return [row["name"] for row in graph.query(NAMES, at=at)]


def test_a_tag_names_a_commit_and_moves_nothing(graph: og.Graph) -> None:
    before = graph.commits.list()
    tag = graph.tags.create("v1", message="as published")
    assert (tag.name, tag.commit, tag.branch) == ("v1", before[0].id, "main")
    assert (tag.actor, tag.message) == ("ada", "as published")
    assert tag.created_at >= before[0].created_at
    assert graph.commits.list() == before
    add(graph, "Bo")
    add(graph, "Cy")
    assert names(graph, "v1") == ["Ada"]
    assert names(graph, "v1~1") == []
    assert graph.diff("v1", "main").counts["node:Person"].inserted == 2
    assert graph.tags.get("v1") == tag
    with og.open(graph.uri, "r") as other:
        assert other.tags.list() == [tag]
        assert names(other, "v1") == ["Ada"]


def test_tags_are_listed_by_name_and_deleted(graph: og.Graph) -> None:
    first = graph.tags.create("release/2")
    second = graph.tags.create("release/10", at="main~1")
    assert graph.tags.list() == [second, first]
    assert graph.tags.delete("release/2") == first
    assert graph.tags.list() == [second]
    with pytest.raises(NotFound, match="did you mean `release/10`"):
        graph.tags.get("release/1")
    with pytest.raises(NotFound):
        graph.tags.delete("release/2")
    with pytest.raises(NotFound, match="tag or branch"):
        graph.snapshot(at="release/2")
    assert graph.tags.create("release/2").commit == first.commit


def test_a_name_is_given_once_unless_it_is_forced(graph: og.Graph) -> None:
    first = graph.tags.create("v1")
    assert graph.tags.create("v1") == first  # the same commit: nothing to do
    newer = add(graph, "Bo")
    with pytest.raises(Conflict, match="exists already") as caught:
        graph.tags.create("v1")
    assert caught.value.code is Code.TAG_EXISTS
    assert caught.value.details["commit"] == first.commit
    assert graph.tags.create("v1", force=True).commit == newer
    assert names(graph, "v1") == ["Ada", "Bo"]


@pytest.mark.parametrize(
    "name", ["", "a b", "../x", "__x", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "x" * 121]
)
def test_names_follow_the_rules_of_branches(graph: og.Graph, name: str) -> None:
    with pytest.raises(InvalidInput, match="tag name") as caught:
        graph.tags.create(name)
    assert caught.value.code is Code.NAME_INVALID


def test_a_tag_and_a_branch_never_share_a_name(graph: og.Graph) -> None:
    graph.tags.create("v1")
    for make in (
        lambda: graph.branches.create("v1"),
        lambda: graph.load({"Person": [{"name": "Bo"}]}, branch="v1", create_from="main"),
    ):
        with pytest.raises(Conflict, match="there is a tag 'v1'"):
            make()
    graph.branches.create("dev")
    with pytest.raises(Conflict, match="there is a branch 'dev'"):
        graph.tags.create("dev")
    with pytest.raises(Conflict, match="there is a branch 'main'"):
        graph.tags.create("main")
    graph.tags.delete("v1")
    graph.branches.create("v1")


def test_a_branch_with_a_tagged_commit_of_its_own_stays(graph: og.Graph) -> None:
    graph.tags.create("on-main")
    graph.branches.create("dev")
    own = add(graph, "Bo", "dev")
    add(graph, "Cy", "dev")
    graph.tags.create("tried", at=own)
    with pytest.raises(Conflict, match="have tags: tried") as caught:
        graph.branches.delete("dev")
    assert caught.value.code is Code.BRANCH_IN_USE
    assert names(graph, "tried") == ["Ada", "Bo"]
    graph.tags.delete("tried")
    graph.branches.delete("dev")
    assert names(graph, "on-main") == ["Ada"]


def test_a_handle_for_reading_tags_nothing(graph: og.Graph) -> None:
    with og.open(graph.uri, "r") as reader:
        for call in (
            lambda: reader.tags.create("v1"),
            lambda: reader.tags.delete("v1"),
            lambda: reader.branches.protect("main"),
        ):
            with pytest.raises(Forbidden) as caught:
                call()
            assert caught.value.code is Code.READ_ONLY


def test_what_set_a_ref_has_no_state(graph: og.Graph) -> None:
    graph.tags.create("v1")
    root = Root.parse(graph.uri)
    entry = Repository.open(root, components(root)).snapshot().refs["tags/v1"]
    with pytest.raises(NotFound, match="on no branch"):
        graph.snapshot(at=entry.id)


def test_tags_outlast_a_long_history(graph: og.Graph) -> None:
    """Whoever opens a graph late picks the present out of a long manifest, tags included."""
    first = graph.tags.create("v1")
    for number in range(20):
        add(graph, f"p{number}")
    moved = graph.tags.create("v1", force=True)
    gone = graph.tags.create("v2")
    graph.tags.delete("v2")
    with tuning.tuned(whole_manifest_rows_max=4), og.open(graph.uri) as late:
        assert late.tags.list() == [moved]
        assert moved.commit != first.commit
        for number in range(40):
            add(late, f"q{number}")
        assert late.tags.list() == [moved]
        assert late.tags.create("v2") != gone


# -- protection ------------------------------------------------------------------------------------


def test_a_protected_branch_is_not_deleted(graph: og.Graph) -> None:
    assert graph.branches.show("main").protected
    assert not graph.branches.create("release").protected
    assert graph.branches.protect("release", message="shipped").protected
    assert graph.branches.protect("release").protected
    with pytest.raises(Forbidden, match="unprotect it first") as caught:
        graph.branches.delete("release")
    assert caught.value.code is Code.BRANCH_PROTECTED
    add(graph, "Bo", "release")
    with og.open(graph.uri) as other:
        assert not other.branches.unprotect("release").protected
    graph.branches.delete("release")
    with pytest.raises(NotFound):
        graph.branches.protect("release")


def test_main_is_never_deleted(graph: og.Graph) -> None:
    assert not graph.branches.unprotect("main").protected
    with pytest.raises(InvalidInput, match="cannot be deleted"):
        graph.branches.delete("main")
