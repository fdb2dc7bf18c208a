"""Branches that come into being with their first commit: what is seen, refused and left."""

import os
from contextlib import suppress
from dataclasses import replace

import pytest

from omnigraph.core import tuning
from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.request import CommitRequest
from omnigraph.core.failpoints import Fp
from omnigraph.core.journal.intent import Intent, WriterKind
from omnigraph.core.layout import MANIFEST, fork_mark, intent_path, staging_ref, staging_ref_parts
from omnigraph.core.recovery.settlement import Settled
from omnigraph.core.repository import OpenMode, Repository
from omnigraph.core.write import Prepared
from omnigraph.errors import (
    Code,
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    PreconditionFailed,
    RecoveryRequired,
    Unavailable,
)
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import LostReply, Refuse
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin
from omnigraph.types import MAIN, BranchName, CommitId
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
    write,
)

LEASE_US = tuning.active.creation_lease_us
GRACE_US = tuning.active.lease_grace_us

DEV, CHILD, DEEP = BranchName("dev"), BranchName("child"), BranchName("agent/42/x")


@pytest.fixture
def graph(graph: Repository) -> Repository:
    write(graph, {PERSON: people("a", "b"), COMPANY: companies("x")})
    return graph


def commit_new_branch(
    repo: Repository,
    name: BranchName = DEV,
    *rows: str,
    source: BranchName = MAIN,
    **options: object,
) -> CommitId:
    with repo.creating_branch(name, source=source) as base:
        delta = {PERSON: people(*(rows or ("new",)))}
        return repo.commit(prepare(repo, delta, base=base, **options)).commit.id


def forks(repo: Repository, key: str = PERSON) -> set[str]:
    return set(repo.tables.fork_names(repo.snapshot().pin(key).path))


def staging_refs(repo: Repository) -> set[str]:
    return {name for name in repo.tables.fork_names(MANIFEST) if staging_ref_parts(name)}


def assert_nothing_happened(repo: Repository) -> None:
    assert repo.branches.list() == (MAIN,)
    assert not forks(repo)
    assert not forks(repo, COMPANY)
    assert not staging_refs(repo)
    audit(repo)


# -- what is made ----------------------------------------------------------------------------------


def test_the_branch_is_there_with_its_commit(graph: Repository, root: Root) -> None:
    start = graph.snapshot()
    commit = commit_new_branch(graph, DEV, "new", actor="ada")
    for repo in (graph, reopen(root, OpenMode.READ_ONLY)):
        assert repo.branches.list() == (DEV, MAIN)
        assert repo.snapshot(DEV).head == commit
        assert ids(repo, PERSON, DEV) == {"a", "b", "new"}
        assert ids(repo, PERSON) == {"a", "b"}
        assert repo.snapshot(DEV).pin(COMPANY) == start.pin(COMPANY)
        made = repo.commit_info(commit)
        assert (made.parent_id, made.branch, made.actor) == (start.head, DEV, "ada")
        assert chain(repo, DEV) == [*chain(repo), commit]
        assert repo.merge_base(DEV, MAIN) == start.head
    assert graph.snapshot() == start
    audit(graph)


def test_what_it_was_made_from_is_its_parent_and_not_the_staging_ref(graph: Repository) -> None:
    commit_new_branch(graph, DEEP)
    version = graph.snapshot(DEEP).manifest_version
    commit_new_branch(graph, DEV, "child", source=DEEP)
    info = graph.manifest.branch(DEV)
    assert (info.parent, info.parent_version) == (DEEP, version)
    assert graph.manifest.branch(DEEP).parent == MAIN
    assert set(graph.manifest.branches()) == {MAIN, DEV, DEEP}
    assert ids(graph, PERSON, DEV) == {"a", "b", "new", "child"}


def test_it_is_a_branch_like_any_other(graph: Repository, root: Root) -> None:
    born = commit_new_branch(graph)
    write(graph, {PERSON: Delta(update={"a": {"age": 7}}, delete=["b"])}, branch=DEV)
    graph.create_branch(CHILD, source=DEV)
    write(graph, {PERSON: people("c"), COMPANY: companies("c")}, branch=CHILD)
    write(graph, {PERSON: people("m")})
    for repo in (graph, reopen(root)):
        assert ids(repo, PERSON, CHILD) == {"a", "new", "c"}
        assert ids(repo, PERSON, DEV) == {"a", "new"}
        assert repo.snapshot_at(born, DEV).head == born
        assert repo.snapshot_at(born, DEV).branch == DEV
        assert repo.snapshot_at(chain(repo)[1], DEV).branch == MAIN
        audit(repo)
    assert len(forks(graph)) == 2, "it has written on with the fork that it was born with"


def test_many_commits_and_a_compaction_of_its_manifest(graph: Repository, root: Root) -> None:
    commit_new_branch(graph)
    for number in range(40):
        write(graph, {COMPANY: companies(f"c{number}")}, branch=DEV)
    for repo in (graph, reopen(root)):
        assert len(ids(repo, COMPANY, DEV)) == 41
        assert len(chain(repo, DEV)) == 43
    audit(graph)


def test_a_branch_from_a_commit(graph: Repository) -> None:
    then = graph.snapshot().head
    write(graph, {PERSON: people("later")})
    with graph.creating_branch(DEV, commit=then) as base:
        graph.commit(prepare(graph, {PERSON: people("new")}, base=base))
    assert ids(graph, PERSON, DEV) == {"a", "b", "new"}
    assert chain(graph, DEV)[-2] == then


def test_what_its_source_does_meanwhile_does_not_concern_it(graph: Repository) -> None:
    with graph.creating_branch(DEV) as base:
        prepared = prepare(graph, {PERSON: people("new")}, base=base, judged={COMPANY: 2})
        write(graph, {PERSON: people("m"), COMPANY: companies("m")})
        graph.commit(prepared)
    assert ids(graph, PERSON, DEV) == {"a", "b", "new"}
    assert ids(graph, PERSON) == {"a", "b", "m"}
    audit(graph)


def test_a_commit_that_changes_no_table(graph: Repository, root: Root) -> None:
    with graph.creating_branch(DEV) as base:
        commit = replace(graph.new_commit(base, WriterKind.LOAD), details={"rows": 0})
        prepared = Prepared(base=base, commit=commit, tables=())
        published = graph.commit(prepared)
    for repo in (graph, reopen(root)):
        assert next(repo.commits(DEV)) == published.commit
        assert repo.snapshot(DEV).tables == repo.snapshot().tables
    audit(graph)


def test_a_name_can_be_used_again(graph: Repository) -> None:
    incarnations = set()
    for number in range(3):
        commit_new_branch(graph, DEV, f"n{number}")
        incarnations.add(graph.snapshot(DEV).incarnation)
        assert ids(graph, PERSON, DEV) == {"a", "b", f"n{number}"}
        graph.delete_branch(DEV)
        assert_nothing_happened(graph)
    assert len(incarnations) == 3


def test_the_identifier_of_a_fork_tells_where_each_fork_on_the_way_was_made(
    graph: Repository,
) -> None:
    """A fact of Lance by which the parent of such a branch is found without another look."""
    tables = graph.tables
    tables.fork(MANIFEST, "one", Pin(MANIFEST, 1))
    tables.fork(MANIFEST, "two", Pin(MANIFEST, 1, "one"))
    info = tables.fork_info(MANIFEST, "two")
    assert info is not None
    assert info.parent_branch == "one"
    steps = [step.partition(":") for step in info.identifier.split("/")]
    assert [version for version, _, _ in steps] == ["1", "1"]
    assert len({identity for _, _, identity in steps}) == 2


# -- before it is there ----------------------------------------------------------------------------


def test_nobody_sees_it_before_its_commit(graph: Repository, root: Root) -> None:
    with graph.creating_branch(DEV) as base:
        assert (base.branch, base.head) == (DEV, graph.snapshot().head)
        assert base.tables == graph.snapshot().tables
        prepared = prepare(graph, {PERSON: people("new")}, base=base)
        for repo in (graph, reopen(root), reopen(root, OpenMode.READ_ONLY)):
            assert repo.branches.list() == (MAIN,)
            assert set(repo.manifest.branches()) == {MAIN}
            assert not repo.has_branch(DEV)
            with pytest.raises(NotFound):
                repo.snapshot(DEV)
            with pytest.raises(NotFound):
                list(repo.commits(DEV))
            with pytest.raises(NotFound):
                repo.delete_branch(DEV) if repo.mode is OpenMode.READ_WRITE else (
                    repo.snapshot(DEV)
                )
        graph.commit(prepared)
    assert graph.has_branch(DEV)
    assert graph.has_branch(MAIN)


def test_giving_up_leaves_nothing(graph: Repository) -> None:
    with suppress(ZeroDivisionError), graph.creating_branch(DEV) as base:
        prepare(graph, {PERSON: people("new"), COMPANY: companies("new")}, base=base)
        assert len(forks(graph)) == 1
        raise ZeroDivisionError
    assert_nothing_happened(graph)
    graph.abandon_branch(base)
    graph.abandon_branch(graph.snapshot())


def test_abandoning_after_the_commit_does_nothing(graph: Repository) -> None:
    base = graph.begin_branch(DEV)
    graph.commit(prepare(graph, {PERSON: people("new")}, base=base))
    graph.abandon_branch(base)
    assert ids(graph, PERSON, DEV) == {"a", "b", "new"}
    audit(graph)


def test_a_base_that_was_given_up_cannot_be_committed(graph: Repository) -> None:
    with graph.creating_branch(DEV) as base:
        prepared = prepare(graph, {}, base=base)
    with pytest.raises(Conflict):
        graph.commit(prepared)
    assert_nothing_happened(graph)


def test_a_base_makes_one_branch(graph: Repository) -> None:
    base = graph.begin_branch(DEV)
    first = prepare(graph, {PERSON: people("new")}, base=base)
    second = prepare(graph, {PERSON: people("other")}, base=base)
    graph.commit(first)
    with pytest.raises(Conflict):
        graph.commit(second)
    assert ids(graph, PERSON, DEV) == {"a", "b", "new"}
    audit(graph)


# -- refusals --------------------------------------------------------------------------------------


def refused(repo: Repository, name: BranchName, kind: type[Exception] = Conflict) -> None:
    with pytest.raises(kind), repo.creating_branch(name):
        pytest.fail("it was not refused")


def test_names_that_are_taken(graph: Repository, root: Root) -> None:
    commit_new_branch(graph, DEEP)
    refused(graph, DEEP)
    refused(graph, BranchName("agent/42"))
    refused(graph, BranchName("agent/42/x/y"))
    refused(graph, MAIN, InvalidInput)
    refused(reopen(root, OpenMode.READ_ONLY), DEV, Forbidden)
    assert graph.intents.pending() == ()
    commit_new_branch(graph, BranchName("agent/43"))


@pytest.mark.parametrize("name", [DEV, BranchName("dev/x")])
def test_a_name_that_is_taken_meanwhile(graph: Repository, name: BranchName) -> None:
    with graph.creating_branch(DEV) as base:
        prepared = prepare(graph, {PERSON: people("new")}, base=base)
        graph.create_branch(name)
        with pytest.raises(Conflict) as caught:
            graph.commit(prepared)
    assert caught.value.code is Code.BRANCH_EXISTS
    assert ids(graph, PERSON, name) == {"a", "b"}
    graph.delete_branch(name)
    assert_nothing_happened(graph)


def test_the_callers_own_condition(graph: Repository) -> None:
    with graph.creating_branch(DEV) as base:
        wrong = chain(graph)[0]
        prepared = prepare(graph, {PERSON: people("new")}, base=base, head=wrong)
        with pytest.raises(PreconditionFailed):
            graph.commit(prepared)
    assert_nothing_happened(graph)


def test_a_source_that_is_missing_or_goes(graph: Repository, root: Root) -> None:
    with pytest.raises(NotFound), graph.creating_branch(DEV, source=CHILD):
        pytest.fail("there is no such branch")
    graph.create_branch(CHILD)
    with graph.creating_branch(DEV, source=CHILD) as base:
        prepared = prepare(graph, {PERSON: people("new")}, base=base)
        for repo in (graph, reopen(root)):
            with pytest.raises(Conflict) as caught:
                repo.delete_branch(CHILD)
            assert caught.value.code is Code.BRANCH_IN_USE
        graph.commit(prepared)
    with pytest.raises(Conflict) as caught:
        graph.delete_branch(CHILD)
    assert caught.value.details["children"] == ["dev"]
    graph.delete_branch(DEV)
    graph.delete_branch(CHILD)
    assert_nothing_happened(graph)


def test_a_source_that_is_made_again(graph: Repository) -> None:
    graph.create_branch(CHILD)
    with graph.creating_branch(DEV, source=CHILD) as base:
        prepared = prepare(graph, {PERSON: people("new")}, base=base)
        # Not by our rules: those refuse it as long as a branch is made from it.
        graph.tables.drop_fork(MANIFEST, CHILD)
        graph.create_branch(CHILD)
        with pytest.raises(Conflict) as caught:
            graph.commit(prepared)
        assert caught.value.code is Code.BRANCH_REPLACED
    graph.delete_branch(CHILD)
    assert_nothing_happened(graph)


# -- keys ------------------------------------------------------------------------------------------


def test_the_same_key_finds_the_commit(graph: Repository) -> None:
    commit = commit_new_branch(graph, DEV, "new", idempotency_key="k")
    again = write(graph, {PERSON: people("new")}, branch=DEV, idempotency_key="k")
    assert (again.commit.id, again.replayed) == (commit, True)
    audit(graph)


def test_the_same_key_finds_a_commit_that_was_made_meanwhile(graph: Repository, root: Root) -> None:
    other = reopen(root)
    with graph.creating_branch(DEV) as base:
        prepared = prepare(graph, {PERSON: people("new")}, base=base, idempotency_key="k")
        commit = commit_new_branch(other, DEV, "new", idempotency_key="k")
        published = graph.commit(prepared)
    assert (published.commit.id, published.replayed) == (commit, True)
    assert ids(graph, PERSON, DEV) == {"a", "b", "new"}
    assert len(forks(graph)) == 1
    assert len(staging_refs(graph)) == 1
    audit(graph)


def test_a_key_that_names_something_else(graph: Repository) -> None:
    write(graph, {PERSON: people("c")}, idempotency_key="k")
    with pytest.raises(Conflict):
        commit_new_branch(graph, DEV, "new", idempotency_key="k")
    assert_nothing_happened(graph)


def test_a_key_that_its_source_uses_meanwhile_is_free(graph: Repository) -> None:
    with graph.creating_branch(DEV) as base:
        prepared = prepare(graph, {PERSON: people("n")}, base=base, idempotency_key="k")
        write(graph, {PERSON: people("m")}, idempotency_key="k")
        assert not graph.commit(prepared).replayed
    audit(graph)


# -- what is left ----------------------------------------------------------------------------------


def left(repo: Repository, base: GraphVersion, *, lease: bool = False) -> Intent:
    """The intent of a branch in the making, as if its process had died, or ran elsewhere."""
    (intent,) = repo.intents.pending()
    assert intent.request.target.incarnation == base.incarnation
    owner = replace(intent.owner, process=1, started="long ago")
    if lease:
        owner = replace(intent.owner, machine="far away")
    repo.intents.replace(replace(intent, owner=owner))
    return intent


def test_what_a_dead_maker_left_goes_when_the_graph_is_opened(
    graph: Repository, root: Root
) -> None:
    base = graph.begin_branch(DEV)
    prepare(graph, {PERSON: people("new")}, base=base)
    intent = left(graph, base)
    repo = reopen(root)
    assert_nothing_happened(repo)
    (row,) = repo.recovery.audit.rows()
    assert (row.operation_id, row.graph_commit_id) == (intent.operation_id, None)
    commit_new_branch(repo)


def test_a_maker_elsewhere_has_a_day(graph: Repository, root: Root) -> None:
    base = graph.begin_branch(DEV)
    intent = left(graph, base, lease=True)
    began = intent.commit.created_at
    assert intent.owner.lease_until == began + LEASE_US
    assert graph.recover()[0].settled is Settled.LIVE
    file = root.local_path / intent_path(intent.operation_id)
    then = file.stat().st_mtime - (LEASE_US + GRACE_US) / 1e6 - 1
    os.utime(file, (then, then))
    assert graph.recover()[0].settled is Settled.ROLLED_BACK
    with pytest.raises(Conflict):
        graph.commit(prepare(graph, {}, base=base))
    assert_nothing_happened(graph)


def test_reclaiming_spares_what_is_being_made(graph: Repository) -> None:
    with graph.creating_branch(DEV) as base:
        prepared = prepare(graph, {PERSON: people("new")}, base=base)
        assert graph.branches.reclaim() == 0
        graph.commit(prepared)
    assert graph.branches.reclaim() == 0
    assert ids(graph, PERSON, DEV) == {"a", "b", "new"}


def test_what_could_not_be_dropped_is_reclaimed(graph: Repository) -> None:
    with graph.creating_branch(DEV) as base:
        prepare(graph, {PERSON: people("new")}, base=base)
        with failpoints.armed({Fp.DROP: Refuse()}):
            graph.abandon_branch(base)
    assert forks(graph) == {f"{fork_mark(base.incarnation)}.0"}
    commit_new_branch(graph)
    with failpoints.armed({Fp.DROP: Refuse()}, nth=3):  # the branch and its fork are gone
        graph.delete_branch(DEV)
    assert len(staging_refs(graph)) == 1
    assert graph.branches.reclaim() == 2
    assert_nothing_happened(graph)


def test_a_forgotten_staging_ref_does_not_hold_its_source(graph: Repository) -> None:
    graph.create_branch(CHILD)
    commit_new_branch(graph, DEV, source=CHILD)
    with failpoints.armed({Fp.DROP: Refuse()}, nth=2):  # so its fork and its staging ref stay
        graph.delete_branch(DEV)
    assert len(staging_refs(graph)) == 1
    graph.delete_branch(CHILD)
    assert_nothing_happened(graph)


def test_what_a_dead_maker_left_does_not_hold_its_source(graph: Repository) -> None:
    graph.create_branch(CHILD)
    with failpoints.armed({Fp.PUBLISH: Refuse()}), pytest.raises(RecoveryRequired):
        commit_new_branch(graph, DEV, source=CHILD)
    with pytest.raises(Conflict) as caught:
        graph.delete_branch(CHILD)
    # All of it had landed, so it was finished; then it is a child like any other.
    assert caught.value.details["children"] == ["dev"]
    assert ids(graph, PERSON, DEV) == {"a", "b", "new"}
    audit(graph)


def test_a_failure_to_begin_leaves_nothing(graph: Repository) -> None:
    with failpoints.armed({Fp.BEGIN: Refuse()}):
        refused(graph, DEV, Unavailable)
    assert_nothing_happened(graph)
    with failpoints.armed({Fp.BEGIN: LostReply()}):
        commit_new_branch(graph)
    audit(graph)


def test_a_write_that_did_not_learn_its_outcome_is_finished_for_who_repeats_it(
    graph: Repository,
) -> None:
    with failpoints.armed({Fp.PUBLISH: Refuse()}), pytest.raises(RecoveryRequired) as caught:
        commit_new_branch(graph, DEV, "new", idempotency_key="k")
    assert graph.branches.list() == (MAIN,)
    (intent,) = graph.intents.pending()
    assert caught.value.details["operation_id"] == intent.operation_id
    assert graph.has_branch(DEV)
    again = write(graph, {PERSON: people("new")}, branch=DEV, idempotency_key="k")
    assert (again.commit.id, again.replayed) == (intent.commit.id, True)
    audit(graph)


def test_a_read_only_handle_settles_nothing(graph: Repository, root: Root) -> None:
    with failpoints.armed({Fp.PUBLISH: Refuse()}), pytest.raises(RecoveryRequired):
        commit_new_branch(graph)
    reader = reopen(root, OpenMode.READ_ONLY)
    assert not reader.has_branch(DEV)
    assert len(reader.intents.pending()) == 1


def test_what_was_settled_while_its_maker_waited_is_not_made(graph: Repository) -> None:
    base = graph.begin_branch(DEV)
    graph.abandon_branch(base)
    commit = graph.new_commit(base, WriterKind.LOAD)
    change = CommitRequest(commit=commit, target=base.target, requires=())
    with pytest.raises(Conflict):
        graph.publisher.publish(change)
    assert_nothing_happened(graph)


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["main", "agent/42/x"])
def test_the_name_of_a_staging_ref_tells_where_it_is_from(source: str) -> None:
    name = staging_ref("01M7H56QJVA6EK7K581PJCXMKR", source)
    assert staging_ref_parts(name) == ("01M7H56QJVA6EK7K581PJCXMKR", source)
    with pytest.raises(InvalidInput):
        BranchName(name)


@pytest.mark.parametrize("name", [None, "", "main", "__born", "__born/x", "born/x/main"])
def test_other_forks_are_no_staging_refs(name: str | None) -> None:
    assert staging_ref_parts(name) is None
