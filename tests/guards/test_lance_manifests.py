"""Facts about Lance: what a commit leaves in storage, and what can be read back of it later."""

import dataclasses
import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import lance
import pytest
from lance import LanceOperation
from lance import debug as lance_debug
from lance.commit import CommitConflictError
from lance.fragment import RowIdSequence, write_fragments
from lance.optimize import Compaction

from tests.guards.lance_steps import (
    Transaction,
    append,
    commit,
    create,
    fenced,
    fields,
    ids_at,
    land,
    merge,
    rows,
)

LAST = (1 << 64) - 1


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


def test_a_version_holds_its_transaction_and_needs_no_file_beside_it(uri: Path) -> None:
    """So landing removes that file: whoever asks for a commit, or for conflicts, reads versions."""
    base = create(uri, "a", "b")
    stale = lance.dataset(str(uri), version=1)
    land(base, fenced(base, "c"), "first")
    many = write_fragments(rows("x"), base) * 5_000
    land(lance.dataset(str(uri)), LanceOperation.Append(many), "large")
    land(lance.dataset(str(uri)), LanceOperation.Restore(2), "back")
    for file in (uri / "_transactions").iterdir():
        file.unlink()
    dataset: Any = lance.dataset(str(uri))
    found = [dataset.read_transaction(version).uuid for version in (2, 3, 4)]
    assert found == ["first", "large", "back"]
    with pytest.raises(OSError, match="Too many concurrent writers"):
        merge(stale, rows("c"))
    with pytest.raises(CommitConflictError):
        land(stale, fenced(stale, "late"), "late")
    dataset.optimize.compact_files(target_rows_per_fragment=1_000)
    dataset.cleanup_old_versions(retain_versions=1)
    assert ids_at(uri) == ["a", "b", "c"]


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
