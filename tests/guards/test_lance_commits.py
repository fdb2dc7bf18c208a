"""Facts about Lance: which commits land, and which are refused, rebased or applied twice."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from tests.guards.lance_steps import (
    PRIMARY_KEY,
    RACERS,
    Transaction,
    append,
    commit,
    create,
    fenced,
    fields,
    ids_at,
    land,
    merge,
    race,
    rows,
    staged_create,
)

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
    """A trap for whoever merges by Lance's own means."""
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
    """So ours land by exact version: without that, two of one new key both land."""
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
