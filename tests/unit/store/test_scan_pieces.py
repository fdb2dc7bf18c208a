"""Scanning a table in pieces: some fragments, batches of few bytes, sizes of blobs."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.core.repository import Repository
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.reading.blob_values import blob_bytes, blob_sizes
from omnigraph.store.root import Root
from omnigraph.store.tables import Table
from tests.graphs import PERSON, Delta, make, people, write


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Four fragments; a row of the second is gone, one of the third has moved to the fourth."""
    repo = make(Root.parse(str(tmp_path / "graph")))
    write(repo, {PERSON: people("a", "b")})
    write(repo, {PERSON: people("c", "d", "e")})
    write(repo, {PERSON: people("f", "g")})
    write(repo, {PERSON: Delta(update={"f": {"age": 1}}, delete=["d"])})
    return repo.table(repo.snapshot().pin(PERSON))


def ids(reader: pa.RecordBatchReader) -> list[str]:
    found: list[str] = reader.read_all().column("id").to_pylist()
    return found


def test_only_the_rows_of_some_fragments(table: Table) -> None:
    first, second, third, fourth = table.fragment_ids()
    assert ids(table.scan(["id"])) == ["a", "b", "c", "e", "g", "f"]
    assert ids(table.scan(["id"], fragments=[third])) == ["g"]
    # In storage order, whatever order they are named in.
    assert ids(table.scan(["id"], fragments=[fourth, second, second])) == ["c", "e", "f"]
    assert ids(table.scan(["id"], fragments=[first, fourth], filter="id > 'a'")) == ["b", "f"]
    assert ids(table.scan(["id"], fragments=[])) == []


def test_the_rows_of_all_pieces_are_all_rows(table: Table) -> None:
    pieces = [ids(table.scan(["id"], fragments=[each])) for each in table.fragment_ids()]
    assert [each for piece in pieces for each in piece] == ids(table.scan(["id"]))
    assert [len(piece) for piece in pieces] == [rows for _, rows in table.fragment_rows()]


def test_a_fragment_that_is_not_there_is_noticed(table: Table) -> None:
    with pytest.raises(StorageFailure, match=r"\[99\]") as caught:
        table.scan(["id"], fragments=[0, 99])
    assert caught.value.kind is FailureKind.NOT_FOUND


def test_batches_are_bounded_in_bytes(tmp_path: Path) -> None:
    repo = make(Root.parse(str(tmp_path / "graph")))
    names = [f"{number:03}" + "x" * 10_000 for number in range(300)]
    write(repo, {PERSON: people(*names)})
    table = repo.table(repo.snapshot().pin(PERSON))
    batches = list(table.scan(["id"], batch_bytes=100_000))
    assert max(batch.nbytes for batch in batches) <= 200_000
    assert [each for batch in batches for each in batch.column("id").to_pylist()] == names


def test_sizes_of_blobs_are_told_without_reading_them(tmp_path: Path) -> None:
    schema = "node File { path: String @key  one: Blob?  two: Blob? }"
    repo: Repository = make(Root.parse(str(tmp_path / "graph")), schema)
    cells = [(b"", None), (b"abc", b"x" * 100_000), (None, None), (b"", b"y")]
    files = [
        {"id": str(k), "path": str(k), "one": one, "two": two} for k, (one, two) in enumerate(cells)
    ]
    write(repo, {"node:File": Delta(insert=files)})
    table = repo.table(repo.snapshot().pin("node:File"))
    row_ids = table.read(["id"], row_id=True).column("_rowid").to_pylist()
    assert blob_sizes(table, ["one", "two"], row_ids) == [0, 100_003, 0, 1]
    assert blob_sizes(table, ["one"], row_ids[::-1]) == [0, 0, 3, 0]
    assert blob_sizes(table, [], row_ids) == [0, 0, 0, 0]
    assert blob_sizes(table, ["one"], []) == []
    assert blob_bytes(table, ["one", "two"], row_ids) == 100_004
