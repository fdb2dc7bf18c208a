"""The difference of two versions of a table, on local disk and S3, whatever happened in between."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.runtime import telemetry
from omnigraph.store.failures import StorageFailure
from omnigraph.store.reading.deletion_files import decode_deletions
from omnigraph.store.tables import Btree, IndexSpec, Pin, Tables
from tests.conformance.racing import PEOPLE, people
from tests.conformance.table_steps import addresses, compacted, insert, rewritten

MANY = [f"k{number:05}" for number in range(6_000)]


def content(tables: Tables, pin: Pin) -> dict[str, int]:
    rows = tables.open(pin).read().to_pylist()
    return {row["id"]: row["v"] for row in rows}


def differences(tables: Tables, older: Pin, newer: Pin) -> tuple[dict[str, int], dict[str, int]]:
    """What is removed and added, without the rows that only moved."""
    diff = tables.diff(older, newer)
    sides = []
    for selection in (diff.removed, diff.added):
        rows = selection.scan(["id", "v"]).read_all().to_pylist()
        assert len(rows) == selection.count
        found = {row["id"]: row["v"] for row in rows}
        assert len(found) == len(rows), "a row comes once"
        sides.append(found)
    removed, added = sides
    moved = {key for key, value in removed.items() if added.get(key) == value}
    return tuple({k: v for k, v in side.items() if k not in moved} for side in sides)  # type: ignore[return-value]


def expected(tables: Tables, older: Pin, newer: Pin) -> tuple[dict[str, int], dict[str, int]]:
    before, after = content(tables, older), content(tables, newer)
    return (
        {key: value for key, value in before.items() if after.get(key) != value},
        {key: value for key, value in after.items() if before.get(key) != value},
    )


def step(tables: Tables, pin: Pin, what: str, keys: list[str], number: int) -> Pin:
    """Do one thing to a table; return the version that it made."""
    table = tables.open(pin)
    uuid = f"{pin.branch or 'trunk'}-{number}"
    there = set(content(tables, pin))
    new = [key for key in keys if key not in there]
    old = [key for key in keys if key in there]
    match what:
        case "insert" if new:
            return insert(tables, pin, *new, uuid=uuid, v=number)
        case "update" if old:
            staged = tables.stage(table, updates=rewritten(table, *old, v=number), uuid=uuid)
        case "delete" if old:
            staged = tables.stage(table, deletes=addresses(table, *old), uuid=uuid)
        case "overwrite":
            staged = tables.stage_overwrite(table, people(*keys, v=number), uuid=uuid)
        case "index" if there:
            staged = tables.stage_indexes(table, [IndexSpec("id", Btree(), "id")], uuid=uuid)
        case "compact":
            return Pin(pin.path, compacted(tables, pin.path, pin.branch), pin.branch)
        case _:
            return pin
    return pin if staged is None else Pin(pin.path, tables.land(staged), pin.branch)


def test_equal_versions_have_no_difference_and_read_no_row(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b"))
    with telemetry.counting() as counts:
        diff = tables.diff(Pin("t", 1), Pin("t", 1))
        assert (diff.removed.count, diff.added.count) == (0, 0)
    assert "table.scan" not in counts.snapshot()


def test_a_few_changes_of_a_large_table_touch_a_few_rows(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people(*MANY))
    base = Pin("t", 1)
    newer = step(tables, base, "update", MANY[5:8], 1)
    newer = step(tables, newer, "delete", MANY[100:102], 2)
    newer = step(tables, newer, "insert", ["x"], 3)
    diff = tables.diff(base, newer)
    assert (diff.removed.count, diff.added.count) == (5, 4)
    assert differences(tables, base, newer) == expected(tables, base, newer)


def test_many_deletions_come_as_a_bitmap(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people(*MANY))
    newer = step(tables, Pin("t", 1), "delete", MANY[:5_500], 1)
    file = tables.open(newer).dataset.get_fragments()[0].metadata.deletion_file
    assert file.path(0).endswith(".bin"), "this is the encoding that the test is about"
    assert differences(tables, Pin("t", 1), newer) == expected(tables, Pin("t", 1), newer)


def test_two_forks_are_compared_with_each_other_and_with_the_trunk(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people(*MANY))
    tables.fork("t", "one", Pin("t", 1))
    tables.fork("t", "two", Pin("t", 1))
    one = step(tables, Pin("t", 1, "one"), "update", MANY[:3], 1)
    two = step(tables, Pin("t", 1, "two"), "delete", MANY[2:4], 2)
    trunk = step(tables, Pin("t", 1), "insert", ["x"], 3)
    for older in (one, two, trunk):
        for newer in (one, two, trunk):
            assert differences(tables, older, newer) == expected(tables, older, newer)
            assert tables.diff(older, newer).added.count <= 6


def test_rows_are_taken_by_address_in_the_order_asked_for(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people(*MANY))
    newer = step(tables, Pin("t", 1), "delete", MANY[10:20], 1)
    newer = step(tables, newer, "insert", ["x", "y"], 2)
    newer = step(tables, newer, "update", MANY[30:33], 3)
    diff = tables.diff(Pin("t", 1), newer)
    table, rows = tables.open(newer), diff.added.rows
    known = table.read(["id"], row_id=True, row_address=True)
    names = known.column("id").to_pylist()
    for wanted in (["x", MANY[9], MANY[20], MANY[5_999]], names[::-2], [MANY[31], MANY[31]], []):
        places = [names.index(name) for name in wanted]
        addresses = known.column("_rowaddr").to_numpy()[places].astype(np.uint64)
        assert rows.take(addresses, ["id"]).column("id").to_pylist() == wanted
        expected_ids = known.column("_rowid").to_numpy()[places].tolist()
        assert rows.row_ids(addresses).tolist() == expected_ids
    with pytest.raises(StorageFailure, match="not there"):
        rows.take(np.array([12], np.uint64), ["id"])
    kept = np.array([0, 9, 20], np.uint64)
    assert rows.take(diff.in_newer(kept), ["id"]).column("id").to_pylist() == [
        MANY[0],
        MANY[9],
        MANY[20],
    ]


def test_fragments_of_a_fork_become_part_of_the_trunk(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people(*MANY[:100]))
    tables.fork("t", "f", Pin("t", 1))
    fork = step(tables, Pin("t", 1, "f"), "insert", ["x", "y"], 1)
    fork = step(tables, fork, "insert", ["z", "gone"], 2)
    fork = step(tables, fork, "delete", ["gone"], 3)
    wanted = content(tables, fork)
    diff, trunk = tables.diff(Pin("t", 1), fork), tables.open(Pin("t", 1))
    assert tables.fragment_copier.can_copy(trunk, diff.added)
    receipts = tables.fragment_copier.copy(trunk, diff.added)
    assert sum(receipt.rows for receipt in receipts) == diff.added.count == 3
    staged = tables.stage_fragments(trunk, receipts, uuid="graft")
    assert staged is not None
    newer = Pin("t", tables.land(staged))
    tables.drop_fork("t", "f")
    assert content(tables, newer) == wanted
    ids = tables.open(newer).read([], row_id=True).column("_rowid").to_pylist()
    assert len(set(ids)) == len(ids)
    tables.open(newer).dataset.validate()


@pytest.mark.parametrize("values", [[], [0], [1, 5, 9], list(range(7_000)), [0, 70_000, 2**32 - 1]])
def test_both_encodings_of_deletions_are_read(values: list[int]) -> None:
    from pyroaring import BitMap  # noqa: PLC0415

    assert decode_deletions("x.bin", BitMap(values).serialize()).tolist() == values
    sink = pa.BufferOutputStream()
    table = pa.table({"row_id": pa.array(values, pa.uint32())})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    found = decode_deletions("x.arrow", sink.getvalue().to_pybytes())
    assert found.tolist() == values
    assert found.dtype == np.uint32


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["trunk", "fork"]),
        st.sampled_from(["insert", "update", "delete", "insert", "overwrite", "index", "compact"]),
        st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=4, unique=True),
    ),
    min_size=1,
    max_size=10,
)


@given(steps=STEPS)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_two_versions_of_any_history(
    steps: list[tuple[str, str, list[str]]], tmp_path: Any
) -> None:
    from omnigraph.runtime.ids import UlidIds  # noqa: PLC0415
    from omnigraph.store.root import Root  # noqa: PLC0415
    from omnigraph.store.tables import open_tables  # noqa: PLC0415

    tables = open_tables(Root.parse(str(tmp_path / UlidIds().new())), durable=False)
    tables.create("t", PEOPLE, rows=people("a", "b", "c"))
    tables.fork("t", "fork", Pin("t", 1))
    heads = {"trunk": Pin("t", 1), "fork": Pin("t", 1, "fork")}
    seen = list(heads.values())
    for number, (where, what, keys) in enumerate(steps, 1):
        heads[where] = step(tables, heads[where], what, keys, number)
        seen.append(heads[where])
    for older, newer in [*pairwise(seen), (seen[0], seen[-1]), (heads["fork"], heads["trunk"])]:
        assert differences(tables, older, newer) == expected(tables, older, newer)
