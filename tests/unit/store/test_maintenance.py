"""Keeping a table in order: rewrite, draft, build, stage, land; with nothing above the store."""

import pickle
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.runtime.failpoints import Refuse, armed
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.maintenance.plan import MaintenancePlan, plan_maintenance
from omnigraph.store.maintenance.shape import TableProbe, read_shape
from omnigraph.store.maintenance.tasks import Draft
from omnigraph.store.root import Root
from omnigraph.store.tables import (
    Btree,
    Fts,
    IndexSpec,
    Pin,
    Staged,
    Tables,
    Vector,
    open_tables,
)
from omnigraph.types import Metric
from tests.unit.test_store_durability import SCHEMA, everything_synced, rows

WISHES = (
    IndexSpec("id", Btree(), "id"),
    IndexSpec("text", Fts(), "text"),
    IndexSpec("e", Vector(Metric.L2, 2), "e"),
)
TARGET = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "graph").mkdir()
    return Root.parse(str(tmp_path / "graph"))


@pytest.fixture
def tables(root: Root) -> Tables:
    return open_tables(root, durable=True)


@pytest.fixture
def uuids() -> Iterator[str]:
    return (f"u{number}" for number in count())


def insert(tables: Tables, pin: Pin, *ids: str) -> Pin:
    staged = tables.stage(tables.open(pin), inserts=rows(*ids), uuid="-".join(ids))
    assert staged is not None
    return Pin(pin.path, tables.land(staged), pin.branch)


def plan_of(tables: Tables, pin: Pin) -> MaintenancePlan:
    table = tables.open(pin)
    return plan_maintenance(read_shape(table), WISHES, TableProbe(table), target_rows=TARGET)


def kept(tables: Tables, pin: Pin, uuids: Iterator[str]) -> tuple[tuple[Staged, ...], Draft | None]:
    """Everything up to landing."""
    table, plan, maintenance = tables.open(pin), plan_of(tables, pin), tables.maintenance
    rewritten = [maintenance.rewrite(table, group, target_rows=TARGET) for group in plan.groups]
    draft = maintenance.draft(table, plan, rewritten, uuid=next(uuids)) if rewritten else None
    at = pin if draft is None else draft.pin
    segments = [
        maintenance.build(at, build.spec, part if draft is None else draft.stands_for(part))
        for build in plan.indexes
        for part in build.parts
    ]
    if draft is not None:
        maintenance.drop(draft)
    chain = maintenance.stage(table, plan, draft, rewritten, segments, new_uuid=uuids.__next__)
    return chain, draft


def land(tables: Tables, chain: tuple[Staged, ...]) -> Pin:
    (path, branch) = (chain[0].path, chain[0].branch)
    for staged in chain:
        assert tables.land(pickle.loads(pickle.dumps(staged))) == staged.expected + 1
    return Pin(path, chain[-1].expected + 1, branch)


@pytest.mark.parametrize("branch", [None, "f/x"])
def test_one_commit_two_or_three(tables: Tables, uuids: Iterator[str], branch: str | None) -> None:
    tables.create("t", SCHEMA, rows=rows("a", "b"))
    pin = Pin("t", 1)
    if branch is not None:
        tables.fork("t", branch, pin)
        pin = Pin("t", 1, branch)
    lengths = []
    for ids in ([], ["c", "d"], ["e"], ["f", "g"]):
        if ids:
            pin = insert(tables, pin, *ids)
        chain, _ = kept(tables, pin, uuids)
        lengths.append([staged.kind.value for staged in chain])
        pin = land(tables, chain)
        table = tables.open(pin)
        assert [set(info.fragments) for info in table.indexes()] == [set(table.fragment_ids())] * 3
        assert len(table.fragment_ids()) == 1
        assert not plan_of(tables, pin)
    # The first has nothing to rewrite; later the word index covers a part of what is rewritten.
    assert lengths == [["index"], *[["index", "rewrite", "index"]] * 3]
    read = tables.open(pin).read(["id"], row_id=True)
    assert sorted(read["id"].to_pylist()) == list("abcdefg")
    assert len(set(read["_rowid"].to_pylist())) == 7


def test_without_words_or_vectors_two_commits_do(tables: Tables, uuids: Iterator[str]) -> None:
    tables.create("t", SCHEMA, rows=rows("a"))
    pin = insert(tables, Pin("t", 1), "b")
    chain, _ = kept(tables, pin, uuids)
    assert [staged.kind.value for staged in chain] == ["rewrite", "index"]
    assert [staged.expected for staged in chain] == [2, 3]
    assert {staged.rows_after for staged in chain} == {2}


def test_everything_is_synced(
    root: Root, tables: Tables, uuids: Iterator[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.create("t", SCHEMA, rows=rows("a", "b"))
    pin = land(tables, kept(tables, Pin("t", 1), uuids)[0])
    pin = insert(tables, insert(tables, pin, "c"), "d")
    with everything_synced(root.local_path, monkeypatch):
        land(tables, kept(tables, pin, uuids)[0])


def test_a_draft_goes_without_a_trace(root: Root, tables: Tables, uuids: Iterator[str]) -> None:
    tables.create("t", SCHEMA, rows=rows("a"))
    pin = land(tables, kept(tables, Pin("t", 1), uuids)[0])
    pin = insert(tables, pin, "b")
    table, plan = tables.open(pin), plan_of(tables, pin)
    folder = root.local_path / "t"

    def control() -> set[Path]:
        found = {*(folder / "_versions").iterdir(), *(folder / "_transactions").iterdir()}
        return {path for path in found if path.name != "latest_version_hint.json"}

    rewritten = [
        tables.maintenance.rewrite(table, group, target_rows=TARGET) for group in plan.groups
    ]
    before = control()
    draft = tables.maintenance.draft(table, plan, rewritten, uuid="u")
    assert len(control() - before) == len(draft.own_files) == 4
    assert tables.head("t") == pin.version
    assert tables.open(draft.pin).fragment_ids() == tuple(sorted(*draft.fragments.values()))
    tables.maintenance.drop(draft)
    assert control() == before
    tables.maintenance.drop(draft)


def test_half_a_draft_goes_as_well(root: Root, tables: Tables, uuids: Iterator[str]) -> None:
    tables.create("t", SCHEMA, rows=rows("a"))
    pin = land(tables, kept(tables, Pin("t", 1), uuids)[0])
    pin = insert(tables, pin, "b")
    with armed({StorageCall.TABLE_DRAFT: Refuse()}, nth=2), pytest.raises(StorageFailure):
        kept(tables, pin, uuids)
    assert list(root.local_path.rglob("d*.manifest")) == []
    assert list(root.local_path.rglob("*.draft*")) == []


def test_a_draft_that_cannot_be_removed_does_no_harm(tables: Tables, uuids: Iterator[str]) -> None:
    tables.create("t", SCHEMA, rows=rows("a"))
    pin = insert(tables, Pin("t", 1), "b")
    with armed({StorageCall.OBJECT_DELETE: Refuse()}, nth=1) as plan:
        chain, _ = kept(tables, pin, uuids)
    assert plan.fired
    assert tables.head("t") == 2
    land(tables, chain)
    assert tables.head("t") == 4


def test_whoever_comes_second_is_refused(tables: Tables, uuids: Iterator[str]) -> None:
    tables.create("t", SCHEMA, rows=rows("a"))
    pin = insert(tables, Pin("t", 1), "b")
    chain, _ = kept(tables, pin, uuids)
    late = tables.stage(tables.open(pin), inserts=rows("late"), uuid="late")
    insert(tables, pin, "c")
    for staged in (*chain, late):
        assert staged is not None
        with pytest.raises(StorageFailure) as caught:
            tables.land(staged)
        assert caught.value.kind is FailureKind.CONFLICT
    assert sorted(tables.open(Pin("t", 3)).read(["id"])["id"].to_pylist()) == ["a", "b", "c"]


def test_the_second_commit_knows_the_first(tables: Tables, uuids: Iterator[str]) -> None:
    """A fork that was made again has the same versions and another history."""
    tables.create("t", SCHEMA, rows=rows("a"))
    tables.fork("t", "f", Pin("t", 1))
    pin = insert(tables, Pin("t", 1, "f"), "b")
    first, second = kept(tables, pin, uuids)[0]
    tables.land(first)
    tables.drop_fork("t", "f")
    tables.fork("t", "f", Pin("t", 1))
    insert(tables, insert(tables, Pin("t", 1, "f"), "b"), "c")
    with pytest.raises(StorageFailure) as caught:
        tables.land(second)
    assert caught.value.kind is FailureKind.CONFLICT


def test_what_stands_for_what() -> None:
    draft = Draft(
        pin=Pin("t", 9),
        fragments={(0, 1): frozenset({7}), (3,): frozenset({8, 9})},
        numbers={},
        own_files=(),
    )
    assert draft.stands_for({0, 1, 2, 3}) == {2, 7, 8, 9}
    assert draft.stands_for({2}) == {2}


def test_rows_are_asked_about_values_and_age(tables: Tables) -> None:
    tables.create("t", SCHEMA, rows=rows("a"))
    bare = rows("b").set_column(2, SCHEMA.field("e"), pa.nulls(1, SCHEMA.field("e").type))
    staged = tables.stage(tables.open(Pin("t", 1)), inserts=bare, uuid="bare")
    assert staged is not None
    tables.land(staged)
    table = tables.open(Pin("t", 2))
    first, second = table.fragment_ids()
    probe = TableProbe(table)
    assert probe.has_values("e")
    assert probe.has_values("e", [first])
    assert not probe.has_values("e", [second])
    assert probe.older([first, second], 0) == frozenset()
    assert probe.older([first, second], 1) == {first}
    assert probe.older([first, second], 2) == {first, second}
