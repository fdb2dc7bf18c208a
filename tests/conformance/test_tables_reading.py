"""The table gateway, on local disk and S3: reading, and what indexes and compaction leave of it."""

import pickle

import pyarrow as pa
import pytest

from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import (
    Btree,
    Fts,
    IndexSpec,
    Pin,
    Tables,
    Vector,
)
from omnigraph.types import Metric
from tests.conformance.racing import PEOPLE, people
from tests.conformance.table_steps import addresses, compacted, insert, kind_of, made, rewritten

DOCS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("e", pa.list_(pa.float32(), 4)),
    ]
)


def documents(count: int) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array([float(n % 7) for n in range(4 * count)], pa.float32()), 4
    )
    texts = [f"word{n % 5} common" for n in range(count)]
    return pa.table([[f"d{n}" for n in range(count)], texts, vectors], schema=DOCS)


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


@pytest.mark.parametrize(
    ("condition", "kind"),
    # Columns come from the schema that the table was made for, so one that is missing is damage.
    [("v >", FailureKind.INVALID), ("nope = 1", FailureKind.CORRUPT)],
)
def test_a_bad_filter_is_told_from_a_column_that_is_lost(
    tables: Tables, condition: str, kind: FailureKind
) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    with pytest.raises(StorageFailure) as caught:
        tables.open(Pin("t", 1)).read(filter=condition)
    assert kind_of(caught) is kind


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
        staged = made(tables.stage_indexes(table, [IndexSpec(column, kind, "x")], uuid=uuid))
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
    assert tables.stage_indexes(table, [IndexSpec("id", Btree(), "x")], uuid="u") is None


def test_an_index_stays_right_through_changes_and_compaction(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a", "b", "c"))
    table = tables.open(Pin("t", 1))
    tables.land(made(tables.stage_indexes(table, [IndexSpec("id", Btree(), "id")], uuid="i")))
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
            assert compacted(tables, "t") == 5
    assert tables.transaction_uuid(Pin("t", 5)) is not None


def test_compaction_keeps_identities_and_row_versions(tables: Tables) -> None:
    tables.create("t", PEOPLE, rows=people("a"))
    pin = insert(tables, insert(tables, Pin("t", 1), "b"), "c")
    before = tables.open(pin).read(row_id=True, versions=True)
    after = tables.open(Pin("t", compacted(tables, "t"))).read(row_id=True, versions=True)
    assert after.equals(before)
    late = made(tables.stage(tables.open(pin), inserts=people("late"), uuid="late"))
    with pytest.raises(StorageFailure) as caught:
        tables.land(late)
    assert kind_of(caught) is FailureKind.CONFLICT
