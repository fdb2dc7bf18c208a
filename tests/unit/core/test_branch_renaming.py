"""Branches get other names: nothing of them is lost, and what was cut off is finished."""

from pathlib import Path

import pytest

from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.layout import MANIFEST
from omnigraph.core.locks.liveness import LIVE_OPERATIONS
from omnigraph.core.repository import Repository
from omnigraph.core.revisions import Revisions
from omnigraph.errors import Code, Conflict, Forbidden, InvalidInput, NotFound
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Refuse
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName, TagName
from tests.graphs import PERSON, audit, chain, ids, make, people, prepare, reopen, write

OLD, NEW, CHILD, LAST = (BranchName(name) for name in ("old", "team/new", "child", "last"))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.parse(str(tmp_path / "graph"))


@pytest.fixture
def graph(root: Root) -> Repository:
    repo = make(root)
    write(repo, {PERSON: people("a")})
    repo.create_branch(OLD)
    write(repo, {PERSON: people("b")}, branch=OLD)
    return repo


def test_a_branch_goes_on_under_its_new_name(graph: Repository) -> None:
    before, history = graph.snapshot(OLD), chain(graph, OLD)
    graph.refs.rename_branch(OLD, NEW)
    assert graph.branches.list() == (MAIN, NEW)
    assert graph.snapshot(NEW).head == before.head
    assert chain(graph, NEW) == history
    write(graph, {PERSON: people("c")}, branch=NEW)
    assert ids(graph, PERSON, NEW) == {"a", "b", "c"}
    assert graph.snapshot(NEW).incarnation == before.incarnation
    with pytest.raises(NotFound):
        graph.snapshot(OLD)
    assert graph.snapshot_at(before.head).tables == before.tables
    audit(graph)


def test_the_old_name_is_free_and_means_another_branch(graph: Repository) -> None:
    graph.refs.rename_branch(OLD, NEW)
    graph.create_branch(OLD)
    write(graph, {PERSON: people("other")}, branch=OLD)
    assert ids(graph, PERSON, NEW) == {"a", "b"}
    assert ids(graph, PERSON, OLD) == {"a", "other"}
    graph.refs.rename_branch(NEW, LAST)
    assert ids(graph, PERSON, LAST) == {"a", "b"}
    audit(graph)


def test_a_branch_is_made_from_a_state_that_was_read_under_the_old_name(graph: Repository) -> None:
    earlier = graph.snapshot(OLD).head
    write(graph, {PERSON: people("c")}, branch=OLD)
    assert graph.snapshot_at(earlier).branch == OLD
    graph.refs.rename_branch(OLD, NEW)
    graph.create_branch(CHILD, source=NEW, commit=earlier)
    assert ids(graph, PERSON, CHILD) == {"a", "b"}
    assert graph.snapshot_at(earlier).branch == NEW
    audit(graph)


def test_tags_and_children_stay(graph: Repository) -> None:
    tagged = graph.snapshot(OLD)
    graph.refs.create_tag(TagName("v1"), tagged)
    graph.create_branch(CHILD, source=OLD)
    graph.refs.rename_branch(OLD, NEW)
    assert Revisions(graph).resolve("v1").head == tagged.head
    assert Revisions(graph).resolve("team/new~1").head == graph.snapshot().head
    assert ids(graph, PERSON, CHILD) == {"a", "b"}
    graph.create_branch(LAST, source=NEW, commit=tagged.head)
    write(graph, {PERSON: people("c")}, branch=NEW)
    assert ids(graph, PERSON, LAST) == {"a", "b"}
    graph.delete_branch(LAST)
    write(graph, {PERSON: people("d")}, branch=CHILD)
    with pytest.raises(Conflict) as caught:
        graph.delete_branch(NEW)
    assert caught.value.details["children"] == ["child"]
    graph.refs.rename_branch(NEW, LAST)
    assert graph.manifest.children(graph.manifest.branch(LAST)) == ("child",)
    assert ids(graph, PERSON, CHILD) == {"a", "b", "d"}
    graph.delete_branch(CHILD)
    with pytest.raises(Conflict, match="have tags: v1"):
        graph.delete_branch(LAST)
    graph.refs.delete_tag(TagName("v1"))
    graph.delete_branch(LAST)
    assert not graph.tables.fork_names(MANIFEST)
    audit(graph)


def test_what_it_was_made_from_stays_in_use(graph: Repository) -> None:
    graph.create_branch(CHILD, source=OLD)
    graph.refs.rename_branch(CHILD, LAST)
    with pytest.raises(Conflict) as caught:
        graph.delete_branch(OLD)
    assert caught.value.details["children"] == ["last"]
    graph.delete_branch(LAST)
    graph.delete_branch(OLD)
    assert not graph.tables.fork_names(MANIFEST)
    assert not graph.tables.fork_names(graph.snapshot().pin(PERSON).path)


def test_what_cannot_be_renamed(graph: Repository) -> None:
    def refused(name: BranchName, to: BranchName) -> Code:
        with pytest.raises((Conflict, InvalidInput, Forbidden, NotFound)) as caught:
            graph.refs.rename_branch(name, to)
        return caught.value.code

    graph.create_branch(CHILD)
    graph.refs.create_tag(TagName("v1"), graph.snapshot())
    assert refused(MAIN, NEW) is Code.NAME_INVALID
    assert refused(OLD, MAIN) is Code.NAME_INVALID
    assert refused(OLD, CHILD) is refused(OLD, OLD) is Code.BRANCH_EXISTS
    assert refused(OLD, BranchName("v1")) is Code.TAG_EXISTS
    assert refused(LAST, NEW) is Code.NOT_FOUND
    graph.refs.protect(OLD, protected=True)
    assert refused(OLD, NEW) is Code.BRANCH_PROTECTED
    graph.refs.protect(OLD, protected=False)
    operation = graph.ids.new()
    with LIVE_OPERATIONS.working(operation):
        graph._writes.arm(
            prepare(graph, {PERSON: people("c")}, base=graph.snapshot(OLD)), operation
        )
        assert refused(OLD, NEW) is Code.BRANCH_IN_USE
    assert graph.branches.list() == (CHILD, MAIN, OLD)


def test_the_name_is_free_though_the_renaming_was_cut_off(graph: Repository, root: Root) -> None:
    """A process that knew the branch by its old name is told by whoever uses the name next."""
    other = reopen(root)
    assert other.snapshot(OLD).head == graph.snapshot(OLD).head
    with failpoints.armed({StorageCall.OBJECT_PUT_NEW: Refuse()}, nth=3):
        graph.refs.rename_branch(OLD, NEW)
    assert graph.manifest.has_branch(OLD, 0), "its mark is missing"
    assert graph.branches.list() == (MAIN, NEW)
    write(other, {PERSON: people("c")}, branch=OLD)
    assert ids(graph, PERSON, NEW) == {"a", "b", "c"}, "it is the same branch"
    graph.create_branch(OLD)
    write(other, {PERSON: people("d")}, branch=OLD)
    assert ids(graph, PERSON, OLD) == {"a", "d"}
    assert ids(graph, PERSON, NEW) == {"a", "b", "c"}
    audit(graph)


def test_no_branch_lies_in_the_folder_of_one_that_has_another_name(graph: Repository) -> None:
    """Lance would remove the inner one together with the outer one."""
    graph.refs.rename_branch(OLD, NEW)
    inner = BranchName("old/inner")
    graph.create_branch(inner)
    write(graph, {PERSON: people("i")}, branch=inner)
    graph.delete_branch(NEW)
    assert ids(graph, PERSON, inner) == {"a", "i"}
    audit(graph)


def test_a_writer_meets_the_announcement_and_gives_way(graph: Repository) -> None:
    """Whoever comes after the announcement is kept out, though the branch is still there."""
    late = prepare(graph, {PERSON: people("late")}, base=graph.snapshot(OLD))
    info = graph.manifest.branch(OLD)
    with graph.branches.ending(info, WriterKind.BRANCH_DELETE):
        with pytest.raises(Conflict, match="is being deleted or renamed") as caught:
            graph.commit(late)
        assert caught.value.code is Code.WRITER_ACTIVE
    write(graph, {PERSON: people("c")}, branch=OLD)
    assert ids(graph, PERSON, OLD) == {"a", "b", "c"}
    audit(graph)
