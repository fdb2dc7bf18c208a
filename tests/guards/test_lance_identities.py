"""Facts about Lance: by what rows, forks and indexes are known, and who may share a handle."""

import copy
import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.fragment import RowDatasetVersionMeta, RowIdSequence, write_fragments

from tests.guards.lance_steps import (
    RACERS,
    append,
    create,
    fenced,
    fields,
    land,
    merge,
    race,
    rows,
)

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


def test_a_fragment_that_is_there_keeps_the_creation_that_is_given(uri: Path) -> None:
    base = append(create(uri, "a", "b"), "c")
    base.create_scalar_index("id", "BTREE")
    base = lance.dataset(str(uri))
    base.optimize.compact_files(target_rows_per_fragment=1_000)
    base = lance.dataset(str(uri))
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    before = base.to_table(columns=columns, with_row_id=True)
    assert before["_row_created_at_version"].to_pylist() == [1, 1, 2]
    (fragment,) = (each.metadata for each in base.get_fragments())
    once = RowDatasetVersionMeta.from_json('{"inline": [10, 8, 10, 4, 10, 2, 16, 3, 16, 1]}')
    given = dataclasses.replace(fragment, created_at_version_meta=once)
    new = write_fragments(rows("d"), base)
    change = LanceOperation.Update([], [given], new, [], fields(base), "rewrite_rows")
    after = land(base, change, "u")
    found = after.to_table(columns=columns, with_row_id=True)
    assert found["_row_created_at_version"].to_pylist() == [1, 1, 1, after.version]
    rest = ["id", "_row_last_updated_at_version", "_rowid"]
    assert found.select(rest).slice(0, 3).equals(before.select(rest))
    (index,) = after.describe_indices()
    assert set(index.segments[0].fragment_ids) == {fragment.id}
    assert after.to_table(filter="id = 'c'").num_rows == 1


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


# ---------------------------------------------------------------- handles


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


def test_deleted_rows_can_be_read_in_their_places(uri: Path) -> None:
    base = create(uri, "a", "b", "c")
    second = append(base, "d", "e")
    kept = [each.delete_rows([0]) for each in second.get_fragments()]
    after = land(
        second, LanceOperation.Update([], kept, [], [], fields(second), "rewrite_rows"), "u"
    )
    found = after.scanner(
        columns=["id"],
        fragments=after.get_fragments(),
        include_deleted_rows=True,
        with_row_id=True,
        with_row_address=True,
        scan_in_order=True,
    ).to_table()
    assert found.column("id").to_pylist() == ["a", "b", "c", "d", "e"]
    places = [None, 1, 2, None, (1 << 32) + 1]
    assert found.column("_rowaddr").to_pylist() == places
