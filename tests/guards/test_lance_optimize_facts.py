"""What optimizing takes for granted about Lance: rewriting, what indexes cover, versions beside.

Like all of `test_lance_*`: an upgrade that changes a fact turns red here first, and some of the
facts are traps that we work around.
"""

import dataclasses
import json
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import FragmentMetadata, LanceOperation
from lance.fragment import RowIdSequence, write_fragments
from lance.optimize import Compaction, CompactionTask

from tests.guards.lance_steps import Transaction, commit, land

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("words", pa.string()),
        pa.field("vector", pa.list_(pa.float32(), 2)),
    ]
)
PLACE_BOUND = "id_ordered"
IDENTITY_BOUND = ("words_text", "vector_near")

task_type: Any = CompactionTask


def rows(*ids: str, word: str | None = None, x: float | None = 0.0) -> pa.Table:
    words = [word or f"word{each}" for each in ids]
    vectors = [None if x is None else [x, float(ord(each[0]))] for each in ids]
    return pa.table([list(ids), words, pa.array(vectors, SCHEMA.field(2).type)], schema=SCHEMA)


def create(uri: Path, *fragments: str) -> Any:
    """A table with one fragment per text; each letter is a row."""
    for number, letters in enumerate(fragments):
        mode: Any = "append" if number else "create"
        lance.write_dataset(
            rows(*letters),
            str(uri),
            mode=mode,
            enable_stable_row_ids=True,
            data_storage_version="2.2",
        )
    return lance.dataset(str(uri))


def draft(dataset: Any, operation: Any, *, tries: int = 1) -> Any:
    transaction = Transaction(read_version=dataset.version, operation=operation, uuid="draft")
    return commit(dataset, transaction, max_retries=tries, detached=True)


def built(dataset: Any, fragments: Sequence[int]) -> list[Any]:
    """A segment of each kind of index over some fragments."""
    options = {"fragment_ids": list(fragments), "replace": True}
    words = dataset.create_index_uncommitted(
        "words", "INVERTED", name=IDENTITY_BOUND[0], with_position=True, **options
    )
    return [
        dataset.create_index_uncommitted("id", "BTREE", name=PLACE_BOUND, **options),
        dataset.merge_existing_index_segments([words]),
        dataset.create_index_uncommitted(
            "vector", "IVF_FLAT", name=IDENTITY_BOUND[1], metric="l2", num_partitions=1, **options
        ),
    ]


def indexed(dataset: Any, fragments: Sequence[int]) -> Any:
    return land(dataset, LanceOperation.CreateIndex(built(dataset, fragments), []), "index")


def segments(dataset: Any) -> dict[str, list[set[int]]]:
    return {
        index.name: [set(segment.fragment_ids) for segment in index.segments]
        for index in dataset.describe_indices()
    }


def rewritten(dataset: Any, fragments: Sequence[int]) -> dict[str, Any]:
    """What a compaction of our own choice of fragments gives."""
    plan: Any = Compaction.plan(dataset, {"target_rows_per_fragment": 1_000})
    options = {**json.loads(plan.json())["options"], "has_eager_remappable_index": False}
    chosen = [dataset.get_fragment(each).metadata.to_json() for each in fragments]
    spec = {
        "task": {"fragments": chosen},
        "read_version": dataset.version,
        "options": options,
    }
    result = task_type.from_json(json.dumps(spec)).execute(dataset)
    described: dict[str, Any] = json.loads(pickle.loads(pickle.dumps(result)).json())
    return described


def rewrite(result: dict[str, Any], number: int = 0) -> Any:
    new = [{**fragment, "id": number} for fragment in result["new_fragments"]]
    old, fresh = (
        [FragmentMetadata.from_json(json.dumps(each)) for each in part]
        for part in (result["original_fragments"], new)
    )
    return LanceOperation.Rewrite([LanceOperation.RewriteGroup(old, fresh)], [])


def updated(dataset: Any, table: pa.Table) -> Any:
    """Write rows anew, with the identities that they have."""
    ids = ", ".join(f"'{each}'" for each in table["id"].to_pylist())
    found = dataset.to_table(
        columns=["id"], filter=f"id in ({ids})", with_row_id=True, with_row_address=True
    )
    (new,) = write_fragments(table, dataset, mode="append")
    order = [found["id"].to_pylist().index(each) for each in table["id"].to_pylist()]
    identities = [found["_rowid"].to_pylist()[each] for each in order]
    kept = dataclasses.replace(new, row_id_meta=RowIdSequence(identities).to_inline_metadata())
    changed = []
    for fragment in {address >> 32 for address in found["_rowaddr"].to_pylist()}:
        offsets = [a & 0xFFFFFFFF for a in found["_rowaddr"].to_pylist() if a >> 32 == fragment]
        changed.append(dataset.get_fragment(fragment).delete_rows(offsets))
    fields = list(range(dataset.max_field_id + 1))
    change = LanceOperation.Update([], changed, [kept], [], fields, "rewrite_rows")
    return land(dataset, change, "update")


def with_word(dataset: Any, word: str) -> list[str]:
    found = dataset.to_table(full_text_query=word, columns=["id", "_score"])
    return sorted(found["id"].to_pylist())


def nearest(dataset: Any, x: float, letter: str) -> list[tuple[str, float]]:
    point = [x, float(ord(letter))]
    found = dataset.to_table(
        nearest={"column": "vector", "q": point, "k": 1}, columns=["id", "_distance"]
    )
    return list(zip(found["id"].to_pylist(), found["_distance"].to_pylist(), strict=True))


# ---------------------------------------------------------------- rewriting


def test_any_fragments_can_be_rewritten_together(uri: Path) -> None:
    """Whatever lies between them. Rows keep identity and versions, deleted ones go."""
    base = create(uri, "ab", "cd", "ef")
    base = land(base, LanceOperation.Delete([base.get_fragment(0).delete_rows([0])], [], "-"))
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    before = base.to_table(columns=columns, with_row_id=True).to_pylist()
    after = land(base, rewrite(rewritten(base, [0, 2])))
    assert [each.fragment_id for each in after.get_fragments()] == [1, 3]
    assert sorted(after.to_table(columns=columns, with_row_id=True).to_pylist(), key=str) == sorted(
        before, key=str
    )
    assert after.get_fragment(3).metadata.num_deletions == 0


def test_rows_are_noted_only_if_asked_for(uri: Path) -> None:
    assert rewritten(indexed(create(uri, "a", "b"), [0, 1]), [0, 1])["row_addrs"] is None


def test_an_index_by_identity_covers_rewritten_fragments_whose_numbers_are_given(
    uri: Path,
) -> None:
    base = indexed(create(uri, "ab", "cd", "ef"), [0, 1, 2])
    after = land(base, rewrite(rewritten(base, [0, 1]), number=3))
    assert [each.fragment_id for each in after.get_fragments()] == [2, 3]
    assert all(segments(after)[name] == [{2, 3}] for name in IDENTITY_BOUND)
    assert with_word(after, "worda") == ["a"]
    assert nearest(after, 0.0, "b") == [("b", 0.0)]


def test_without_numbers_it_covers_a_fragment_that_is_not_there(uri: Path) -> None:
    base = indexed(create(uri, "ab", "cd"), [0, 1])
    after = land(base, rewrite(rewritten(base, [0, 1])))
    assert [each.fragment_id for each in after.get_fragments()] == [2]
    assert all(segments(after)[name] == [{0}] for name in IDENTITY_BOUND)


def test_an_index_by_place_loses_rewritten_fragments(uri: Path) -> None:
    """The reason for building ordered indexes after rewriting, on a draft."""
    base = indexed(create(uri, "ab", "cd", "ef"), [0, 1, 2])
    after = land(base, rewrite(rewritten(base, [0, 1]), number=3))
    assert segments(after)[PLACE_BOUND] == [{2}]
    for letter in "abcdef":
        assert after.to_table(filter=f"id = '{letter}'").num_rows == 1


def test_a_group_that_an_index_by_identity_covers_in_part_is_refused(uri: Path) -> None:
    base = indexed(create(uri, "ab", "cd"), [0])
    change = rewrite(rewritten(base, [0, 1]), number=2)
    with pytest.raises(Exception, match="split of indexed and non-indexed data"):
        land(base, change)
    gone = [
        lance.Index(
            uuid=segment.uuid,
            name=index.name,
            fields=list(index.fields),
            dataset_version=segment.dataset_version_at_last_update,
            fragment_ids=segment.fragment_ids,
            index_version=segment.index_version,
        )
        for index in base.describe_indices()
        for segment in index.segments
        if index.name in IDENTITY_BOUND
    ]
    bare = land(base, LanceOperation.CreateIndex([], gone))
    assert list(segments(bare)) == [PLACE_BOUND]
    assert segments(land(bare, change)) == {PLACE_BOUND: [set()]}


# ---------------------------------------------------------------- several segments


def test_old_words_show_when_another_segment_covers_the_updated_row(uri: Path) -> None:
    """The trap for which a word index with updated rows is built anew."""
    base = indexed(create(uri, "abc"), [0])
    after = updated(base, rows("a", word="fresh"))
    assert with_word(after, "worda") == []
    both = indexed(after, [1])
    assert segments(both)["words_text"] == [{0}, {1}]
    assert with_word(both, "fresh") == ["a"]
    assert with_word(both, "worda") == ["a"]


def test_old_vectors_and_old_keys_do_not(uri: Path) -> None:
    base = indexed(create(uri, "abc"), [0])
    both = indexed(updated(base, rows("a", x=100.0)), [1])
    assert segments(both)["vector_near"] == [{0}, {1}]
    assert nearest(both, 0.0, "a") == [("b", 1.0)]
    assert nearest(both, 100.0, "a") == [("a", 0.0)]
    assert both.to_table(filter="id = 'a'").num_rows == 1


def test_deleted_rows_take_the_place_of_others_once_their_deletion_is_gone(uri: Path) -> None:
    """The trap for which segments that cover deleted rows are replaced with their fragments."""
    base = indexed(create(uri, "abcd"), [0])
    base = land(base, LanceOperation.Delete([base.get_fragment(0).delete_rows([0, 1])], [], "-"))

    def near(dataset: Any) -> list[str]:
        options = {"column": "vector", "q": [0.0, float(ord("a"))], "k": 2}
        found: list[str] = dataset.to_table(nearest=options, columns=["id", "_distance"])[
            "id"
        ].to_pylist()
        return found

    assert near(base) == ["c", "d"]
    after = land(base, rewrite(rewritten(base, [0]), number=1))
    assert near(after) == []


def test_a_row_tells_whether_a_segment_can_know_it(uri: Path) -> None:
    base = indexed(create(uri, "abc"), [0])
    (index,) = [each for each in base.describe_indices() if each.name == "words_text"]
    built_at = index.segments[0].dataset_version_at_last_update
    assert built_at == 1
    after = updated(base, rows("a", word="fresh"))
    lance.write_dataset(rows("d"), str(uri), mode="append")
    after = lance.dataset(str(uri))
    old = f"_row_created_at_version <= {built_at}"
    fragments = {each.fragment_id: each for each in after.get_fragments()}
    assert after.scanner(filter=old, fragments=[fragments[1]]).count_rows() == 1
    assert after.scanner(filter=old, fragments=[fragments[2]]).count_rows() == 0


def test_no_index_of_vectors_is_made_of_none(uri: Path) -> None:
    lance.write_dataset(rows("a", x=None), str(uri), enable_stable_row_ids=True)
    with pytest.raises(RuntimeError, match="0 vectors"):
        built(lance.dataset(str(uri)), [0])


# ---------------------------------------------------------------- versions beside the history


def test_a_draft_is_nobodys_head(uri: Path) -> None:
    base = create(uri, "ab", "cd")
    change = rewrite(rewritten(base, [0, 1]))
    before = set(os.listdir(uri / "_versions"))
    note = (uri / "_versions" / "latest_version_hint.json").read_bytes()
    made = draft(base, change)
    assert made.version >= 1 << 63
    assert set(os.listdir(uri / "_versions")) - before == {f"d{made.version}.manifest"}
    assert (uri / "_transactions" / "2-draft.txn").is_file()
    assert (uri / "_versions" / "latest_version_hint.json").read_bytes() == note
    assert lance.dataset(str(uri)).version == 2
    (uri / "_versions" / "latest_version_hint.json").unlink()
    assert lance.dataset(str(uri)).version == 2
    again = lance.dataset(str(uri), version=made.version)
    assert [each.fragment_id for each in again.get_fragments()] == [2]


def test_a_draft_needs_a_try(uri: Path) -> None:
    base = create(uri, "ab", "cd")
    with pytest.raises(Exception, match="unused random"):
        draft(base, rewrite(rewritten(base, [0, 1])), tries=0)


def test_what_is_built_on_a_draft_holds_for_the_real_version(uri: Path) -> None:
    base = create(uri, "ab", "cd", "ef")
    result = rewritten(base, [0, 1])
    made = draft(base, rewrite(result))
    (number,) = {each.fragment_id for each in made.get_fragments()} - {2}
    there = lance.dataset(str(uri), version=made.version)
    pieces = pickle.loads(pickle.dumps(built(there, [number])))
    assert {piece.dataset_version for piece in pieces} == {made.version}
    os.unlink(uri / "_versions" / f"d{made.version}.manifest")
    moved = land(base, rewrite(result, number=number))
    pieces = [dataclasses.replace(piece, dataset_version=base.version) for piece in pieces]
    after = land(moved, LanceOperation.CreateIndex(pieces, []), "index")
    assert set(map(str, segments(after).values())) == {str([{number}])}
    plan = after.scanner(filter="id = 'c'").explain_plan(True)
    assert "ScalarIndexQuery" in plan
    assert after.to_table(filter="id = 'c'")["words"].to_pylist() == ["wordc"]
    assert with_word(after, "wordd") == ["d"]
    assert nearest(after, 0.0, "c") == [("c", 0.0)]


def test_blobs_are_copied_to_the_fork_that_rewrites_them(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    sizes = (5, 200_000, 5_000_000)
    schema = pa.schema([pa.field("id", pa.int64()), lance.blob_field("b")])
    for size in sizes:
        values = lance.blob_array([bytes([size % 251]) * size, None])
        table = pa.table([pa.array([size, -size]), values], schema=schema)
        mode: Any = "append" if uri.exists() else "create"
        lance.write_dataset(
            table, str(uri), mode=mode, enable_stable_row_ids=True, data_storage_version="2.2"
        )
    trunk: Any = lance.dataset(str(uri))
    trunk.create_branch("dev", (None, trunk.version))
    fork = lance.dataset(str(uri / "tree" / "dev"))
    after = land(fork, rewrite(rewritten(fork, [0, 1, 2])))
    cells = after.read_blobs("b", ids=[0, 1, 2, 3, 4, 5], preserve_order=True)
    assert [None if data is None else (len(data), data[:1]) for _, data in cells] == [
        each for size in sizes for each in ((size, bytes([size % 251])), None)
    ]
    (fragment,) = after.get_fragments()
    assert all(file.base_id is None for file in fragment.metadata.files)
    copied = sum(each.stat().st_size for each in (uri / "tree" / "dev" / "data").rglob("*"))
    assert copied > sum(sizes)


def test_a_filter_of_keys_is_bound_to_places_and_never_leaves_a_row_out(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t", "abcd", "efgh", "ijkl")
    segment = dataset.create_index_uncommitted(
        "id", "BLOOMFILTER", name="id_ordered", replace=True, fragment_ids=[0, 1, 2]
    )
    operation = LanceOperation.CreateIndex([segment], [])
    dataset = lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
    dataset.update({"words": "'new'"}, where="id = 'f'")
    dataset.delete("id = 'a'")
    dataset = lance.dataset(dataset.uri)

    def found() -> str:
        each = (
            dataset.to_table(columns=["id"], filter=f"id = '{name}'") for name in "abcdefghijkl"
        )
        return "".join(row for table in each for row in table.column("id").to_pylist())

    (index,) = dataset.describe_indices()
    assert (index.index_type, index.field_names) == ("BloomFilter", ["id"])
    assert found() == "bcdefghijkl"
    dataset.optimize.compact_files(target_rows_per_fragment=8)
    dataset = lance.dataset(dataset.uri)
    (index,) = dataset.describe_indices()
    left = {fragment for part in index.segments for fragment in part.fragment_ids}
    fragments = {fragment.fragment_id for fragment in dataset.get_fragments()}
    assert left <= {0, 1, 2} & fragments
    assert found() == "bcdefghijkl"
