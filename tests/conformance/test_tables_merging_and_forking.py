"""The table gateway, on local disk and S3: writing beside others, by key or on a fork."""

import pytest

from omnigraph.runtime import telemetry
from omnigraph.store import tuning
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Btree, IndexSpec, Pin, Tables
from tests.conformance.racing import PEOPLE, people
from tests.conformance.table_steps import (
    addresses,
    compacted,
    ids,
    insert,
    kind_of,
    made,
    rewritten,
)

# ---------------------------------------------------------------- merging by key


def test_merge_inserts_and_replaces(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people("a", "b"))
    assert tables.merge_rows(Pin("m", 1), "id", people("b", "c", v=3)) == 2
    rows = tables.open(Pin("m", 2)).read().to_pylist()
    assert {row["id"]: row["v"] for row in rows} == {"a": 0, "b": 3, "c": 3}


@pytest.mark.parametrize("key", ["a", "new"])
def test_a_stale_merge_of_the_same_key_conflicts(tables: Tables, key: str) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people("a"))
    tables.merge_rows(Pin("m", 1), "id", people(key, v=1))
    with pytest.raises(StorageFailure) as caught:
        tables.merge_rows(Pin("m", 1), "id", people(key, v=2))
    assert kind_of(caught) is FailureKind.CONFLICT
    assert tables.head("m") == 2


def test_a_stale_merge_of_another_key_conflicts_too(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people("a"))
    tables.merge_rows(Pin("m", 1), "id", people("b"))
    with pytest.raises(StorageFailure) as caught:
        tables.merge_rows(Pin("m", 1), "id", people("c"))
    assert kind_of(caught) is FailureKind.CONFLICT
    assert sorted(ids(tables, Pin("m", tables.head("m")))) == ["a", "b"]


def test_a_merge_looks_for_the_keys_that_may_be_there_alone(tables: Tables) -> None:
    many = [f"k{number:03}" for number in range(100)]
    tables.create("m", PEOPLE, primary_key="id", rows=people(*many))
    base = Pin("m", tables.merge_rows(Pin("m", 1), "id", people("a", "b"), lookup=[]))
    with telemetry.counting() as counts:
        rows = people("a", "c", v=7)
        base = Pin("m", tables.merge_rows(base, "id", rows, lookup=["a"]))
    assert counts.snapshot()["table.scan"] == 1, "the small fragment is read, the large one is not"
    found = tables.open(base).read().to_pylist()
    assert {row["id"]: row["v"] for row in found} == dict.fromkeys([*many, "b"], 0) | {
        "a": 7,
        "c": 7,
    }
    assert len(found) == len(many) + 3


def test_merging_row_by_row_leaves_few_fragments_and_keeps_identities(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people("head"))
    base, seen = Pin("m", 1), []
    born: dict[str, tuple[int, int]] = {}
    for number in range(300):
        rows = people("head", f"k{number}", v=number)
        base = Pin("m", tables.merge_rows(base, "id", rows, lookup=["head"]))
        table = tables.open(base)
        seen.append(len(table.fragment_ids()))
        if number % 60 == 59:
            found = table.read(row_id=True, versions=True).to_pylist()
            now = {
                row["id"]: (row["_rowid"], row["_row_created_at_version"])
                for row in found
                if row["id"] != "head"
            }
            assert len(now) + 1 == len(found) == number + 2
            assert {key: now[key] for key in born} == born
            born = now
    assert max(seen) <= 2 * tuning.active.absorbed_fanout
    assert all(version == int(key[1:]) + 2 for key, (_, version) in born.items())


def test_a_foreign_merge_and_ours_do_not_both_land(tables: Tables) -> None:
    """Lance's own row-level check refuses theirs after ours; we refuse ours after theirs."""
    tables.create("m", PEOPLE, primary_key="id", rows=people("a"))
    theirs = tables._gateway.open("m", 1)

    def foreign(key: str) -> None:
        builder = theirs.merge_insert("id").when_matched_update_all()
        builder = builder.when_not_matched_insert_all().use_index(False)
        builder.conflict_retries(0).execute(people(key, v=1))

    tables.merge_rows(Pin("m", 1), "id", people("a", "new", v=2))
    for key in ("a", "new", "other"):
        with pytest.raises(OSError, match="concurrent writers"):
            foreign(key)
    theirs = tables._gateway.open("m", 2)
    foreign("new")
    with pytest.raises(StorageFailure) as caught:
        tables.merge_rows(Pin("m", 2), "id", people("new", v=3))
    assert kind_of(caught) is FailureKind.CONFLICT
    found = tables.open(Pin("m", tables.head("m"))).read().to_pylist()
    assert {row["id"]: row["v"] for row in found} == {"a": 2, "new": 1}


def test_an_index_on_the_key_does_not_weaken_the_merge(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people("a"))
    staged = made(
        tables.stage_indexes(tables.open(Pin("m", 1)), [IndexSpec("id", Btree(), "i")], uuid="i")
    )
    base = Pin("m", tables.land(staged))
    tables.merge_rows(base, "id", people("new", v=1))
    with pytest.raises(StorageFailure):
        tables.merge_rows(base, "id", people("new", v=2))
    assert ids(tables, Pin("m", 3)) == ["a", "new"]


def test_a_merge_whose_base_was_compacted_is_refused(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", rows=people(*(f"k{n:02}" for n in range(40))))
    base = Pin("m", tables.merge_rows(Pin("m", 1), "id", people("b")))
    head = compacted(tables, "m")
    assert head == 4
    with pytest.raises(StorageFailure) as caught:
        tables.merge_rows(base, "id", people("c"))
    assert kind_of(caught) is FailureKind.CONFLICT
    assert tables.merge_rows(Pin("m", head), "id", people("b", "c", v=1)) == 5
    assert tables.open(Pin("m", 5)).row_count == 42


def test_merging_no_rows_is_refused(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id")
    with pytest.raises(StorageFailure) as caught:
        tables.merge_rows(Pin("m", 1), "id", people())
    assert kind_of(caught) is FailureKind.INVALID
    assert tables.head("m") == 1


def test_the_stamp_is_kept_with_the_schema(tables: Tables) -> None:
    tables.create("m", PEOPLE, primary_key="id", metadata={"a": "1"})
    version = tables.stamp(Pin("m", 1), {"stamp": "4"})
    assert version == tables.head("m") == 2
    assert tables.open(Pin("m", 2)).schema.metadata == {b"a": b"1", b"stamp": b"4"}
    assert tables.open(Pin("m", 1)).schema.metadata == {b"a": b"1"}


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


def test_a_fork_that_another_one_was_made_from_is_not_dropped(tables: Tables) -> None:
    """Whoever deletes a branch relies on it: the other one stands on its files."""
    tables.create("t", PEOPLE, rows=people("a"))
    tables.fork("t", "f", Pin("t", 1))
    pin = insert(tables, Pin("t", 1, "f"), "b")
    tables.fork("t", "deeper", pin)
    with pytest.raises(StorageFailure):
        tables.drop_fork("t", "f")
    assert sorted(tables.forks("t")) == ["deeper", "f"]
    assert ids(tables, insert(tables, Pin("t", 2, "deeper"), "c")) == ["a", "b", "c"]
