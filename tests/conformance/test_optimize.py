"""Optimizing, on every kind of storage: drafts are made, opened by workers, and removed."""

from omnigraph.core.engine import Engine
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


def litter(engine: Engine) -> list[str]:
    names = [info.path.rpartition("/")[2] for info in engine.objects.list("nodes")]
    return [name for name in names if ".draft" in name or name.startswith("d")]


def test_rewriting_and_folding_on_a_branch_and_off(root: Root) -> None:
    engine = make(root, SCHEMA, durable=root.is_local)
    write(engine, {DOC: docs(0, 1, 2)})
    write(engine, {DOC: docs(3, 4)})
    assert optimize(engine, runner=PicklingRunner()).fragments[DOC] == (2, 1)
    engine.create_branch(DEV)
    for branch in (MAIN, DEV):
        change = Delta(
            insert=docs(5, 6, 7, 8).insert, update=redone(1, generation=1), delete=["d2"]
        )
        write(engine, {DOC: change}, branch=branch)
        before = rows(engine, DOC, engine.snapshot(branch))
        with telemetry.counting() as counts:
            done = optimize(engine, branch, runner=PicklingRunner())
        assert done.published is not None
        assert counts.snapshot()["table.commit"] == 4  # three of the table, one that publishes
        assert done.fragments[DOC][1] == 1
        assert rows(engine, DOC, engine.snapshot(branch)) == before
        check_indexes(table_of(engine, DOC, branch))
        check_indexes(table_of(reopen(root), DOC, branch))
        assert optimize(engine, branch).published is None
    assert litter(engine) == []
    audit(engine)
