"""The table gateway, on local disk and S3: tables are made, and changes staged, landed, undone."""

import pickle

import pyarrow as pa
import pytest

from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.root import Root
from omnigraph.store.tables import Btree, IndexSpec, Pin, Staged, StagedKind, Tables, open_tables
from tests.conformance.racing import PEOPLE, people
from tests.conformance.table_steps import addresses, ids, insert, kind_of, made, rewritten

# ---------------------------------------------------------------- creating and opening


def test_a_created_table_is_empty_at_version_one(tables: Tables) -> None:
    assert not tables.exists("nodes/a")
    assert tables.create("nodes/a", PEOPLE, metadata={"stamp": "4"}) == 1
    assert tables.exists("nodes/a")
    assert tables.head("nodes/a") == 1
    table = tables.open(Pin("nodes/a", 1))
    assert table.row_count == 0
    assert table.schema.names == ["id", "v"]
    assert table.schema.metadata == {b"stamp": b"4"}


def test_first_rows_come_with_the_creation(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b"))
    assert tables.head("t") == 1
    assert ids(tables, Pin("t", 1)) == ["a", "b"]


def test_creating_twice_is_refused_and_changes_nothing(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    with pytest.raises(StorageFailure) as caught:
        tables.create("t", PEOPLE, rows=people("b"))
    assert kind_of(caught) is FailureKind.EXISTS
    assert tables.head("t") == 1
    assert ids(tables, Pin("t", 1)) == ["a"]


@pytest.mark.parametrize(
    "pin", [Pin("no", 1), Pin("t", 9), Pin("t", 1, "no")], ids=["table", "version", "fork"]
)
def test_what_is_missing_is_not_found(tables: Tables, pin: Pin) -> None:
    tables.create("t", PEOPLE)
    with pytest.raises(StorageFailure) as caught:
        tables.open(pin)
    assert kind_of(caught) is FailureKind.NOT_FOUND


def test_an_opened_version_never_changes(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    first = tables.open(Pin("t", 1))
    insert(tables, first.pin, "b")
    assert first.read(["id"])["id"].to_pylist() == ["a"]
    assert tables.open(Pin("t", 1)).row_count == 1


# ---------------------------------------------------------------- staging and landing


def test_a_staged_change_is_invisible_until_it_lands(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    staged = made(tables.stage(tables.open(Pin("t", 1)), inserts=people("b"), uuid="u"))
    assert tables.head("t") == 1
    assert tables.land(staged) == 2
    assert ids(tables, Pin("t", 2)) == ["a", "b"]
    assert tables.transaction_uuid(Pin("t", 2)) == "u"


def test_one_landing_inserts_updates_and_deletes(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b", "c", "d"))
    pin = insert(tables, Pin("t", 1), "e", "f", uuid="more")
    table = tables.open(pin)
    before = {row["id"]: row["_rowid"] for row in table.read(row_id=True).to_pylist()}
    staged = made(
        tables.stage(
            table,
            inserts=people("new"),
            updates=rewritten(table, "b", "e", v=7),
            deletes=addresses(table, "c", "f"),
            uuid="mixed",
            properties={"why": "test"},
        )
    )
    assert staged.kind is StagedKind.UPDATE
    assert (staged.rows_inserted, staged.rows_updated, staged.rows_deleted) == (1, 2, 2)
    assert tables.land(staged) == 3
    after = tables.open(Pin("t", 3))
    rows = {row["id"]: row for row in after.read(row_id=True, versions=True).to_pylist()}
    assert sorted(rows) == ["a", "b", "d", "e", "new"]
    assert staged.rows_after == after.row_count == 5
    assert {key: rows[key]["v"] for key in rows} == {"a": 0, "b": 7, "d": 0, "e": 7, "new": 0}
    assert all(rows[key]["_rowid"] == before[key] for key in ("a", "b", "d", "e"))
    assert rows["new"]["_rowid"] not in before.values()
    created = {key: row["_row_created_at_version"] for key, row in rows.items()}
    updated = {key: row["_row_last_updated_at_version"] for key, row in rows.items()}
    assert created == {"a": 1, "b": 1, "d": 1, "e": 2, "new": 3}
    assert updated == {"a": 1, "b": 3, "d": 1, "e": 3, "new": 3}


def test_everything_can_be_deleted_and_filled_again(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b"))
    table = tables.open(Pin("t", 1))
    staged = made(tables.stage(table, deletes=addresses(table, "a", "b"), uuid="d"))
    assert (tables.land(staged), staged.rows_after) == (2, 0)
    empty = tables.open(Pin("t", 2))
    assert empty.row_count == 0
    again = made(tables.stage(empty, inserts=people("c"), uuid="i"))
    assert again.kind is StagedKind.OVERWRITE
    tables.land(again)
    read = tables.open(Pin("t", 3)).read(row_id=True)
    assert read["id"].to_pylist() == ["c"]
    assert read["_rowid"].to_pylist()[0] > 1, "identities are never given out twice"


def test_nothing_to_change_stages_nothing(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    table = tables.open(Pin("t", 1))
    nothing = addresses(table)
    assert tables.stage(table, uuid="u") is None
    assert tables.stage(table, inserts=people(), deletes=nothing, uuid="u") is None
    assert tables.stage(table, updates=rewritten(table, v=1), uuid="u") is None
    assert tables.head("t") == 1


def test_contradictory_changes_are_refused(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b"))
    table = tables.open(Pin("t", 1))
    twice = {"updates": rewritten(table, "a", v=1), "deletes": addresses(table, "a")}
    with pytest.raises(StorageFailure) as caught:
        tables.stage(table, **twice, uuid="u")
    assert kind_of(caught) is FailureKind.INVALID
    with pytest.raises(StorageFailure) as caught:
        tables.stage(table, inserts=people("c"), uuid="no/slash")
    assert kind_of(caught) is FailureKind.INVALID


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"id": [1], "v": [1]}),
        pa.table({"id": ["a"], "v": [1], "x": [1]}),
        pa.table({"id": pa.array([None], pa.string()), "v": [1]}),
    ],
    ids=["type", "column", "null"],
)
def test_rows_that_do_not_fit_are_invalid(tables: Tables, rows: pa.Table) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    with pytest.raises(StorageFailure) as caught:
        tables.stage(tables.open(Pin("t", 1)), inserts=rows, uuid="u")
    assert kind_of(caught) is FailureKind.INVALID
    assert caught.value.effect_free


def test_a_stale_change_conflicts_and_changes_nothing(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    table = tables.open(Pin("t", 1))
    late = [
        made(tables.stage(table, inserts=people("late"), uuid="late-insert")),
        made(tables.stage(table, deletes=addresses(table, "a"), uuid="late-delete")),
        tables.stage_overwrite(table, people("late"), uuid="late-overwrite"),
        made(tables.stage_indexes(table, [IndexSpec("id", Btree(), "id")], uuid="late-index")),
    ]
    insert(tables, table.pin, "b", uuid="first")
    for staged in late:
        with pytest.raises(StorageFailure) as caught:
            tables.land(staged)
        assert kind_of(caught) is FailureKind.CONFLICT
    assert tables.head("t") == 2
    assert ids(tables, Pin("t", 2)) == ["a", "b"]


def test_an_index_between_makes_a_change_stale(tables: Tables) -> None:
    """Lance alone would rebase the change and land it one later."""
    tables.create("t", PEOPLE, rows=people("a"))
    table = tables.open(Pin("t", 1))
    late = made(tables.stage(table, inserts=people("b"), uuid="late"))
    tables.land(made(tables.stage_indexes(table, [IndexSpec("id", Btree(), "id")], uuid="index")))
    with pytest.raises(StorageFailure) as caught:
        tables.land(late)
    assert kind_of(caught) is FailureKind.CONFLICT
    assert tables.head("t") == 2


def test_landing_again_is_recognised(tables: Tables) -> None:
    tables.create("t", PEOPLE)
    first = made(tables.stage(tables.open(Pin("t", 1)), inserts=people("a"), uuid="one"))
    assert tables.land(first) == tables.land(first) == 2
    second = made(tables.stage(tables.open(Pin("t", 2)), inserts=people("b"), uuid="two"))
    assert tables.land(second) == tables.land(second) == 3
    assert tables.land(first) == 2, "also when others have landed since"
    assert tables.head("t") == 3
    assert ids(tables, Pin("t", 3)) == ["a", "b"]


def test_a_staged_change_travels(tables: Tables, root: Root) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b"))
    table = tables.open(Pin("t", 1))
    staged = made(
        tables.stage(
            table,
            inserts=people("c"),
            updates=rewritten(table, "a", v=5),
            deletes=addresses(table, "b"),
            uuid="u",
        )
    )
    copy: Staged = pickle.loads(pickle.dumps(staged))
    assert open_tables(root).land(copy) == 2
    assert sorted(ids(tables, Pin("t", 2))) == ["a", "c"]


def test_workers_write_and_the_driver_stages(tables: Tables, root: Root) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b"))
    worker = open_tables(pickle.loads(pickle.dumps(root)))
    table = worker.open(Pin("t", 1))
    receipts = worker.write(table, people("c"))
    found = table.locate(["a"])
    receipts += worker.write(table, people("a", v=9), row_ids=found["_rowid"].to_pylist())
    receipts = pickle.loads(pickle.dumps(receipts))
    staged = made(
        tables.stage_fragments(
            tables.open(Pin("t", 1)), receipts, deletes=found.select(["_rowaddr"]), uuid="u"
        )
    )
    assert (staged.rows_inserted, staged.rows_updated, staged.rows_deleted) == (1, 1, 0)
    tables.land(staged)
    rows = tables.open(Pin("t", 2)).read(row_id=True).to_pylist()
    assert {row["id"]: (row["v"], row["_rowid"]) for row in rows} == {
        "a": (9, 0),
        "b": (0, 1),
        "c": (0, 2),
    }


def test_an_overwrite_replaces_rows_and_schema(tables: Tables) -> None:
    tables.create("t", PEOPLE, metadata={"k": "v"}, rows=people("a", "b"))
    staged = tables.stage_overwrite(tables.open(Pin("t", 1)), people("c"), uuid="same")
    assert (staged.rows_after, staged.rows_deleted) == (1, 2)
    assert tables.land(staged) == 2
    assert ids(tables, Pin("t", 2)) == ["c"]
    assert tables.open(Pin("t", 2)).schema.metadata == {b"k": b"v"}
    wider = PEOPLE.append(pa.field("w", pa.float64()))
    rows = people("d").append_column("w", pa.array([1.5]))
    table = tables.open(Pin("t", 2))
    tables.land(tables.stage_overwrite(table, rows, uuid="wider", schema=wider))
    assert tables.open(Pin("t", 3)).read().to_pylist() == [{"id": "d", "v": 0, "w": 1.5}]
    table = tables.open(Pin("t", 3))
    tables.land(tables.stage_overwrite(table, wider.empty_table(), uuid="empty"))
    assert tables.open(Pin("t", 4)).row_count == 0
    assert tables.open(Pin("t", 4)).schema.names == ["id", "v", "w"]


# ---------------------------------------------------------------- restore


def test_restore_brings_an_old_version_back_as_a_new_one(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    insert(tables, Pin("t", 1), "b")
    assert tables.restore("t", None, to_version=1, expected_head=2, uuid="back") == 3
    assert ids(tables, Pin("t", 3)) == ["a"]
    assert tables.transaction_uuid(Pin("t", 3)) == "back"
    assert tables.restore("t", None, to_version=1, expected_head=2, uuid="back") == 3
    assert tables.head("t") == 3


def test_restore_never_covers_a_commit(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    insert(tables, Pin("t", 1), "b")
    insert(tables, Pin("t", 2), "c")
    with pytest.raises(StorageFailure) as caught:
        tables.restore("t", None, to_version=1, expected_head=2, uuid="back")
    assert kind_of(caught) is FailureKind.CONFLICT
    assert tables.head("t") == 3
    assert ids(tables, Pin("t", 3)) == ["a", "b", "c"]


# ---------------------------------------------------------------- cost


def test_calls_of_a_write_are_few_and_known(tables: Tables, root: Root) -> None:
    """The price list. A change here is a change of cost: look twice."""
    tables.create("t", PEOPLE, rows=people("a", "b"))
    table = tables.open(Pin("t", 1))
    updates = rewritten(table, "a", v=1)
    with telemetry.counting() as counts:
        staged = tables.stage(table, inserts=people("c"), updates=updates, uuid="u")
        tables.land(made(staged))
    calls = {name: n for name, n in counts.snapshot().items() if name.startswith("table.")}
    assert calls.pop("table.sync", 0) == (3 if root.is_local else 0)
    assert calls == {
        "table.commit": 1,
        "table.erase": 1,
        "table.place": 1,
        "table.write": 2,
    }
