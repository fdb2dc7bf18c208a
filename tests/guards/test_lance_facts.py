"""What the storage design takes for granted about Lance, one fact per test.

These tests talk to pylance itself. An upgrade that changes a fact must turn red here, before it
turns wrong elsewhere. Some pin traps: behaviour that we work around and would rather lose. When
such a test fails, the work-around may go.
"""

import copy
import dataclasses
import json
import os
import pickle
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance import debug as lance_debug
from lance.commit import CommitConflictError
from lance.fragment import RowIdSequence, write_fragments
from lance.optimize import Compaction

ROOT = Path(__file__).parents[2]
RACERS = 8
PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("v", pa.int64()),
    ],
    metadata={"stamp": "1"},
)
LAST = (1 << 64) - 1

Transaction: Any = lance.Transaction
commit: Any = LanceDataset.commit


def rows(*ids: str, v: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, schema=SCHEMA)


def staged_create(uri: str, table: pa.Table) -> Any:
    return write_fragments(
        table,
        uri,
        mode="create",
        return_transaction=True,
        enable_stable_row_ids=True,
        data_storage_version="2.2",
    )


def create(uri: Path, *ids: str) -> Any:
    transaction = staged_create(str(uri), rows(*ids))
    return commit(str(uri), transaction, max_retries=0, enable_stable_row_ids=True)


def append(dataset: Any, *ids: str) -> Any:
    fragments = write_fragments(rows(*ids), dataset)
    return land(dataset, LanceOperation.Append(fragments), "append-" + "-".join(ids))


def land(dataset: Any, operation: Any, uuid: str) -> Any:
    transaction = Transaction(read_version=dataset.version, operation=operation, uuid=uuid)
    return commit(dataset, transaction, max_retries=0)


def fields(dataset: Any) -> list[int]:
    return [field.id() for field in dataset.lance_schema.fields()]


def fenced(dataset: Any, *ids: str) -> Any:
    """An insert that carries the lowest fragment along, unchanged."""
    fence = min((f.metadata for f in dataset.get_fragments()), key=lambda f: f.id)
    new = write_fragments(rows(*ids), dataset)
    return LanceOperation.Update([], [fence], new, [], fields(dataset), "rewrite_rows")


def merge(dataset: Any, table: pa.Table, *, use_index: bool = False) -> None:
    builder = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    builder.use_index(use_index).conflict_retries(0).execute(table)


def race(work: Callable[[int], Any], racers: int = RACERS) -> list[str]:
    """Run contenders at once; say who won and how the others failed."""
    barrier = threading.Barrier(racers)

    def run(racer: int) -> str:
        barrier.wait()
        try:
            work(racer)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            return f"{type(error).__name__}: {error}"
        return "won"

    with ThreadPoolExecutor(racers) as pool:
        return list(pool.map(run, range(racers)))


def ids_at(uri: Path) -> list[str]:
    found: list[str] = lance.dataset(str(uri)).to_table()["id"].to_pylist()
    return sorted(found)


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    return tmp_path / "t"


# ---------------------------------------------------------------- the versions measured


def test_the_facts_are_of_this_release() -> None:
    """A new release: read its notes, rerun everything here, then move this line."""
    assert lance.__version__ == "14.0.2"


# ---------------------------------------------------------------- row-level compare-and-swap


def test_of_merges_of_one_new_key_exactly_one_lands(uri: Path) -> None:
    create(uri, "a")
    handles = [lance.dataset(str(uri), version=1) for _ in range(RACERS)]
    outcomes = race(lambda racer: merge(handles[racer], rows("new", v=racer)))
    assert outcomes.count("won") == 1
    assert ids_at(uri) == ["a", "new"]


def test_of_merges_of_one_existing_key_exactly_one_lands(uri: Path) -> None:
    create(uri, "a", "b")
    handles = [lance.dataset(str(uri), version=1) for _ in range(RACERS)]
    outcomes = race(lambda racer: merge(handles[racer], rows("a", v=racer)))
    assert outcomes.count("won") == 1
    assert ids_at(uri) == ["a", "b"]


def test_merges_of_different_keys_from_one_base_all_land(uri: Path) -> None:
    create(uri, "a")
    handles = [lance.dataset(str(uri), version=1) for _ in range(RACERS)]
    outcomes = race(lambda racer: merge(handles[racer], rows(f"k{racer}")))
    assert outcomes == ["won"] * RACERS
    assert len(ids_at(uri)) == RACERS + 1


def test_the_loser_of_a_merge_hears_of_too_many_writers(uri: Path) -> None:
    """A bare OSError: only the text tells contention from other trouble."""
    create(uri, "a")
    stale = lance.dataset(str(uri), version=1)
    merge(lance.dataset(str(uri), version=1), rows("new"))
    with pytest.raises(OSError, match="Too many concurrent writers") as caught:
        merge(stale, rows("new"))
    assert not isinstance(caught.value, CommitConflictError)


def test_a_btree_on_the_key_switches_the_check_off(uri: Path) -> None:
    """The trap for which every merge of ours says use_index(False)."""
    create(uri, "a").create_scalar_index("id", "BTREE")
    handles = [lance.dataset(str(uri), version=2) for _ in range(2)]
    for handle in handles:
        merge(handle, rows("new"), use_index=True)
    assert ids_at(uri) == ["a", "new", "new"]


def test_without_use_of_the_index_the_check_holds(uri: Path) -> None:
    create(uri, "a").create_scalar_index("id", "BTREE")
    handles = [lance.dataset(str(uri), version=2) for _ in range(2)]
    merge(handles[0], rows("new"))
    with pytest.raises(OSError, match="Too many concurrent writers"):
        merge(handles[1], rows("new"))
    assert ids_at(uri) == ["a", "new"]


def test_staged_merges_carry_no_key_filter(uri: Path) -> None:
    """So a publish cannot be staged: two of one new key both land."""
    create(uri, "a")
    for number in range(2):
        handle = lance.dataset(str(uri), version=1)
        builder = handle.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        transaction, _ = builder.use_index(False).execute_uncommitted(rows("new", v=number))
        commit(handle, transaction, max_retries=0)
    assert ids_at(uri) == ["a", "new", "new"]


def test_duplicate_new_keys_within_one_merge_are_inserted_twice(uri: Path) -> None:
    create(uri, "a")
    merge(lance.dataset(str(uri)), rows("x", "x"))
    assert ids_at(uri) == ["a", "x", "x"]


def test_without_a_primary_key_the_check_is_off(uri: Path) -> None:
    plain = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64())])
    lance.write_dataset(rows("a").cast(plain), str(uri), enable_stable_row_ids=True)
    for number in range(2):
        merge(lance.dataset(str(uri), version=1), rows("new", v=number).cast(plain))
    assert ids_at(uri) == ["a", "new", "new"]


def test_a_merge_moves_its_handle(uri: Path) -> None:
    create(uri, "a")
    handle = lance.dataset(str(uri), version=1)
    merge(handle, rows("b"))
    assert handle.version == 2


# ---------------------------------------------------------------- strictness of commits


def test_a_stale_append_is_rebased_even_without_retries(uri: Path) -> None:
    base = create(uri, "a")
    append(base, "b")
    assert append(base, "c").version == 3


def test_a_fenced_update_is_strict_against_another(uri: Path) -> None:
    base = create(uri, "a")
    operations = [fenced(base, f"k{racer}") for racer in range(RACERS)]
    outcomes = race(lambda racer: land(base, operations[racer], f"u{racer}"))
    assert outcomes.count("won") == 1
    assert all("CommitConflictError" in text for text in outcomes if text != "won")
    assert len(ids_at(uri)) == 2


def test_a_stale_fenced_update_is_refused(uri: Path) -> None:
    base = create(uri, "a")
    late = fenced(base, "late")
    land(base, fenced(base, "b"), "first")
    with pytest.raises(CommitConflictError):
        land(base, late, "late")
    assert ids_at(uri) == ["a", "b"]


def test_an_unfenced_update_is_rebased(uri: Path) -> None:
    base = create(uri, "a")
    new = write_fragments(rows("late"), base)
    append(base, "b")
    late = LanceOperation.Update([], [], new, [], fields(base), "rewrite_rows")
    assert land(base, late, "late").version == 3


def test_a_fence_does_not_hold_against_an_index(uri: Path) -> None:
    """The reason for placing manifests ourselves: this lands one version late."""
    base = create(uri, "a")
    late = fenced(base, "late")
    segment = base.create_index_uncommitted("id", "BTREE", name="i", fragment_ids=[0])
    land(base, LanceOperation.CreateIndex([segment], []), "index")
    assert land(base, late, "late").version == 3


def test_a_stale_index_is_rebased(uri: Path) -> None:
    base = create(uri, "a")
    segment = base.create_index_uncommitted("id", "BTREE", name="i", fragment_ids=[0])
    land(base, fenced(base, "b"), "first")
    assert land(base, LanceOperation.CreateIndex([segment], []), "index").version == 3


def test_a_stale_overwrite_is_refused(uri: Path) -> None:
    base = create(uri, "a")
    late = write_fragments(rows("late"), base, mode="overwrite", return_transaction=True)
    append(base, "b")
    with pytest.raises(CommitConflictError):
        land(base, late.operation, "late")
    assert ids_at(uri) == ["a", "b"]


def test_of_overwrites_of_an_empty_table_exactly_one_lands(uri: Path) -> None:
    base = create(uri)
    assert base.get_fragments() == []
    changes = [
        LanceOperation.Overwrite(base.lance_schema, write_fragments(rows(f"k{racer}"), base))
        for racer in range(RACERS)
    ]
    outcomes = race(lambda racer: land(base, changes[racer], f"u{racer}"))
    assert outcomes.count("won") == 1
    assert ids_at(uri) == [f"k{outcomes.index('won')}"]


def test_an_overwrite_keeps_schema_metadata_and_never_reuses_row_ids(uri: Path) -> None:
    base = create(uri)
    first = land(
        base,
        LanceOperation.Overwrite(base.lance_schema, write_fragments(rows("a", "b"), base)),
        "first",
    )
    gone = land(first, LanceOperation.Update([0], [], [], [], [0, 1], "rewrite_rows"), "gone")
    assert gone.get_fragments() == []
    again = land(
        gone,
        LanceOperation.Overwrite(gone.lance_schema, write_fragments(rows("c"), gone)),
        "again",
    )
    assert again.schema.metadata == {b"stamp": b"1"}
    assert again.schema.field("id").metadata == {
        k.encode(): v.encode() for k, v in PRIMARY_KEY.items()
    }
    assert again.to_table(with_row_id=True)["_rowid"].to_pylist() == [2]


def test_an_append_committed_twice_is_applied_twice(uri: Path) -> None:
    base = create(uri, "a")
    transaction = Transaction(
        read_version=1, operation=LanceOperation.Append(write_fragments(rows("b"), base)), uuid="u"
    )
    for _ in range(2):
        commit(base, transaction, max_retries=0)
    assert ids_at(uri) == ["a", "b", "b"]


def test_an_overwrite_committed_twice_is_recognised_by_its_uuid(uri: Path) -> None:
    base = create(uri)
    new = write_fragments(rows("a"), base)
    transaction = Transaction(
        read_version=1, operation=LanceOperation.Overwrite(base.lance_schema, new), uuid="same"
    )
    assert commit(base, transaction, max_retries=0).version == 2
    assert commit(base, transaction, max_retries=0).version == 2
    assert lance.dataset(str(uri)).version == 2


def test_a_fenced_update_committed_twice_is_refused(uri: Path) -> None:
    base = create(uri, "a")
    operation = fenced(base, "b")
    land(base, operation, "same")
    with pytest.raises(CommitConflictError):
        land(base, operation, "same")


def test_changes_of_no_row_still_make_versions(uri: Path) -> None:
    create(uri, "a")
    dataset = lance.dataset(str(uri))
    dataset.delete("id = 'nobody'")
    dataset.update({"v": "1"}, where="id = 'nobody'")
    merge(dataset, rows())
    assert lance.dataset(str(uri)).version == 4


def test_a_restore_is_never_refused(uri: Path) -> None:
    base = create(uri, "a")
    append(base, "b")
    land(base, LanceOperation.Restore(1), "stale")
    assert ids_at(uri) == ["a"], "a commit that the restorer never saw is covered"


def test_a_restore_keeps_indexes_and_an_overwrite_drops_them(uri: Path) -> None:
    create(uri, "a").create_scalar_index("id", "BTREE")
    indexed = append(lance.dataset(str(uri)), "b")
    back = land(indexed, LanceOperation.Restore(2), "back")
    assert len(back.describe_indices()) == 1
    new = LanceOperation.Overwrite(back.lance_schema, write_fragments(rows("c"), back))
    assert land(back, new, "over").describe_indices() == []


# ---------------------------------------------------------------- placing manifests ourselves


class Placing:
    """The smallest namespace that takes a manifest for one version only."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder, self.version = folder, version
        self.asked: list[dict[str, Any]] = []

    def namespace_id(self) -> str:
        return "test"

    def create_table_version(self, request: Any) -> dict[str, Any]:
        self.asked.append(dict(request))
        if request["version"] != self.version:
            raise RuntimeError("not the announced version")
        staging = self.folder / Path(request["manifest_path"]).name
        os.link(staging, self.final)
        staging.unlink()
        return self.describe_table_version(request)

    def describe_table_version(self, request: Any) -> dict[str, Any]:
        path = str(self.final).lstrip("/")
        return {"version": {"version": request["version"], "manifest_path": path}}

    @property
    def final(self) -> Path:
        return self.folder / f"{LAST - self.version:020d}.manifest"


def place(base: Any, operation: Any, uuid: str, placing: Placing) -> Any:
    return commit(
        base,
        Transaction(read_version=base.version, operation=operation, uuid=uuid),
        max_retries=0,
        namespace_client=placing,
        table_id=["t"],
        namespace_client_managed_versioning=True,
    )


def test_a_namespace_places_the_manifest_of_a_commit(uri: Path) -> None:
    base = create(uri, "a")
    placing = Placing(uri / "_versions", 2)
    assert place(base, fenced(base, "b"), "u", placing).version == 2
    (asked,) = placing.asked
    assert set(asked) >= {"version", "manifest_path", "manifest_size", "naming_scheme"}
    assert asked["naming_scheme"] == "V2"
    assert Path(asked["manifest_path"]).name.startswith(f"{placing.final.name}-")
    found: Any = lance.dataset(str(uri)).read_transaction(2)
    assert found.uuid == "u"
    assert ids_at(uri) == ["a", "b"]


def test_a_refused_manifest_is_a_clean_conflict_and_leaves_nothing(uri: Path) -> None:
    base = create(uri, "a")
    late = fenced(base, "late")
    segment = base.create_index_uncommitted("id", "BTREE", name="i", fragment_ids=[0])
    land(base, LanceOperation.CreateIndex([segment], []), "index")
    before = sorted(os.listdir(uri / "_versions"))
    placing = Placing(uri / "_versions", 2)
    with pytest.raises(CommitConflictError):
        place(base, late, "late", placing)
    assert [asked["version"] for asked in placing.asked] == [3]
    assert sorted(os.listdir(uri / "_versions")) == before
    assert lance.dataset(str(uri)).version == 2


def test_placing_makes_a_restore_strict(uri: Path) -> None:
    base = create(uri, "a")
    append(base, "b")
    with pytest.raises(CommitConflictError):
        place(base, LanceOperation.Restore(1), "late", Placing(uri / "_versions", 2))
    assert ids_at(uri) == ["a", "b"]


def test_a_manifest_that_was_never_placed_does_no_harm(uri: Path) -> None:
    """What a crash between writing and placing leaves behind."""
    create(uri, "a")
    junk = uri / "_versions" / f"{LAST - 2:020d}.manifest-0f0e0d0c-0000-4000-8000-000000000000"
    junk.write_bytes(b"junk")
    dataset = lance.dataset(str(uri))
    assert dataset.version == 1
    assert append(dataset, "b").version == 2
    assert [info["version"] for info in lance.dataset(str(uri)).versions()] == [1, 2]


def test_a_commit_notes_its_version(uri: Path) -> None:
    """Without the note every look for a head would list the versions."""
    note = uri / "_versions" / "latest_version_hint.json"
    dataset = create(uri, "a")
    assert json.loads(note.read_bytes()) == {"version": 1}
    append(dataset, "b")
    assert json.loads(note.read_bytes()) == {"version": 2}


def test_the_version_hint_is_only_a_hint(uri: Path) -> None:
    """It is not synced, so after a power cut it may hold anything."""
    append(create(uri, "a"), "b")
    for content in (b"", b"junk", b'{"version": 1}', b'{"version": 99}'):
        (uri / "_versions" / "latest_version_hint.json").write_bytes(content)
        assert lance.dataset(str(uri)).version == 2


# ---------------------------------------------------------------- creating


def test_of_strict_creations_exactly_one_lands(uri: Path) -> None:
    changes = [staged_create(str(uri), rows(f"k{racer}")) for racer in range(RACERS)]

    def attempt(racer: int) -> None:
        commit(str(uri), changes[racer], max_retries=0, enable_stable_row_ids=True)

    outcomes = race(attempt)
    assert outcomes.count("won") == 1
    assert lance.dataset(str(uri)).version == 1
    assert ids_at(uri) == [f"k{outcomes.index('won')}"]


def test_with_retries_a_stale_creation_overwrites_the_winner(uri: Path) -> None:
    late = staged_create(str(uri), rows("late"))
    create(uri, "first")
    commit(str(uri), late, enable_stable_row_ids=True)
    assert ids_at(uri) == ["late"]


def test_a_missing_table_or_version_says_not_found(uri: Path) -> None:
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(str(uri))
    create(uri, "a")
    with pytest.raises(ValueError, match="was not found"):
        lance.dataset(str(uri), version=9)


# ---------------------------------------------------------------- identities


def test_rewritten_rows_keep_identity_and_birth(uri: Path) -> None:
    base = create(uri, "a", "b", "c")
    erased = base.get_fragment(0).delete_rows([1])
    (fragment,) = write_fragments(rows("b", v=9), base)
    kept = dataclasses.replace(fragment, row_id_meta=RowIdSequence([1]).to_inline_metadata())
    change = LanceOperation.Update([], [erased], [kept], [], fields(base), "rewrite_rows")
    after = land(base, change, "u").to_table(
        columns=["id", "v", "_row_created_at_version", "_row_last_updated_at_version"],
        with_row_id=True,
    )
    (row,) = [row for row in after.to_pylist() if row["id"] == "b"]
    assert row == {
        "id": "b",
        "v": 9,
        "_rowid": 1,
        "_row_created_at_version": 1,
        "_row_last_updated_at_version": 2,
    }


def test_a_fence_leaves_index_coverage_and_row_versions_alone(uri: Path) -> None:
    create(uri, "a").create_scalar_index("id", "BTREE")
    base = lance.dataset(str(uri))
    after = land(base, fenced(base, "b"), "u")
    (index,) = after.describe_indices()
    assert set(index.segments[0].fragment_ids) == {0}
    columns = ["id", "_row_last_updated_at_version"]
    found = {row["id"]: row for row in after.to_table(columns=columns).to_pylist()}
    assert found["a"]["_row_last_updated_at_version"] == 1
    assert found["b"]["_row_last_updated_at_version"] == 3


def test_compaction_keeps_row_ids_and_row_versions(uri: Path) -> None:
    base = append(append(create(uri, "a"), "b"), "c")
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    before = base.to_table(columns=columns, with_row_id=True)
    base.optimize.compact_files(target_rows_per_fragment=1_000)
    after = lance.dataset(str(uri)).to_table(columns=columns, with_row_id=True)
    assert len(lance.dataset(str(uri)).get_fragments()) == 1
    assert after.equals(before)


def test_a_whole_fragment_deleted_is_none(uri: Path) -> None:
    assert create(uri, "a", "b").get_fragment(0).delete_rows([0, 1]) is None


def test_taking_by_row_id_keeps_the_order_and_drops_what_is_missing(uri: Path) -> None:
    dataset: Any = create(uri, "a", "b", "c")
    assert dataset._take_rows([2, 99, 0], columns=["id"])["id"].to_pylist() == ["c", "a"]


def test_delta_tells_inserted_updated_and_deleted(uri: Path) -> None:
    create(uri, "a", "b", "c")
    dataset = lance.dataset(str(uri))
    merge(dataset, rows("a", "d", v=5))
    dataset.delete("id = 'b'")
    delta: Any = dataset.delta(compared_against=1)
    assert delta.get_inserted_rows().read_all()["id"].to_pylist() == ["d"]
    assert delta.get_updated_rows().read_all()["id"].to_pylist() == ["a"]
    deleted = delta.get_deleted_row_ids().read_all()
    assert deleted.column(0).to_pylist() == [1]


# ---------------------------------------------------------------- history


def test_a_uuid_can_be_read_back(uri: Path) -> None:
    base = create(uri, "a")
    transaction = Transaction(
        read_version=1,
        operation=fenced(base, "b"),
        uuid="01ARZ3NDEKTSV4RRFFQ69G5FAV",
        transaction_properties={"why": "test"},
    )
    after = commit(base, transaction, max_retries=0)
    found = after.read_transaction(2)
    assert (found.uuid, found.read_version) == ("01ARZ3NDEKTSV4RRFFQ69G5FAV", 1)
    assert found.transaction_properties == {"why": "test"}


def test_the_compaction_of_an_indexed_table_cannot_be_read_but_can_be_listed(uri: Path) -> None:
    append(append(create(uri, "a"), "b"), "c").create_scalar_index("id", "BTREE")
    dataset = lance.dataset(str(uri))
    dataset.optimize.compact_files(target_rows_per_fragment=1_000)
    dataset = lance.dataset(str(uri))
    with pytest.raises(TypeError, match="RewrittenIndex"):
        dataset.read_transaction(dataset.version)
    text = str(lance_debug.list_transactions(dataset, 1)[0])
    assert re.search(r'read_version: \d+,\s*uuid: "[^"]+"', text)


def test_compaction_makes_two_versions(uri: Path) -> None:
    dataset = append(append(create(uri, "a"), "b"), "c")
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": 1_000})
    results = [task.execute(dataset) for task in plan.tasks]
    Compaction.commit(dataset, results)
    assert dataset.version == 5
    again = Compaction.plan(dataset, {"target_rows_per_fragment": 1_000})
    assert again.num_tasks() == 0


def test_times_of_versions_are_nanoseconds(uri: Path) -> None:
    dataset: Any = create(uri, "a")
    (version,) = dataset._ds.versions()
    assert isinstance(version["timestamp"], int)
    assert version["timestamp"] > 1_600_000_000 * 10**9


# ---------------------------------------------------------------- forks


def test_a_fork_can_be_opened_as_a_table_in_its_own_folder(uri: Path) -> None:
    create(uri, "a").create_branch("f/x", (None, 1))
    fork = lance.dataset(str(uri / "tree" / "f/x"))
    assert append(fork, "b").version == 2
    assert lance.dataset(str(uri / "tree" / "f/x"), version=2).count_rows() == 2
    assert lance.dataset(str(uri)).count_rows() == 1
    assert (uri / "_refs" / "branches" / "f%2Fx.json").exists()


def test_a_fork_made_again_has_another_identifier_and_another_first_commit(uri: Path) -> None:
    dataset = create(uri, "a")
    seen = []
    for _ in range(2):
        fork = dataset.create_branch("f", (None, 1))
        seen.append(
            (str(dataset.branches.list()["f"]["branch_identifier"]), fork.read_transaction(1).uuid)
        )
        dataset.branches.delete("f")
    assert len({identifier for identifier, _ in seen}) == 2
    assert len({uuid for _, uuid in seen}) == 2


def test_a_shared_session_sees_a_fork_that_was_made_again(uri: Path) -> None:
    """Elsewhere, while our session still holds the manifest of the old one."""
    from lance.lance import _Session  # noqa: PLC0415

    session = _Session(metadata_cache_size_bytes=1 << 20)
    append(create(uri, "a").create_branch("f", (None, 1)), "old")
    fork = str(uri / "tree" / "f")
    assert lance.dataset(fork, version=2, session=session).count_rows() == 2
    other = lance.dataset(str(uri))
    other.branches.delete("f")
    append(other.create_branch("f", (None, 1)), "x", "y")
    assert lance.dataset(fork, version=2, session=session).count_rows() == 3


def test_of_forks_of_one_name_exactly_one_is_made(uri: Path) -> None:
    create(uri, "a")
    handles = [lance.dataset(str(uri)) for _ in range(RACERS)]
    outcomes = race(lambda racer: handles[racer].create_branch("f", (None, 1)))
    assert outcomes.count("won") == 1
    assert list(lance.dataset(str(uri)).branches.list()) == ["f"]


def test_what_a_taken_fork_name_raises(uri: Path) -> None:
    """Neither text says so: we look for the fork instead."""
    dataset = append(create(uri, "a"), "b")
    dataset.create_branch("f", (None, 1))
    with pytest.raises(OSError, match="Clone operation should not enter build_manifest"):
        dataset.create_branch("f", (None, 1))
    with pytest.raises(OSError, match="was not found"):
        dataset.create_branch("f", (None, 2))
    with pytest.raises(ValueError, match="Ref not found"):
        dataset.branches.delete("nobody")


def test_a_fork_holds_the_absolute_path_of_its_table(uri: Path, tmp_path: Path) -> None:
    """A graph with forks cannot simply be moved."""
    create(uri, "a").create_branch("f", (None, 1))
    moved = tmp_path / "moved"
    uri.rename(moved)
    assert lance.dataset(str(moved)).to_table().num_rows == 1
    with pytest.raises(pa.ArrowInvalid, match=r"External error: .*Not found"):
        lance.dataset(str(moved / "tree" / "f")).to_table()


# ---------------------------------------------------------------- indexes


def test_a_word_index_must_be_merged_before_it_is_committed(uri: Path) -> None:
    base = create(uri, "hello", "world")
    segment = base.create_index_uncommitted("id", "INVERTED", name="w", fragment_ids=[0])
    broken = land(base, LanceOperation.CreateIndex([segment], []), "broken")
    with pytest.raises(pa.ArrowInvalid, match=r"tokens\.lance"):
        broken.to_table(full_text_query="hello", columns=["id", "_score"])


def test_a_merged_word_index_is_searched(uri: Path) -> None:
    base = create(uri, "hello", "world")
    segment = base.create_index_uncommitted("id", "INVERTED", name="w", fragment_ids=[0])
    segment = base.merge_existing_index_segments([segment])
    good = land(base, LanceOperation.CreateIndex([segment], []), "good")
    assert good.to_table(full_text_query="hello", columns=["id", "_score"]).num_rows == 1


def test_an_index_of_a_taken_name_is_staged_only_as_a_replacement(uri: Path) -> None:
    create(uri, "a").create_scalar_index("id", "BTREE", name="i")
    dataset = lance.dataset(str(uri))
    with pytest.raises(RuntimeError, match="already exists"):
        dataset.create_index_uncommitted("id", "BTREE", name="i", fragment_ids=[0])
    dataset.create_index_uncommitted("id", "BTREE", name="i", replace=True, fragment_ids=[0])
    assert lance.dataset(str(uri)).version == 2


# ---------------------------------------------------------------- files


def tree(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_a_commit_creates_a_transaction_and_a_manifest(uri: Path) -> None:
    base = create(uri, "a")
    assert tree(uri) >= {f"_versions/{LAST - 1:020d}.manifest"}
    operation = fenced(base, "b")
    before = tree(uri)
    land(base, operation, "my-uuid")
    assert tree(uri) - before == {
        "_transactions/1-my-uuid.txn",
        f"_versions/{LAST - 2:020d}.manifest",
    }


def test_staging_creates_what_its_metadata_names(uri: Path) -> None:
    base = create(uri, "a", "b")
    before = tree(uri)
    (fragment,) = write_fragments(rows("c"), base)
    erased = base.get_fragment(0).delete_rows([0])
    assert tree(uri) - before == {f"data/{fragment.files[0].path}", erased.deletion_file.path(0)}


def test_lance_does_not_sync_local_files() -> None:
    """Seen with strace, too slow to repeat here. If the library learns to, ours may go."""
    library = Path(lance.__file__).with_name("lance.abi3.so")
    assert library.exists()


def test_staged_work_travels_by_pickle(uri: Path) -> None:
    base = create(uri, "a", "b")
    erased = base.get_fragment(0).delete_rows([0])
    (fragment,) = write_fragments(rows("c"), base)
    kept = dataclasses.replace(fragment, row_id_meta=RowIdSequence([0]).to_inline_metadata())
    change = LanceOperation.Update([], [erased], [kept], [], fields(base), "rewrite_rows")
    transaction = Transaction(read_version=1, operation=change, uuid="u")
    after = commit(base, pickle.loads(pickle.dumps(transaction)), max_retries=0)
    assert after.to_table(with_row_id=True).to_pydict() == {
        "id": ["b", "c"],
        "v": [0, 0],
        "_rowid": [1, 0],
    }


def test_a_handle_can_be_read_by_many_threads(uri: Path) -> None:
    dataset = create(uri, *(f"k{n}" for n in range(100)))
    outcomes = race(lambda racer: dataset.to_table(filter=f"id = 'k{racer}'"))
    assert Counter(outcomes) == {"won": RACERS}
    assert copy.copy(dataset).version == 1


def test_forking_locks_its_handle(uri: Path) -> None:
    """So a handle that readers share must not be used for it."""
    dataset = create(uri, "a")
    outcomes = race(lambda racer: dataset.create_branch(f"f{racer}", (None, 1)))
    assert any("Already borrowed" in text for text in outcomes)


# ---------------------------------------------------------------- what we never use


def test_the_dangerous_parts_are_used_nowhere() -> None:
    """Each of them loses data or bricks a table; see the comments in the store."""
    banned = (
        "Data" + "Overlay",
        "delete_" + "unverified",
        "commit_" + "lock=",
        "commit_" + "batch",
    )
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for word in banned
        if word in path.read_text(encoding="utf-8")
    ]
    assert found == []


def test_every_commit_of_ours_goes_without_retries() -> None:
    text = (ROOT / "src" / "omnigraph" / "store" / "gateway.py").read_text(encoding="utf-8")
    # A draft has no place in the history that others could take.
    drafts = text.count("detached=True")
    assert text.count("LanceDataset.commit") == text.count("max_retries=0,") + drafts
    others = [
        path.name
        for path in (ROOT / "src" / "omnigraph").rglob("*.py")
        if path.name != "gateway.py" and "LanceDataset.commit" in path.read_text(encoding="utf-8")
    ]
    assert others == []


def test_merging_never_uses_an_index() -> None:
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src" / "omnigraph").rglob("*.py")
    )
    assert text.count(".merge_insert(") == text.count(".use_index(False)") == 1


def test_importing_lance_needs_no_data_frames() -> None:
    """Nor a REST client: both cost more than the rest of a command.

    Arrow takes pandas along where it is installed, so here it is out of reach.
    """
    script = """
import sys
finders = list(sys.meta_path)
class WithoutPandas:
    def find_spec(self, name, *rest):
        found = () if name == "pandas" else (each.find_spec(name, *rest) for each in finders)
        return next((spec for spec in found if spec is not None), None)
sys.meta_path[:] = [WithoutPandas()]
import omnigraph.store.tables
print(*sorted({"pandas", "pydantic", "lance_namespace"} & set(sys.modules)))
"""
    answer = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == []
