"""Optimizing, on every kind of storage: drafts are made, opened by workers, and removed."""

from omnigraph.core.repository import Repository
from omnigraph.runtime import telemetry
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.graphs import Delta, audit, make, reopen, rows, write
from tests.unit.dataplane.optimize.optimizing import (
    DOC,
    SCHEMA,
    PicklingRunner,
    check_indexes,
    docs,
    optimize,
    redone,
    table_of,
)

DEV = BranchName("dev")


def litter(repo: Repository) -> list[str]:
    names = [info.path.rpartition("/")[2] for info in repo.objects.list("nodes")]
    return [name for name in names if ".draft" in name or name.startswith("d")]


def test_rewriting_and_folding_on_a_branch_and_off(root: Root) -> None:
    repo = make(root, SCHEMA, durable=root.is_local)
    write(repo, {DOC: docs(0, 1, 2)})
    write(repo, {DOC: docs(3, 4)})
    assert optimize(repo, runner=PicklingRunner()).fragments[DOC] == (2, 1)
    repo.create_branch(DEV)
    for branch in (MAIN, DEV):
        change = Delta(
            insert=docs(5, 6, 7, 8).insert, update=redone(1, generation=1), delete=["d2"]
        )
        write(repo, {DOC: change}, branch=branch)
        before = rows(repo, DOC, repo.snapshot(branch))
        with telemetry.counting() as counts:
            done = optimize(repo, branch, runner=PicklingRunner())
        assert done.published is not None
        assert counts.snapshot()["table.commit"] == 4  # three of the table, one that publishes
        assert done.fragments[DOC][1] == 1
        assert rows(repo, DOC, repo.snapshot(branch)) == before
        check_indexes(table_of(repo, DOC, branch))
        check_indexes(table_of(reopen(root), DOC, branch))
        assert optimize(repo, branch).published is None
    assert litter(repo) == []
    audit(repo)
