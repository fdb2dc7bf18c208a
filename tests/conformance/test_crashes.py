"""A process that dies at any storage call leaves a table that is as before, or has the change."""

import multiprocessing
from pathlib import Path

import pytest

from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import CRASH_STATUS, Crash, Plan
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.store.tables import Pin, Tables, open_tables
from tests.conformance.racing import PATIENCE_S, PEOPLE, people

STEPS_MAX = 40


def write(root: Root, version: int, plan: Plan | None) -> None:
    """Change a row, add one, land; then merge a row into another table."""
    tables = open_tables(root)
    if plan is not None:
        failpoints.arm(plan)
    table = tables.open(Pin("t", version))
    found = table.locate(["a"])
    updates = found.add_column(1, "v", found["_rowid"].cast("int64"))
    uuid = f"from-{version}"
    staged = tables.stage(table, inserts=people(uuid), updates=updates, uuid=uuid)
    assert staged is not None
    tables.land(staged)
    tables.merge_rows(Pin("m", tables.head("m")), "id", people("key", v=version))


def die(root: Root, version: int, nth: int) -> int | None:
    plan = Plan(faults=tuple((call, Crash()) for call in StorageCall), nth=nth)
    process = multiprocessing.get_context("spawn").Process(target=write, args=(root, version, plan))
    process.start()
    process.join(PATIENCE_S)
    code = process.exitcode
    process.close()
    return code


def check(tables: Tables, before: int) -> int:
    """The table is readable, and what landed landed whole and once."""
    head = tables.head("t")
    assert head in {before, before + 1}
    ids = tables.open(Pin("t", head)).read(["id"])["id"].to_pylist()
    assert len(ids) == len(set(ids)) == head
    if head > before:
        assert f"from-{before}" in ids
        assert tables.transaction_uuid(Pin("t", head)) == f"from-{before}"
    merged = tables.open(Pin("m", tables.head("m"))).read(["id"])["id"].to_pylist()
    assert merged in ([], ["key"])
    return head


def test_a_crash_at_any_call_leaves_all_or_nothing(tmp_path: Path) -> None:
    root = Root.parse(str(tmp_path / "graph"))
    tables = open_tables(root)
    tables.create("t", PEOPLE, rows=people("a"))
    tables.create("m", PEOPLE, primary_key="id")
    version = 1
    for nth in range(1, STEPS_MAX):
        code = die(root, version, nth)
        version = check(tables, version)
        if code == 0:
            break
        assert code == CRASH_STATUS
    else:
        pytest.fail("a write never ends")
    assert nth > 8
    write(root, version, None)
    assert check(tables, version) == version + 1
