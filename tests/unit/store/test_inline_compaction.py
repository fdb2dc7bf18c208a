"""Folding: tables written row by row stay in few fragments, and nothing of their content moves."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.store import tuning
from omnigraph.store.blobs import blob_field
from omnigraph.store.reading.table_delta import table_delta
from omnigraph.store.root import Root
from omnigraph.store.tables import Btree, IndexSpec, Pin, Staged, Table, Tables, open_tables
from omnigraph.store.writing.inline_compaction import FANOUT

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
PATH = "nodes/t"
ROW = ("_rowid", "_rowaddr")


class Rows:
    """A table that is written to one small change at a time."""

    def __init__(self, folder: Path, schema: pa.Schema = SCHEMA) -> None:
        self.tables: Tables = open_tables(Root.parse(str(folder)), durable=False)
        self.version = self.tables.create(PATH, schema)
        self.changes = 0

    @property
    def table(self) -> Table:
        return self.tables.open(Pin(PATH, self.version))

    def insert(self, *ids: str) -> None:
        table = self.table
        rows = pa.Table.from_pylist([{"id": key, "n": 0} for key in ids], schema=table.schema)
        self.land(self.tables.stage(table, inserts=rows, uuid=self._uuid()))

    def update(self, ids: Iterable[str], n: int) -> None:
        table = self.table
        found = table.locate(list(ids))
        rows = found.append_column("n", pa.array([n] * found.num_rows, pa.int64()))
        rows = rows.select(["id", "n", *ROW])
        self.land(self.tables.stage(table, updates=rows, uuid=self._uuid()))

    def delete(self, *ids: str) -> None:
        table = self.table
        found = table.locate(list(ids))
        self.land(self.tables.stage(table, deletes=found, uuid=self._uuid()))

    def land(self, staged: Staged | None) -> None:
        assert staged is not None
        self.version = self.tables.land(staged)
        assert self.table.row_count == staged.rows_after

    def content(self) -> dict[str, int]:
        rows = self.table.read(["id", "n"])
        found = dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))
        assert len(found) == rows.num_rows
        return found

    def identities(self) -> dict[str, int]:
        rows = self.table.read(["id"], row_id=True)
        return dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))

    def _uuid(self) -> str:
        self.changes += 1
        return f"change-{self.changes}"


@pytest.fixture(params=["gathered", "by slices"])
def rows(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rows]:
    """A table whose rows are folded as small ones, and as if they were more than Arrow gathers."""
    limits = {"gathered_bytes_max": 0} if request.param == "by slices" else {}
    with tuning.tuned(**limits):
        yield Rows(tmp_path)


def test_one_row_at_a_time_stays_in_few_fragments(rows: Rows) -> None:
    identities: dict[str, int] = {}
    for number in range(3 * FANOUT):
        rows.insert(f"r{number}")
        if number % FANOUT == 0:
            identities = rows.identities()
    assert rows.content() == {f"r{n}": 0 for n in range(3 * FANOUT)}
    assert len(rows.table.fragment_ids()) <= FANOUT + 2
    assert identities.items() <= rows.identities().items()


def test_a_change_of_folded_rows_is_made_once(rows: Rows) -> None:
    for number in range(FANOUT):
        rows.insert(f"r{number}")
    before = rows.identities()
    rows.update(["r3", "r5"], 7)
    assert len(rows.table.fragment_ids()) <= 3
    assert rows.content() == {f"r{n}": 7 if n in (3, 5) else 0 for n in range(FANOUT)}
    assert rows.identities() == before


def test_deleted_rows_are_not_carried_along(rows: Rows) -> None:
    for number in range(FANOUT):
        rows.insert(f"r{number}")
    rows.delete("r0", f"r{FANOUT - 1}")
    assert rows.content() == {f"r{n}": 0 for n in range(1, FANOUT - 1)}
    assert len(rows.table.fragment_ids()) == 1


def test_every_row_can_go(rows: Rows) -> None:
    for number in range(FANOUT):
        rows.insert(f"r{number}")
    rows.delete(*(f"r{n}" for n in range(FANOUT)))
    assert rows.content() == {}
    rows.insert("again")
    assert rows.content() == {"again": 0}


def test_created_versions_survive(rows: Rows) -> None:
    for number in range(FANOUT + 1):
        rows.insert(f"r{number}")
    read = rows.table.read(["id"], versions=True)
    created = dict(
        zip(read["id"].to_pylist(), read["_row_created_at_version"].to_pylist(), strict=True)
    )
    assert created == {f"r{n}": n + 2 for n in range(FANOUT + 1)}


def test_what_an_index_covers_stays(rows: Rows) -> None:
    for number in range(FANOUT):
        rows.insert(f"r{number}")
    index = rows.tables.stage_indexes(
        rows.table, [IndexSpec("id", Btree(), "id_ordered")], uuid="index"
    )
    rows.land(index)
    covered = set(rows.table.fragment_ids())
    rows.insert("more")
    assert covered <= set(rows.table.fragment_ids())
    assert rows.table.locate(["r3", "more"]).num_rows == 2


def test_tables_with_blobs_are_left_alone(tmp_path: Path) -> None:
    rows = Rows(tmp_path, pa.schema([*SCHEMA, blob_field("bytes")]))
    for number in range(FANOUT + 1):
        rows.insert(f"r{number}")
    assert len(rows.table.fragment_ids()) == FANOUT + 1


def test_many_versions_that_created_rows_are_rounded_to_the_oldest(rows: Rows) -> None:
    count = FANOUT**2 + 2 * FANOUT
    opened = {}
    written_at: dict[str, int] = {}
    for number in range(count):
        rows.insert(f"r{number}")
        written_at[f"r{number}"] = rows.version
        if number % 40 == 5:
            rows.update([f"r{number - 3}"], number)
        opened[rows.version] = (rows.table, rows.content(), rows.identities())
    rows.delete("r7")
    listed = [
        len(each.metadata.created_at_version_meta.json())
        for each in rows.table.dataset.get_fragments()
    ]
    assert max(listed) < 80 * FANOUT
    content, identities = rows.content(), rows.identities()
    assert content.keys() == {f"r{number}" for number in range(count)} - {"r7"}
    read = rows.table.read(["id"], versions=True).to_pylist()
    created = {row["id"]: row["_row_created_at_version"] for row in read}
    assert all(created[key] <= written_at[key] for key in content)
    assert all(
        row["_row_created_at_version"] <= row["_row_last_updated_at_version"] for row in read
    )
    for old, before, known in (opened[version] for version in list(opened)[::23]):
        delta = table_delta(rows.table, old, ["id", "n"], rows_max=10_000)
        assert delta is not None
        assert known.items() - identities.items() <= {("r7", known.get("r7"))}
        told = before | dict(
            zip(delta.written["id"].to_pylist(), delta.written["n"].to_pylist(), strict=True)
        )
        gone = set(delta.removed.tolist())
        assert {
            key: n for key, n in told.items() if identities.get(key, known.get(key)) not in gone
        } == content
