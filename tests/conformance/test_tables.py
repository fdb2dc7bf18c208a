"""One suite for the table gateway: local disk and S3."""

import pickle
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.runtime import failpoints, telemetry
from omnigraph.runtime.failpoints import Fault, LostReply, Refuse
from omnigraph.store.calls import StorageCall
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.root import Root
from omnigraph.store.tables import (
    Btree,
    Fts,
    Metric,
    Pin,
    Staged,
    StagedKind,
    Table,
    Tables,
    Vector,
    open_tables,
)
from tests.conformance.racing import PEOPLE, outcome, people

DOCS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("e", pa.list_(pa.float32(), 4)),
    ]
)


@pytest.fixture
def tables(root: Root) -> Tables:
    return open_tables(root, durable=True)


def made(staged: Staged | None) -> Staged:
    assert staged is not None
    return staged


def insert(tables: Tables, pin: Pin, *ids: str, uuid: str = "u", v: int = 0) -> Pin:
    staged = made(tables.stage(tables.open(pin), inserts=people(*ids, v=v), uuid=uuid))
    return Pin(pin.path, tables.land(staged), pin.branch)


def ids(tables: Tables, pin: Pin) -> list[str]:
    found: list[str] = tables.open(pin).read(["id"])["id"].to_pylist()
    return found


def rewritten(table: Table, *keys: str, v: int) -> pa.Table:
    found = table.locate(list(keys))
    return found.add_column(1, "v", pa.array([v] * found.num_rows, pa.int64()))


def addresses(table: Table, *keys: str) -> pa.Table:
    return table.locate(list(keys)).select(["_rowaddr"])


def kind_of(failing: Any) -> FailureKind:
    kind: FailureKind = failing.value.kind
    return kind


# ---------------------------------------------------------------- creating and opening


def test_a_created_table_is_empty_at_version_one(tables: Tables) -> None:
    assert not tables.exists("nodes/a")
    assert tables.create("nodes/a", PEOPLE, metadata={"stamp": "4"}) == 1
    assert tables.exists("nodes/a")
    assert tables.head("nodes/a") == 1
    table = tables.open(Pin("nodes/a", 1))
    assert table.row_count == 0
    assert table.schema.names == ["id", "v"]
    assert tables.read_schema_metadata(table.pin) == {"stamp": "4"}


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


def test_versions_are_listed_with_their_times(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    insert(tables, Pin("t", 1), "b")
    found = tables.versions("t")
    assert [info.version for info in found] == [1, 2]
    assert 1_600_000_000_000_000 < found[0].timestamp_us <= found[1].timestamp_us


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
        made(tables.stage_index(table, "id", Btree(), name="id", uuid="late-index")),
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
    tables.land(made(tables.stage_index(table, "id", Btree(), name="id", uuid="index")))
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
    assert tables.read_schema_metadata(Pin("t", 2)) == {"k": "v"}
    wider = PEOPLE.append(pa.field("w", pa.float64()))
    rows = people("d").append_column("w", pa.array([1.5]))
    table = tables.open(Pin("t", 2))
    tables.land(tables.stage_overwrite(table, rows, uuid="wider", schema=wider))
    assert tables.open(Pin("t", 3)).read().to_pylist() == [{"id": "d", "v": 0, "w": 1.5}]
    table = tables.open(Pin("t", 3))
    tables.land(tables.stage_overwrite(table, wider.empty_table(), uuid="empty"))
    assert tables.open(Pin("t", 4)).row_count == 0
    assert tables.open(Pin("t", 4)).schema.names == ["id", "v", "w"]


# ---------------------------------------------------------------- lost replies and refusals


@pytest.mark.parametrize("at", [StorageCall.TABLE_COMMIT, StorageCall.TABLE_PLACE])
def test_a_lost_reply_of_a_landing_is_recognised(tables: Tables, at: StorageCall) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    staged = made(tables.stage(tables.open(Pin("t", 1)), inserts=people("b"), uuid="u"))
    with failpoints.armed({at: LostReply()}):
        assert tables.land(staged) == 2
    assert ids(tables, Pin("t", 2)) == ["a", "b"]


@pytest.mark.parametrize("at", [StorageCall.TABLE_COMMIT, StorageCall.TABLE_PLACE])
def test_a_refused_landing_can_be_tried_again(tables: Tables, at: StorageCall) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    staged = made(tables.stage(tables.open(Pin("t", 1)), inserts=people("b"), uuid="u"))
    with failpoints.armed({at: Refuse()}), pytest.raises(StorageFailure) as caught:
        tables.land(staged)
    assert not caught.value.effect_free
    assert tables.head("t") == 1
    assert tables.land(staged) == 2


@pytest.mark.parametrize("fault", [Refuse(), LostReply()], ids=["refuse", "lost reply"])
def test_the_nth_call_may_fail(tables: Tables, fault: Fault) -> None:
    """Whatever call of a write fails: the table is as before or has the change, once."""
    tables.create("t", PEOPLE, rows=people("a", "b"))
    pin = Pin("t", 1)
    for nth in range(1, 100):
        failed = False
        with failpoints.armed(dict.fromkeys(StorageCall, fault), nth=nth) as armed:
            try:
                table = tables.open(pin)
                updates = rewritten(table, "a", v=nth)
                staged = tables.stage(
                    table, inserts=people(f"n{nth}"), updates=updates, uuid=f"u{nth}"
                )
                tables.land(made(staged))
            except StorageFailure:
                failed = True
        head = tables.head("t")
        assert head in {pin.version, pin.version + 1}
        assert failed or head == pin.version + 1
        rows = {row["id"]: row["v"] for row in tables.open(Pin("t", head)).read().to_pylist()}
        if head > pin.version:
            assert rows["a"] == nth
            assert rows[f"n{nth}"] == 0
        assert tables.open(Pin("t", head)).row_count == len(rows)
        pin = Pin("t", head)
        if armed.fired is None:
            break
    else:
        pytest.fail("a write never ends")
    assert nth > 5


def test_a_lost_reply_of_a_creation_is_recognised(tables: Tables) -> None:
    with failpoints.armed({StorageCall.TABLE_CREATE: LostReply()}):
        assert tables.create("t", PEOPLE, rows=people("a")) == 1
    assert ids(tables, Pin("t", 1)) == ["a"]


def test_a_refused_creation_can_be_tried_again(tables: Tables) -> None:
    with failpoints.armed({StorageCall.TABLE_CREATE: Refuse()}), pytest.raises(StorageFailure):
        tables.create("t", PEOPLE)
    assert not tables.exists("t")
    assert tables.create("t", PEOPLE) == 1


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


# ---------------------------------------------------------------- merging by key


def test_merge_inserts_and_replaces(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people("a", "b"))
    assert tables.merge_rows("m", None, Pin("m", 1), "id", people("b", "c", v=3)) == 2
    rows = tables.open(Pin("m", 2)).read().to_pylist()
    assert {row["id"]: row["v"] for row in rows} == {"a": 0, "b": 3, "c": 3}


@pytest.mark.parametrize("key", ["a", "new"])
def test_a_stale_merge_of_the_same_key_conflicts(tables: Tables, key: str) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people("a"))
    tables.merge_rows("m", None, Pin("m", 1), "id", people(key, v=1))
    with pytest.raises(StorageFailure) as caught:
        tables.merge_rows("m", None, Pin("m", 1), "id", people(key, v=2))
    assert kind_of(caught) is FailureKind.CONFLICT
    assert tables.head("m") == 2


def test_a_stale_merge_of_another_key_lands(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people("a"))
    tables.merge_rows("m", None, Pin("m", 1), "id", people("b"))
    assert tables.merge_rows("m", None, Pin("m", 1), "id", people("c")) == 3
    assert sorted(ids(tables, Pin("m", 3))) == ["a", "b", "c"]


def test_an_index_on_the_key_does_not_weaken_the_merge(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people("a"))
    staged = made(tables.stage_index(tables.open(Pin("m", 1)), "id", Btree(), name="i", uuid="i"))
    base = Pin("m", tables.land(staged))
    tables.merge_rows("m", None, base, "id", people("new", v=1))
    with pytest.raises(StorageFailure):
        tables.merge_rows("m", None, base, "id", people("new", v=2))
    assert ids(tables, Pin("m", 3)) == ["a", "new"]


def test_a_merge_survives_compaction_of_its_base(tables: Tables) -> None:
    """Or is refused; either way no row is lost or doubled."""
    tables.create("m", PEOPLE, primary_key="id", rows=people("a"))
    base = Pin("m", tables.merge_rows("m", None, Pin("m", 1), "id", people("b")))
    assert tables.compact("m", target_rows=1_000) is not None
    answer = outcome(lambda: tables.merge_rows("m", None, base, "id", people("c")))
    assert answer in {"5", "conflict"}
    expected = ["a", "b"] if answer == "conflict" else ["a", "b", "c"]
    assert sorted(ids(tables, Pin("m", tables.head("m")))) == expected


def test_merging_no_rows_is_refused(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id")
    with pytest.raises(StorageFailure) as caught:
        tables.merge_rows("m", None, Pin("m", 1), "id", people())
    assert kind_of(caught) is FailureKind.INVALID
    assert tables.head("m") == 1


def test_the_stamp_is_kept_with_the_schema(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", metadata={"a": "1"})
    version = tables.update_schema_metadata("m", None, {"stamp": "4"})
    assert version == tables.head("m") == 2
    assert tables.read_schema_metadata(Pin("m", 2)) == {"a": "1", "stamp": "4"}
    assert tables.read_schema_metadata(Pin("m", 1)) == {"a": "1"}


# ---------------------------------------------------------------- forks


def test_a_fork_goes_its_own_way(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    pin = insert(tables, Pin("t", 1), "b")
    tables.fork("t", "agent/42", pin)
    assert tables.head("t", "agent/42") == 2
    side = insert(tables, Pin("t", 2, "agent/42"), "side")
    main = insert(tables, pin, "main")
    assert ids(tables, side) == ["a", "b", "side"]
    assert ids(tables, main) == ["a", "b", "main"]
    tables.fork("t", "deeper", side)
    assert ids(tables, insert(tables, Pin("t", 3, "deeper"), "x")) == ["a", "b", "side", "x"]
    forks = tables.forks("t")
    assert sorted(forks) == ["agent/42", "deeper"]
    assert (forks["agent/42"].parent_branch, forks["agent/42"].parent_version) == (None, 2)
    assert (forks["deeper"].parent_branch, forks["deeper"].parent_version) == ("agent/42", 3)


def test_a_fork_updates_rows_of_its_parent(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b"))
    tables.fork("t", "f", Pin("t", 1))
    table = tables.open(Pin("t", 1, "f"))
    staged = tables.stage(
        table, updates=rewritten(table, "a", v=1), deletes=addresses(table, "b"), uuid="u"
    )
    assert tables.land(made(staged)) == 2
    assert tables.open(Pin("t", 2, "f")).read().to_pylist() == [{"id": "a", "v": 1}]
    assert tables.open(Pin("t", 1)).row_count == 2


def test_a_taken_fork_name_is_refused(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    pin = insert(tables, Pin("t", 1), "b")
    tables.fork("t", "f", pin)
    for at in (pin, Pin("t", 1)):
        with pytest.raises(StorageFailure) as caught:
            tables.fork("t", "f", at)
        assert kind_of(caught) is FailureKind.EXISTS


def test_a_change_made_for_a_dropped_fork_does_not_land_on_its_successor(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    tables.fork("t", "f", Pin("t", 1))
    before = tables.forks("t")["f"].identifier
    pin = insert(tables, Pin("t", 1, "f"), "old", uuid="old")
    late = made(tables.stage(tables.open(pin), inserts=people("late"), uuid="late"))
    tables.drop_fork("t", "f")
    tables.drop_fork("t", "f")
    assert tables.forks("t") == {}
    tables.fork("t", "f", Pin("t", 1))
    assert tables.forks("t")["f"].identifier != before
    insert(tables, Pin("t", 1, "f"), "new", uuid="new")
    with pytest.raises(StorageFailure) as caught:
        tables.land(late)
    assert kind_of(caught) is FailureKind.CONFLICT
    assert ids(tables, Pin("t", 2, "f")) == ["a", "new"]


# ---------------------------------------------------------------- reading


def test_scan_streams_what_read_returns(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people(*(f"k{n:03}" for n in range(300))))
    table = tables.open(Pin("t", 1))
    reader = table.scan(["id"], row_id=True, row_address=True, versions=True, batch_rows=100)
    batches = list(reader)
    assert max(batch.num_rows for batch in batches) <= 100
    streamed = pa.Table.from_batches(batches)
    assert streamed.equals(table.read(["id"], row_id=True, row_address=True, versions=True))
    assert table.read(["id"], filter="id = 'k007'")["id"].to_pylist() == ["k007"]


def test_a_bad_filter_is_invalid(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    with pytest.raises(StorageFailure) as caught:
        tables.open(Pin("t", 1)).read(filter="nope = 1")
    assert kind_of(caught) is FailureKind.INVALID


def test_locate_finds_few_and_many(tables: Tables) -> None:
    names = [f"it's {n}" for n in range(1_500)]
    tables.create("t", PEOPLE, rows=people(*names))
    table = tables.open(Pin("t", 1))
    few = table.locate([names[3], "missing", names[1], names[3]])
    assert few["id"].to_pylist() == [names[1], names[3]]
    assert few.column_names == ["id", "_rowid", "_rowaddr"]
    assert few["_rowid"].to_pylist() == [1, 3]
    many = table.locate(pa.array([*names[:1_200], "missing"]))
    assert many["id"].to_pylist() == names[:1_200]
    nothing = table.locate([])
    assert (nothing.num_rows, nothing.column_names) == (0, few.column_names)


def test_take_keeps_the_order_and_misses_nothing(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b", "c"))
    table = tables.open(Pin("t", 1))
    assert table.take([2, 0], ["id"])["id"].to_pylist() == ["c", "a"]
    assert table.take([], ["id"]).num_rows == 0
    with pytest.raises(StorageFailure) as caught:
        table.take([0, 99], ["id"])
    assert kind_of(caught) is FailureKind.NOT_FOUND


def test_only_new_fragments_need_reading(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    known = tables.open(Pin("t", 1)).fragment_ids()
    table = tables.open(insert(tables, Pin("t", 1), "b"))
    assert table.scan_new_fragments(known, ["id"])["id"].to_pylist() == ["b"]
    assert table.scan_new_fragments(table.fragment_ids(), ["id"]).num_rows == 0


# ---------------------------------------------------------------- indexes and compaction


def documents(count: int) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array([float(n % 7) for n in range(4 * count)], pa.float32()), 4
    )
    texts = [f"word{n % 5} common" for n in range(count)]
    return pa.table([[f"d{n}" for n in range(count)], texts, vectors], schema=DOCS)


@pytest.mark.parametrize(
    ("column", "kind"),
    [("id", Btree()), ("text", Fts()), ("e", Vector(Metric.COSINE, 4))],
    ids=["btree", "fts", "vector"],
)
def test_an_index_is_staged_and_landed(
    tables: Tables, column: str, kind: Btree | Fts | Vector
) -> None:
    tables.create("t", DOCS, rows=documents(20))
    for expected in (1, 2):
        table = tables.open(Pin("t", expected))
        uuid = f"i{expected}"
        staged = made(tables.stage_index(table, column, kind, name="x", uuid=uuid))
        assert tables.land(pickle.loads(pickle.dumps(staged))) == expected + 1
        assert tables.transaction_uuid(Pin("t", expected + 1)) == uuid
    (info,) = tables.open(Pin("t", 3)).indexes()
    assert (info.name, info.columns, info.fragments) == ("x", (column,), frozenset({0}))
    table = tables.open(Pin("t", 3))
    assert table.locate(["d7"]).num_rows == 1
    if isinstance(kind, Fts):
        found = table.dataset.to_table(full_text_query="word3", columns=["id", "_score"])
        assert found.num_rows == 4


def test_a_table_without_rows_needs_no_index(tables: Tables) -> None:
    tables.create("t", DOCS)
    table = tables.open(Pin("t", 1))
    assert tables.stage_index(table, "id", Btree(), name="x", uuid="u") is None


def test_an_index_stays_right_through_changes_and_compaction(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b", "c"))
    table = tables.open(Pin("t", 1))
    tables.land(made(tables.stage_index(table, "id", Btree(), name="id", uuid="i")))
    table = tables.open(Pin("t", 2))
    staged = tables.stage(
        table,
        inserts=people("d"),
        updates=rewritten(table, "a", v=1),
        deletes=addresses(table, "b"),
        uuid="u",
    )
    tables.land(made(staged))
    for version in (3, 5):
        table = tables.open(Pin("t", version))
        assert table.locate(["a", "b", "c", "d"]).num_rows == 3
        assert table.read(filter="id = 'a'")["v"].to_pylist() == [1]
        if version == 3:
            done = tables.compact("t", target_rows=1_000, expected=3)
            assert done is not None
            assert done.version == 5
    assert tables.transaction_uuid(Pin("t", 5)) is not None


def test_compaction_keeps_identities_and_row_versions(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    pin = insert(tables, insert(tables, Pin("t", 1), "b"), "c")
    before = tables.open(pin).read(row_id=True, versions=True)
    done = tables.compact("t", target_rows=1_000)
    assert done is not None
    after = tables.open(Pin("t", done.version)).read(row_id=True, versions=True)
    assert after.equals(before)
    assert tables.compact("t", target_rows=1_000) is None
    late = made(tables.stage(tables.open(pin), inserts=people("late"), uuid="late"))
    with pytest.raises(StorageFailure) as caught:
        tables.land(late)
    assert kind_of(caught) is FailureKind.CONFLICT


def test_compaction_of_an_unexpected_head_is_refused(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    insert(tables, Pin("t", 1), "b")
    with pytest.raises(StorageFailure) as caught:
        tables.compact("t", target_rows=1_000, expected=1)
    assert kind_of(caught) is FailureKind.CONFLICT
    assert tables.head("t") == 2


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
