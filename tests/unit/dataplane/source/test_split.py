"""Splits: of any size they give the same rows, every line exactly once."""

import gzip
import io
import json
import pickle
import tempfile
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.dataplane import tuning
from omnigraph.dataplane.decode.chunks import range_chunks
from omnigraph.dataplane.decode.model import DecodeStats
from omnigraph.dataplane.source.model import (
    Compression,
    FileInput,
    FileSplit,
    Format,
    FrameInput,
    SmallFiles,
    SplitPack,
    TableInput,
    TableSplit,
    TypeRef,
)
from omnigraph.dataplane.source.resolve import resolve
from omnigraph.dataplane.source.split import OPEN_BYTES, pack, split
from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.store.io.streams import list_inputs
from tests.unit.dataplane.decoding import CATALOG, read

COUNT = 500
NAMES = [f"cell-{number}" for number in range(COUNT)]
TABLE = pa.table({"name": NAMES, "large": range(COUNT)})
CELL = TypeRef(kind="node", name="Cell")


def as_lines(names: list[str]) -> bytes:
    return b"".join(
        json.dumps({"type": "Cell", "data": {"name": name}}).encode() + b"\n" for name in names
    )


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    found = {name: tmp_path / f"Cell.{name}" for name in ("jsonl", "parquet", "arrow", "csv")}
    found["jsonl"].write_bytes(as_lines(NAMES))
    pq.write_table(TABLE, found["parquet"], row_group_size=60)
    with pa.OSFile(str(found["arrow"]), "wb") as sink, pa.ipc.new_file(sink, TABLE.schema) as out:
        out.write_table(TABLE, max_chunksize=60)
    found["csv"].write_text("name,large\n" + "".join(f"{n},{i}\n" for i, n in enumerate(NAMES)))
    found["jsonl.gz"] = tmp_path / "Cell.jsonl.gz"
    found["jsonl.gz"].write_bytes(gzip.compress(as_lines(NAMES)))
    found["ipc"] = tmp_path / "Cell.ipc"
    with pa.OSFile(str(found["ipc"]), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as out:
        out.write_table(TABLE, max_chunksize=60)
    return found


@pytest.mark.parametrize("wanted", [100, 1_000, 4_000, 1 << 20])
@pytest.mark.parametrize(
    ("kind", "is_divided"),
    [
        ("jsonl", True),
        ("parquet", True),
        ("arrow", True),
        ("csv", False),
        ("jsonl.gz", False),
        ("ipc", False),
    ],
)
def test_any_size_gives_the_same_rows(
    sources: dict[str, Path], kind: str, is_divided: bool, wanted: int, tmp_path: Path
) -> None:
    path = sources[kind]
    result = read(path, tmp_path, bytes_per_split=wanted)
    assert result.values("name") == NAMES
    first = 2 if kind == "csv" else 1
    assert result.lines["Cell"] == list(range(first, COUNT + first))
    assert result.stats.rows == COUNT
    assert result.violations == []
    assert (len(result.splits) > 1) is (is_divided and wanted < 1 << 20)
    if kind != "parquet":  # whose footer belongs to no split
        assert result.stats.bytes == path.stat().st_size


def test_tables_are_sliced(tmp_path: Path) -> None:
    whole = read({"Cell": TABLE}, tmp_path)
    assert len(whole.splits) == 1
    parts = read({"Cell": TABLE}, tmp_path, bytes_per_split=TABLE.nbytes // 7)
    assert len(parts.splits) in (7, 8)
    assert all(isinstance(part, TableSplit) for part in parts.splits)
    assert parts.rows == whole.rows
    assert parts.lines == whole.lines
    assert list_inputs(str(tmp_path / "spool")) == ()


def test_more_splits_than_rows(tmp_path: Path) -> None:
    assert len(read({"Cell": TABLE.slice(0, 3)}, tmp_path, bytes_per_split=1).splits) == 3
    assert len(read({"Cell": TABLE.slice(0, 0)}, tmp_path, bytes_per_split=1).splits) == 1


def test_readers_are_spooled(tmp_path: Path) -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=60))
    result = read({"Cell": reader}, tmp_path, bytes_per_split=2_000)
    assert result.values("name") == NAMES
    assert result.lines["Cell"] == list(range(1, COUNT + 1))
    assert len(result.splits) > 1
    assert len(list_inputs(str(tmp_path / "spool"))) == 1


def test_for_other_processes_everything_is_in_files(tmp_path: Path) -> None:
    source = {"Cell": [TABLE, TABLE.to_reader()]}
    result = read(source, tmp_path, bytes_per_split=4_000, is_remote=True)
    assert result.values("name") == NAMES * 2
    lines = read("-", tmp_path, stdin=io.BytesIO(as_lines(NAMES)), is_remote=True)
    assert lines.values("name") == NAMES
    folder = str(tmp_path / "spool")
    for part in (*result.splits, *lines.splits):
        assert isinstance(part, FileSplit)
        assert part.input.uri.startswith(folder)
        assert not part.input.is_spooled
        assert pickle.loads(pickle.dumps(part)) == part


def test_a_wide_table_in_one_chunk_is_spooled_in_pieces(tmp_path: Path) -> None:
    wide = pa.table({"name": NAMES, "data": [b"x" * 100_000] * COUNT})
    result = read({"Cell": wide}, tmp_path, bytes_per_split=16 << 20, is_remote=True)
    assert len(result.splits) == 3
    assert result.values("name") == NAMES


def test_small_files_are_divided_among_tasks(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.jsonl").write_bytes(as_lines(NAMES[number : number + 1]))
    with resolve(str(tmp_path), CATALOG, grouping=True) as found:
        assert len(split(found.inputs, bytes_per_split=20, spool_to="unused")) > 10
        (files,) = split(found.inputs, bytes_per_split=1 << 10, spool_to="unused")
        assert isinstance(files, SmallFiles)
        (whole,) = pack([files], bytes_per_task=1 << 20)
        packs = pack([files], bytes_per_task=3 * OPEN_BYTES)
    assert whole.parts == (files,)
    assert [part.names for each in packs for part in small(each)] == [
        files.names[:3],
        files.names[3:6],
        files.names[6:9],
        files.names[9:],
    ]
    assert all(part.like == part.file(0) for each in packs for part in small(each))


def small(pack: SplitPack) -> list[SmallFiles]:
    assert all(isinstance(part, SmallFiles) for part in pack.parts)
    return [part for part in pack.parts if isinstance(part, SmallFiles)]


def test_numbers_go_through_all_inputs(sources: dict[str, Path], tmp_path: Path) -> None:
    result = read([sources["jsonl"], sources["parquet"]], tmp_path, bytes_per_split=2_000)
    assert [part.number for part in result.splits] == list(range(len(result.splits)))
    assert result.values("name") == NAMES * 2


def test_a_frame_of_spark_needs_spark() -> None:
    frame = FrameInput(name="Cell", type=CELL, frame=object())
    with pytest.raises(InvalidInput, match="engine='spark'") as caught:
        split([frame], bytes_per_split=1, spool_to="unused")
    assert caught.value.code is Code.ENGINE_UNAVAILABLE


@pytest.mark.parametrize("kind", [Format.PARQUET, Format.ARROW])
def test_a_file_that_went_away(tmp_path: Path, kind: Format) -> None:
    gone = FileInput(uri=str(tmp_path / "x"), name="x", format=kind, size=100, type=CELL)
    with pytest.raises(NotFound, match="x: there is no such file"):
        split([gone], bytes_per_split=1, spool_to="unused")


@pytest.mark.parametrize("kind", [Format.PARQUET, Format.ARROW])
def test_a_damaged_file_is_one_split(tmp_path: Path, kind: Format) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"ARROW1 nonsense" * 10)
    item = FileInput(uri=str(path), name="x", format=kind, size=150, type=CELL)
    (part,) = split([item], bytes_per_split=1, spool_to="unused")
    assert part == FileSplit(number=0, input=item, first_row=1)


def test_row_groups_are_divided_evenly(sources: dict[str, Path]) -> None:
    path = sources["parquet"]
    item = FileInput(
        uri=str(path), name="x", format=Format.PARQUET, size=path.stat().st_size, type=CELL
    )
    footer = pq.read_metadata(path)
    groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
    sizes = [max(group.total_byte_size, group.num_rows * 64) for group in groups]
    wanted = 2 * max(sizes)
    parts = [
        part
        for part in split([item], bytes_per_split=wanted, spool_to="unused")
        if isinstance(part, FileSplit) and part.groups is not None
    ]
    assert len(parts) == -(-sum(sizes) // wanted) > 1
    assert [n for part in parts for n in part.groups or ()] == list(range(len(groups)))
    for part in parts:
        assert part.groups
        assert sum(sizes[n] for n in part.groups) <= wanted + max(sizes)
        assert part.first_row == 1 + sum(group.num_rows for group in groups[: part.groups[0]])


def test_a_small_file_of_many_rows_is_divided(tmp_path: Path) -> None:
    path = tmp_path / "Cell.parquet"
    table = pa.table({"name": ["same"] * 40_000, "large": [7] * 40_000})
    pq.write_table(table, path, row_group_size=10_000, use_dictionary=False, compression="zstd")
    assert path.stat().st_size < 60_000
    assert len(read(path, tmp_path, bytes_per_split=100 << 10).splits) == 4


def test_packed_files_are_not_divided() -> None:
    item = FileInput(
        uri="x", name="x", format=Format.NDJSON, compression=Compression.ZSTD, size=1_000_000
    )
    assert len(split([item], bytes_per_split=10, spool_to="unused")) == 1


def test_tables_without_bytes() -> None:
    item = TableInput(name="Cell", type=CELL, table=pa.table({}))
    (part,) = split([item], bytes_per_split=10, spool_to="unused")
    assert isinstance(part, TableSplit)
    assert part.table.num_rows == 0


# -- byte ranges -----------------------------------------------------------------------------------

TEXTS = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r\n", b"", b"long" * 20]), max_size=60)


@given(
    pieces=TEXTS, cuts=st.lists(st.integers(0, 400), max_size=8), chunk=st.sampled_from([1, 3, 64])
)
def test_every_line_comes_exactly_once(pieces: list[bytes], cuts: list[int], chunk: int) -> None:
    data = b"".join(pieces)
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    stats = DecodeStats()
    starts: list[int] = []
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        found = b""
        small = tuning.tuned(chunk_bytes=chunk, line_tail_bytes=chunk)
        with small, pa.OSFile(file.name) as source:
            for start, stop in pairwise(bounds):
                part = b"".join(range_chunks(source, "x", start, stop, stats))
                if part:
                    starts.append(len(found))
                    # It owns a line that begins inside of it, and whole lines only.
                    assert start <= len(found) < stop
                    assert part.endswith(b"\n") or len(found) + len(part) == len(data)
                found += part
    assert found == data
    assert stats.bytes == len(data)
    assert all(start == 0 or data[start - 1 : start] == b"\n" for start in starts)


def test_one_enormous_line_is_read_about_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1_000_000 + b"\n" + b"y\n")
    with pa.OSFile(str(path)) as file:
        stats = DecodeStats()
        for start in range(0, 1_000_000, 10_000):
            part = b"".join(range_chunks(file, "a", start, start + 10_000, stats))
            assert len(part) == (1_000_001 if start == 0 else 0)
            # A split in the middle of it looks at nothing but its own bytes.
            assert start == 0 or file.tell() <= start + 10_000
