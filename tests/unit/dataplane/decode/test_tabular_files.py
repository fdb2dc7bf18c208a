"""Files of every format through the one door: packed, empty, cut off, damaged, gone."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.dataplane.decode.dispatch import decode
from omnigraph.dataplane.decode.model import DecodeSpec, DecodeStats
from omnigraph.dataplane.source.model import FileInput, FileSplit, Format, TypeRef
from omnigraph.errors import Code, NotFound, Unavailable
from omnigraph.rules.violation import Violations
from omnigraph.runtime import failpoints
from omnigraph.runtime.failpoints import Refuse
from omnigraph.runtime.ids import UlidIds
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.io.streams import open_output, stream_size
from tests.unit.dataplane.decoding import CATALOG, read

COUNT = 3_000
NAMES = [f"cell-{number}" for number in range(COUNT)]
TABLE = pa.table({"name": NAMES, "small": pa.array(range(COUNT), pa.int32())})
LINES = [
    json.dumps({"type": "Cell", "data": {"name": name, "small": number}}).encode() + b"\n"
    for number, name in enumerate(NAMES)
]

Pack = Callable[[bytes], bytes]


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, "zstd", asbytes=True)
    return packed


PACKS: list[tuple[str, Pack]] = [("gz", gzip.compress), ("zst", zstd)]


def ipc(*, is_file: bool, rows: int = 500, codec: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    make = pa.ipc.new_file if is_file else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with make(sink, TABLE.schema, options=options) as writer:
        writer.write_table(TABLE, max_chunksize=rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def parquet(**options: object) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, row_group_size=500, **options)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def csv() -> bytes:
    return b"name,small\n" + b"".join(b"cell-%d,%d\n" % (n, n) for n in range(COUNT))


FILES: dict[str, bytes] = {
    "Cell.jsonl": b"".join(LINES),
    "Cell.csv": csv(),
    "Cell.tsv": csv().replace(b",", b"\t"),
    "Cell.arrow": ipc(is_file=True),
    "Cell.feather": ipc(is_file=True, codec="lz4"),
    "Cell.ipc": ipc(is_file=False, codec="zstd"),
    "Cell.parquet": parquet(),
    "Cell-0.zstd.parquet": parquet(compression="zstd", use_dictionary=False),
}
PACKABLE = [name for name in FILES if "parquet" not in name]


@pytest.mark.parametrize("name", FILES)
def test_plain_files(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    check(tmp_path / name, tmp_path)


@pytest.mark.parametrize(("suffix", "pack"), PACKS)
@pytest.mark.parametrize("name", PACKABLE)
def test_packed_files(name: str, suffix: str, pack: Pack, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.{suffix}"
    path.write_bytes(pack(FILES[name]))
    check(path, tmp_path)
    assert read(path, tmp_path).stats.bytes == path.stat().st_size


@pytest.mark.parametrize(("suffix", "pack"), PACKS)
@pytest.mark.parametrize("name", PACKABLE)
def test_packed_in_several_members(name: str, suffix: str, pack: Pack, tmp_path: Path) -> None:
    data, third = FILES[name], len(FILES[name]) // 3
    members = [data[:third], b"", data[third : 2 * third], data[2 * third :]]
    path = tmp_path / f"{name}.{suffix}"
    path.write_bytes(b"".join(pack(member) for member in members))
    check(path, tmp_path)


def check(path: Path, folder: Path) -> None:
    result = read(path, folder)
    assert result.violations == []
    assert result.values("name") == NAMES
    assert result.values("small") == list(range(COUNT))
    first = 2 if ".csv" in path.name or ".tsv" in path.name else 1
    assert result.lines["Cell"] == list(range(first, COUNT + first))


def test_objects_are_read_in_splits(tmp_path: Path) -> None:
    base = f"memory:///{UlidIds().new()}"
    for name in ("Cell.jsonl", "Cell.parquet", "Cell.arrow"):
        with open_output(f"{base}/{name}") as output:
            output.write(FILES[name])
    result = read(base, tmp_path, bytes_per_split=20_000)
    assert result.violations == []
    assert len(result.splits) > 6
    assert sorted(result.values("name")) == sorted(NAMES * 3)


# -- damaged files ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "pack"), PACKS)
def test_lines_cut_off(suffix: str, pack: Pack, tmp_path: Path) -> None:
    """Every line before the cut is read, and there is one violation, at the line of the cut."""
    data = pack(b"".join(LINES))
    for size in (len(data) - 1, len(data) // 2, 20):
        path = tmp_path / f"a.jsonl.{suffix}"
        path.write_bytes(data[:size])
        result = read(path, tmp_path)
        whole = len(result.rows["Cell"])
        assert result.values("name") == NAMES[:whole]
        assert [(v.rule.value, v.line, v.file) for v in result.violations] == [
            ("syntax", whole + 1, str(path))
        ]
        message = result.violations[0].message
        assert message.startswith("the file is damaged, cut off or no ndjson")


def test_a_cut_in_the_middle_of_a_line_is_one_violation(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    text = b"".join(LINES[:10])[:-5]
    path.write_bytes(gzip.compress(text)[:-8])  # all of the data, without the checksum
    result = read(path, tmp_path)
    assert len(result.rows["Cell"]) == 9
    assert result.found == [("syntax", 10, "")]


@pytest.mark.parametrize(("suffix", "pack"), PACKS)
def test_garbage_after_the_end(suffix: str, pack: Pack, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl.{suffix}"
    path.write_bytes(pack(b"".join(LINES)) + b"garbage!")
    result = read(path, tmp_path)
    assert result.values("name") == NAMES
    assert result.found == [("syntax", COUNT + 1, "")]


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_what_is_not_packed_at_all(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl.{suffix}"
    path.write_bytes(LINES[0])
    assert read(path, tmp_path).found == [("syntax", 1, "")]


@pytest.mark.parametrize(("suffix", "pack"), PACKS)
def test_bits_that_flipped(suffix: str, pack: Pack, tmp_path: Path) -> None:
    data = bytearray(pack(b"".join(LINES)))
    data[len(data) // 2] ^= 0x55
    path = tmp_path / f"a.jsonl.{suffix}"
    path.write_bytes(data)
    result = read(path, tmp_path)
    assert ("syntax", "") in {(rule, name) for rule, _, name in result.found}


@pytest.mark.parametrize(
    "name", ["Cell.parquet", "Cell.arrow", "Cell.ipc", "Cell.arrow.gz", "Cell.ipc.zst"]
)
@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"PAR1", b"ARROW1\0\0", b"PAR1" + b"\0" * 100 + b"PAR1", b"\xff" * 8 + b"\0" * 50],
)
def test_what_is_no_table(name: str, data: bytes, tmp_path: Path) -> None:
    pack = {"gz": gzip.compress, "zst": zstd}.get(name.rpartition(".")[2], bytes)
    (tmp_path / name).write_bytes(pack(data))
    result = read(tmp_path / name, tmp_path)
    assert result.rows["Cell"] == []
    assert result.found == [("syntax", 1, "")]
    (item,) = result.violations
    assert (item.kind, item.type_name) == ("node", "Cell")


@pytest.mark.parametrize("name", ["Cell.arrow", "Cell.ipc", "Cell.parquet"])
@pytest.mark.parametrize("part", [0.3, 0.9])
def test_tables_cut_off(name: str, part: float, tmp_path: Path) -> None:
    data = FILES[name]
    (tmp_path / name).write_bytes(data[: int(len(data) * part)])
    result = read(tmp_path / name, tmp_path)
    whole = len(result.rows["Cell"])
    assert whole % 500 == 0
    assert result.values("name") == NAMES[:whole]
    assert result.found == [("syntax", whole + 1, "")]


def test_batches_that_lead_astray(tmp_path: Path) -> None:
    """Offsets beyond the data would otherwise be followed."""
    table = pa.table({"name": ["aaaa", "bbbb", "cccc"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    offsets = b"".join(n.to_bytes(4, "little") for n in (0, 4, 8, 12))
    assert data.count(offsets) == 1
    wrong = b"".join(n.to_bytes(4, "little") for n in (0, 4, 1 << 30, 12))
    (tmp_path / "Cell.arrow").write_bytes(data.replace(offsets, wrong))
    result = read(tmp_path / "Cell.arrow", tmp_path)
    assert result.found == [("syntax", 1, "")]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_no_lines(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    result = read(tmp_path / name, tmp_path)
    assert (result.violations, result.stats.lines) == ([], 0)


def test_no_rows(tmp_path: Path) -> None:
    empty = pa.table({"name": pa.array([], pa.string()), "smal": pa.array([], pa.int32())})
    pq.write_table(empty, tmp_path / "Cell.parquet")
    for suffix, make in (("arrow", pa.ipc.new_file), ("ipc", pa.ipc.new_stream)):
        with pa.OSFile(str(tmp_path / f"Cell.{suffix}"), "wb") as sink, make(sink, empty.schema):
            pass
    for suffix in ("parquet", "arrow", "ipc"):
        result = read(tmp_path / f"Cell.{suffix}", tmp_path)
        assert result.found == [("field", None, "smal")]
        assert result.rows["Cell"] == []


# -- faults of rows in files -----------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize("wanted", [3_000, 1 << 30])
def test_rows_have_their_numbers(suffix: str, wanted: int, tmp_path: Path) -> None:
    values = [None if n in (0, 1_700, COUNT - 1) else n for n in range(COUNT)]
    texts = pa.array([str(n) if n is None else None for n in values])
    table = pa.table({"name": NAMES, "day": texts})
    path = tmp_path / f"Cell.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path, row_group_size=250)
    elif suffix == "arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table, max_chunksize=250)
    else:
        cells = ("None" if n is None else "" for n in values)
        rows = "".join(f"{name},{cell}\n" for name, cell in zip(NAMES, cells, strict=True))
        path.write_text("name,day\n" + rows)
    result = read(path, tmp_path, bytes_per_split=wanted)
    first = 2 if suffix == "csv" else 1
    assert [line for _, line, _ in result.found] == [
        first,
        1_700 + first,
        COUNT - 1 + first,
    ]
    assert {rule for rule, _, _ in result.found} == {"type"}


def test_lines_have_their_numbers(tmp_path: Path) -> None:
    lines = list(LINES)
    for number in (1, 1_700, COUNT):
        lines[number - 1] = b'{"type": "Cell", "data": {"name": "x", "small": "?"}}\n'
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    for wanted in (1_000, 50_000, 1 << 30):
        result = read(tmp_path / "a.jsonl", tmp_path, bytes_per_split=wanted)
        assert [line for _, line, _ in result.found] == [1, 1_700, COUNT]
        assert len(result.rows["Cell"]) == COUNT - 3


# -- storage ---------------------------------------------------------------------------------------

CELL = TypeRef(kind="node", name="Cell")


@pytest.mark.parametrize("kind", list(Format))
def test_a_file_that_went_away(kind: Format, tmp_path: Path) -> None:
    gone = FileInput(uri=str(tmp_path / "gone"), name="in/gone", format=kind, size=9, type=CELL)
    split = FileSplit(number=0, input=gone, first_row=1)
    with pytest.raises(NotFound, match="in/gone: there is no such file") as caught:
        list(decode(split, DecodeSpec(catalog=CATALOG), Violations(), DecodeStats()))
    assert caught.value.code is Code.FILE_NOT_FOUND


@pytest.mark.parametrize("name", FILES)
def test_storage_that_fails_is_unavailable_and_no_violation(name: str, tmp_path: Path) -> None:
    uri = f"memory:///{UlidIds().new()}/{name}"
    with open_output(uri) as output:
        output.write(FILES[name])
    kind = read_kind(name)
    item = FileInput(uri=uri, name=name, format=kind, size=stream_size(uri), type=CELL)
    split = FileSplit(number=0, input=item, first_row=1)
    out = Violations()
    with (
        failpoints.armed({StorageCall.OBJECT_GET: Refuse()}) as armed,
        pytest.raises(Unavailable),
    ):
        list(decode(split, DecodeSpec(catalog=CATALOG), out, DecodeStats()))
    assert armed.fired is StorageCall.OBJECT_GET
    assert out.total == 0


def read_kind(name: str) -> Format:
    suffix = name.rpartition(".")[2]
    names = {"jsonl": "ndjson", "feather": "arrow", "ipc": "arrow"}
    return Format(names.get(suffix, suffix))
