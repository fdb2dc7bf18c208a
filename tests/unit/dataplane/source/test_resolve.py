"""From what users give to inputs: kinds of sources, formats, types."""

import datetime as dt
import decimal
import gzip
import io
import json
import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.dataplane import tuning
from omnigraph.dataplane.source.model import (
    Compression,
    FileInput,
    Format,
    FrameInput,
    Input,
    ReaderInput,
    SmallFiles,
    SparkTable,
    TableInput,
    TypeRef,
)
from omnigraph.dataplane.source.resolve import resolve
from omnigraph.errors import InvalidInput, NotFound, Unavailable
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Refuse
from omnigraph.store.io.storage_calls import StorageCall
from tests.unit.dataplane.decoding import CATALOG, read

LINE = b'{"type": "Cell", "data": {"name": "a"}}\n'
CELL = TypeRef(kind="node", name="Cell")
LINK = TypeRef(kind="edge", name="Link")
TABLE = pa.table({"name": ["a", "b"]})


def found(source: object, **options: Any) -> tuple[Input, ...]:
    with resolve(source, CATALOG, **options) as inputs:
        return inputs.inputs


def write(path: Path, data: bytes = LINE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# -- files -----------------------------------------------------------------------------------------


def test_one_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl")
    expected = FileInput(
        uri=str(path),
        name=str(path),
        format=Format.NDJSON,
        size=len(LINE),
        modified_ns=path.stat().st_mtime_ns,
    )
    assert found(path) == found(str(path)) == found([path]) == (expected,)


def test_small_files_of_lines_that_follow_each_other_are_one_input(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "c.jsonl.gz", "d.jsonl", "e.csv/Cell.csv", "f/Cell.csv"):
        write(tmp_path / name, b"name\n" if name.endswith("csv") else LINE)
    first, packed, alone, rows = found(tmp_path, grouping=True)
    assert isinstance(first, SmallFiles)
    assert [first.file(0), first.file(1)] == list(found(tmp_path))[:2]
    assert (first.bytes, first.type) == (2 * len(LINE), None)
    assert [packed, alone] == list(found(tmp_path))[2:4]
    assert isinstance(rows, SmallFiles)
    assert (rows.type, len(rows.names)) == (CELL, 2)
    with tuning.tuned(small_file_bytes_max=len(LINE) - 1):
        assert found(f"{tmp_path}/?.jsonl", grouping=True) == found(f"{tmp_path}/?.jsonl")


def test_a_pipe_among_small_files_is_copied(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl")
    os.mkfifo(tmp_path / "b")
    write(tmp_path / "c.jsonl")
    sender = threading.Thread(target=(tmp_path / "b").write_bytes, args=(LINE,))
    sender.start()
    _, piped, _ = found(tmp_path, grouping=True)
    sender.join()
    assert spooled(piped).size == len(LINE)


def test_several_sources_keep_their_order(tmp_path: Path) -> None:
    for name in ("z.jsonl", "folder/b.jsonl", "folder/a.ndjson.gz"):
        write(tmp_path / name)
    inputs = found([tmp_path / "z.jsonl", tmp_path / "folder", f"{tmp_path}/z*"])
    names = [Path(item.name).name for item in inputs]
    assert names == ["z.jsonl", "a.ndjson.gz", "b.jsonl", "z.jsonl"]


def test_storage_options_go_along(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl")
    (item,) = found(path, storage_options={"aws_region": "x"})
    assert isinstance(item, FileInput)
    assert item.storage_options == {"aws_region": "x"}
    assert "aws_region" not in repr(item)


def test_a_format_that_is_told_wins(tmp_path: Path) -> None:
    path = write(tmp_path / "Cell.txt.gz")
    (item,) = found(path, format="csv")
    assert isinstance(item, FileInput)
    assert (item.format, item.compression, item.type) == (Format.CSV, Compression.GZIP, CELL)
    (item,) = found(write(tmp_path / "Cell"), format="tsv.zst")
    assert isinstance(item, FileInput)
    assert (item.format, item.compression) == (Format.TSV, Compression.ZSTD)


def test_a_strange_file_in_a_folder_is_not_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl")
    write(tmp_path / "b.jsonl.bz2")
    with pytest.raises(InvalidInput, match=r"b\.jsonl\.bz2: the name does not tell the format"):
        found(tmp_path)


def test_what_is_missing(tmp_path: Path) -> None:
    for source in (tmp_path / "no.jsonl", [f"{tmp_path}/*.csv"], {"Cell": tmp_path / "no.csv"}):
        with pytest.raises(NotFound):
            found(source)


# -- types of files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Cell.csv", CELL),
        ("Cell-00003.csv.gz", CELL),
        ("deep/Link.parquet", LINK),
        ("Link/part-0001.snappy.parquet", LINK),
        ("Cell.extra.tsv", CELL),
    ],
)
def test_names_tell_types(tmp_path: Path, name: str, expected: TypeRef) -> None:
    path = write(tmp_path / name)
    (item,) = found(path)
    assert item.type == expected


def test_a_schema_tells_the_type(tmp_path: Path) -> None:
    table = TABLE.replace_schema_metadata({"omnigraph:type": "edge:Note"})
    pq.write_table(table, tmp_path / "Cell.parquet")
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema):
        pass
    with pa.OSFile(str(tmp_path / "y.ipc"), "wb") as sink, pa.ipc.new_stream(sink, table.schema):
        pass
    for name in ("Cell.parquet", "x.arrow", "y.ipc"):
        (item,) = found(tmp_path / name)
        assert item.type == TypeRef(kind="edge", name="Note")
    (item,) = found({"Cell": tmp_path / "x.arrow"})
    assert item.type == CELL
    (item,) = found(table)
    assert isinstance(item, TableInput)
    assert item.type == TypeRef(kind="edge", name="Note")


def test_a_schema_that_tells_an_unknown_type(tmp_path: Path) -> None:
    table = TABLE.replace_schema_metadata({"omnigraph:type": "node:Cel"})
    pq.write_table(table, tmp_path / "Cell.parquet")
    with pytest.raises(InvalidInput, match="no type 'node:Cel'; did you mean `Cell`"):
        found(tmp_path / "Cell.parquet")


@pytest.mark.parametrize("name", ["people.csv", "Note.csv", "cell.csv"])
def test_names_that_do_not_tell(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    with pytest.raises(InvalidInput, match=r'give a mapping such as \{"Cell": ') as caught:
        found(path)
    assert ("did you mean `Cell`" in str(caught.value)) is (name == "cell.csv")


def test_a_damaged_schema_is_left_to_decoding(tmp_path: Path) -> None:
    (item,) = found(write(tmp_path / "Cell.parquet", b"PAR1 nonsense"))
    assert item.type == CELL
    (item,) = found(write(tmp_path / "Cell.arrow", b""))
    assert item.type == CELL


def test_a_mapping_names_types(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv")
    inputs = found({"Cell": path, "edge:Note": [path, path], "node:Note": str(path)})
    assert [(item.type.kind, item.type.name) for item in inputs if item.type] == [
        ("node", "Cell"),
        ("edge", "Note"),
        ("edge", "Note"),
        ("node", "Note"),
    ]


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("Note", "say 'node:Note' or 'edge:Note'"),
        ("Cel", "no type 'Cel'; did you mean `Cell`"),
        ("edge:Cell", "no type 'edge:Cell'"),
        ("person", "no type 'person'"),
        (7, "names of types to rows, not from 7"),
    ],
)
def test_wrong_keys(key: object, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        found({key: TABLE})


def test_lines_in_a_mapping_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="without a mapping"):
        found({"Cell": write(tmp_path / "a.jsonl")})


# -- streams ---------------------------------------------------------------------------------------


def spooled(item: Input) -> FileInput:
    assert isinstance(item, FileInput)
    assert item.is_spooled
    return item


def test_standard_input() -> None:
    with resolve("-", CATALOG, stdin=io.BytesIO(LINE)) as inputs:
        item = spooled(inputs.inputs[0])
        assert (item.format, item.size, item.name) == (Format.NDJSON, len(LINE), "standard input")
        assert Path(item.uri).read_bytes() == LINE
    assert not Path(item.uri).exists()
    assert not Path(item.uri).parent.exists()


@pytest.mark.parametrize(
    ("pack", "packing"),
    [
        (gzip.compress, Compression.GZIP),
        (lambda data: pa.compress(data, "zstd", asbytes=True), Compression.ZSTD),
    ],
)
def test_packed_standard_input(
    pack: Callable[[bytes], bytes], packing: Compression, tmp_path: Path
) -> None:
    (item,) = found(["-"], stdin=io.BytesIO(pack(LINE)))
    assert spooled(item).compression is packing
    assert read("-", tmp_path, stdin=io.BytesIO(pack(LINE))).values("name") == ["a"]


def test_standard_input_of_one_type(tmp_path: Path) -> None:
    source = io.BytesIO(b"name\na\n")
    assert read({"Cell": "-"}, tmp_path, stdin=source, format="csv").values("name") == ["a"]
    with pytest.raises(InvalidInput, match="say format="):
        found({"Cell": "-"}, stdin=io.BytesIO(b"name\na\n"))


def test_file_objects(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl.gz", gzip.compress(LINE))
    with open(path, "rb") as file:
        (item,) = found(file)
    assert spooled(item).name == str(path)
    assert spooled(item).compression is Compression.GZIP
    (item,) = found(io.BytesIO(LINE))
    assert spooled(item).format is Format.NDJSON
    sink = io.BytesIO()
    pq.write_table(TABLE, sink)
    sink.seek(0)
    (item,) = found({"Cell": sink})
    assert spooled(item).format is Format.PARQUET


def test_text_mode_is_refused() -> None:
    with pytest.raises(InvalidInput, match="binary mode"):
        found(io.StringIO("x"))


def test_a_pipe_is_spooled(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(LINE,))
    writer.start()
    try:
        assert read(pipe, tmp_path).values("name") == ["a"]
    finally:
        writer.join()


def test_nothing_stays_when_something_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(NotFound):
        found(["-", "no such file.jsonl"], stdin=io.BytesIO(LINE))
    assert os.listdir(tmp_path) == []


# -- rows in memory --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_pandas(),
        pd.DataFrame({"name": ["a", "b"]}, index=["x", "y"]),
        pl.DataFrame({"name": ["a", "b"]}),
    ],
    ids=["table", "batch", "pandas", "pandas with an index", "polars"],
)
def test_tables(rows: Any) -> None:
    (item,) = found({"Cell": rows})
    assert isinstance(item, TableInput)
    assert (item.name, item.type) == ("Cell", CELL)
    assert item.table.column_names == ["name"]
    assert item.table.column("name").to_pylist() == ["a", "b"]


class Streaming:
    """Something that can be read once, through the interface of Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.to_reader().__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("rows", [TABLE.to_reader(), Streaming()], ids=["reader", "stream"])
def test_readers(rows: Any, tmp_path: Path) -> None:
    (item,) = found({"Cell": rows})
    assert isinstance(item, ReaderInput)
    assert item.reader.read_all().equals(TABLE)


def test_several_tables_of_one_type() -> None:
    inputs = found({"Cell": [TABLE, TABLE.to_reader()]})
    assert [item.name for item in inputs] == ["Cell[0]", "Cell[1]"]


def test_no_rows_at_all() -> None:
    (item,) = found({"Cell": []})
    assert isinstance(item, TableInput)
    assert item.table.num_rows == 0


def test_spark_is_recognised_by_name() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    assert found({"Cell": frame}) == (FrameInput(name="Cell", type=CELL, frame=frame),)
    (item,) = found({"Link": "spark:db.links"})
    assert item == FrameInput(name="Link", type=LINK, frame=SparkTable("db.links"))


@pytest.mark.parametrize("source", [TABLE, TABLE.to_pandas(), pl.DataFrame(), 7, object()])
def test_rows_that_do_not_say_whose_they_are(source: object) -> None:
    with pytest.raises(InvalidInput, match="give a mapping"):
        found(source)


@pytest.mark.parametrize("value", [7, None, object(), pl.LazyFrame({"name": ["a"]}), {"a": 1}])
def test_strange_rows(value: object) -> None:
    with pytest.raises(InvalidInput, match="Cell: rows cannot be read from"):
        found({"Cell": value})


# -- dictionaries ----------------------------------------------------------------------------------


def lines(source: object) -> list[Any]:
    with resolve(source, CATALOG) as inputs:
        (item,) = inputs.inputs
        data = Path(spooled(item).uri).read_bytes()
    return [json.loads(line) for line in data.splitlines()]


def test_envelopes() -> None:
    rows = [{"type": "Cell", "data": {"name": "a"}}, {"edge": "Link", "from": "a", "to": "a"}]
    assert lines(rows) == rows


def test_dictionaries_of_a_type() -> None:
    assert lines({"Cell": [{"name": "a", "id": "a"}, {}]}) == [
        {"type": "Cell", "data": {"name": "a", "id": "a"}},
        {"type": "Cell", "data": {}},
    ]
    assert lines({"Link": [{"src": "a", "to": "b", "weight": 1}, {"from": "a"}]}) == [
        {"edge": "Link", "from": "a", "to": "b", "data": {"weight": 1}},
        {"edge": "Link", "from": "a", "data": {}},
    ]


def test_values_of_python_and_numpy() -> None:
    row = {
        "day": dt.date(2024, 3, 31),
        "moment": dt.datetime(2024, 3, 31, 12, tzinfo=dt.UTC),
        "stamp": np.datetime64("2024-03-31T12:00:00.123456789"),
        "data": b"hi",
        "huge": np.uint64(2**64 - 1),
        "large": decimal.Decimal("12"),
        "double": decimal.Decimal("1.5"),
        "vector": np.array([1, 2, 3], np.float32),
        "flag": np.bool_(True),
        "words": ("a", "b"),
        "name": uuid.UUID(int=1),
    }
    ((line),) = lines({"Cell": [row]})
    assert line["data"] == {
        "day": "2024-03-31",
        "moment": "2024-03-31T12:00:00+00:00",
        "stamp": "2024-03-31T12:00:00.123456",
        "data": "base64:aGk=",
        "huge": 2**64 - 1,
        "large": 12,
        "double": 1.5,
        "vector": [1.0, 2.0, 3.0],
        "flag": True,
        "words": ["a", "b"],
        "name": "00000000-0000-0000-0000-000000000001",
    }


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"name": object()}, "Cell, row 2: a value of object cannot be loaded"),
        ({"name": "\ud800"}, "Cell, row 2: .*surrogate"),
        ({("a",): 1}, "Cell, row 2: keys must be"),
    ],
)
def test_values_without_a_form(row: dict[Any, Any], fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        found({"Cell": [{}, row]})


def test_an_end_given_twice() -> None:
    with pytest.raises(InvalidInput, match="Link, row 1: 'from' is given twice"):
        found({"Link": [{"src": "a", "from": "b", "to": "c"}]})


def test_dictionaries_are_read_as_strictly_as_lines(tmp_path: Path) -> None:
    result = read({"Cell": [{"name": "a", "small": 1.0}, {"name": "b", "foo": 1}]}, tmp_path)
    assert result.found == [("type", 1, "small"), ("field", 2, "foo")]
    assert result.violations[0].file == "Cell"


def test_a_disk_that_fails_while_spooling_is_unavailable() -> None:
    with failpoints.armed({StorageCall.OBJECT_PUT: Refuse()}), pytest.raises(Unavailable):
        found("-", stdin=io.BytesIO(LINE))
