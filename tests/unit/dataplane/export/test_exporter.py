"""Exporting: what is written, where, and what is left when it goes wrong."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.dataplane import tuning
from omnigraph.dataplane.export import rows as reading
from omnigraph.dataplane.export.exporter import Exporter
from omnigraph.dataplane.export.model import Exported, ExportRequest
from omnigraph.dataplane.progress import Monitor, Progress, StopRequested
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Runner
from omnigraph.errors import Corrupt, Gone, InvalidInput, Unavailable
from omnigraph.runtime.failpoints import Refuse, armed
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.types import BranchName
from tests.graphs import Delta, make, write

Item = TypeVar("Item")
Result = TypeVar("Result")

SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]? }
node File { path: String @key  content: Blob?  vector: Vector(2)? }
node Note { text: String? }
edge Knows: Person -> Person { since: Date? }
edge Person: Person -> File
"""
PERSON, FILE, NOTE, KNOWS, OWNS = (
    "node:Person",
    "node:File",
    "node:Note",
    "edge:Knows",
    "edge:Person",
)
PLAIN_LINES = [
    '{"type":"File","data":{"id":"f","content":"base64:aGk=","path":"f","vector":[0.5,-1]}}',
    '{"type":"File","data":{"id":"g","content":null,"path":"g","vector":null}}',
    '{"type":"Person","data":{"id":"b","age":null,"name":"b","tags":[]}}',
    '{"type":"Person","data":{"id":"a \\"q\\"","age":7,"name":"a \\"q\\"","tags":["x","é"]}}',
    '{"edge":"Knows","from":"b","to":"a \\"q\\"","data":{"id":"e1","since":null}}',
    '{"edge":"Person","from":"b","to":"f","data":{"id":"e2"}}',
]
ROWS = {FILE: 2, NOTE: 0, PERSON: 2, KNOWS: 1, OWNS: 1}


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    graph = make(Root.parse(str(tmp_path / "graph")), SCHEMA)
    write(
        graph,
        {
            PERSON: Delta(
                insert=[
                    {"id": "b", "name": "b", "tags": []},
                    {"id": 'a "q"', "name": 'a "q"', "age": 6, "tags": ["x", "é"]},
                    {"id": "gone", "name": "gone"},
                ]
            ),
            FILE: Delta(
                insert=[
                    {"id": "f", "path": "f", "content": b"hi", "vector": [0.5, -1.0]},
                    {"id": "g", "path": "g"},
                ]
            ),
        },
    )
    write(
        graph,
        {
            PERSON: Delta(update={'a "q"': {"age": 7}}, delete=["gone"]),
            KNOWS: Delta(insert=[{"id": "e1", "src": "b", "dst": 'a "q"'}]),
            OWNS: Delta(insert=[{"id": "e2", "src": "b", "dst": "f"}]),
        },
    )
    return graph


def monitor(repo: Repository, listener: Callable[[Progress], None] | None = None) -> Monitor:
    return Monitor("export", "inprocess", "test", repo.clock, listener)


def export(
    repo: Repository,
    target: str | Path | BinaryIO,
    *,
    snapshot: GraphVersion | None = None,
    runner: Runner | None = None,
    watch: Monitor | None = None,
    **options: Any,
) -> Exported:
    pinned = snapshot or repo.snapshot()
    request = ExportRequest(
        snapshot=pinned,
        catalog=repo.schema(pinned).catalog,
        target=str(target) if isinstance(target, Path) else target,
        **options,
    )
    return Exporter(repo).export(request, runner or InProcessRunner(2), watch or monitor(repo))


def many(repo: Repository, writes: int = 5, each: int = 30) -> None:
    """People in several fragments."""
    for number in range(writes):
        names = [f"p{number}-{k}" for k in range(each)]
        write(repo, {PERSON: Delta(insert=[{"id": n, "name": n, "age": 1} for n in names])})


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class ShippingRunner:
    """Like a cluster: tasks travel as bytes, and each runs twice, the later ones first."""

    is_remote = True
    parallelism = 3

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        for number in reversed(range(len(items))):
            shipped = pickle.dumps((task, items[number]))
            work, item = pickle.loads(shipped)
            first, again = work(item), work(item)
            assert first == again
            yield number, pickle.loads(pickle.dumps(again))


# -- one file of lines -----------------------------------------------------------------------------


def test_nodes_come_first_then_edges_by_name_in_storage_order(
    repo: Repository, tmp_path: Path
) -> None:
    target = tmp_path / "deep" / "out.jsonl"
    done = export(repo, target)
    assert target.read_text().splitlines() == PLAIN_LINES
    assert done == Exported(
        files=(str(target),),
        rows=ROWS,
        bytes=target.stat().st_size,
        commit=repo.snapshot().head,
        is_parallel=False,
    )
    assert list(done.rows) == [FILE, NOTE, PERSON, KNOWS, OWNS]
    assert names_in(target.parent) == ["out.jsonl"]


def test_threads_and_engines_change_nothing(repo: Repository, tmp_path: Path) -> None:
    many(repo)
    texts = []
    runners: list[Runner] = [InProcessRunner(1), InProcessRunner(4), ShippingRunner()]
    for number, runner in enumerate(runners):
        target = tmp_path / f"{number}.jsonl"
        export(repo, target, runner=runner)
        texts.append(target.read_bytes())
    assert len(texts[0].splitlines()) == 156
    assert texts[0] == texts[1] == texts[2]


def test_a_commit_or_a_branch_is_exported_as_it_was(repo: Repository, tmp_path: Path) -> None:
    before = repo.snapshot()
    dev = BranchName("dev")
    repo.create_branch(dev)
    write(repo, {PERSON: Delta(delete=["b"]), KNOWS: Delta(delete=["e1"])}, branch=dev)
    write(repo, {NOTE: Delta(insert=[{"id": "n", "text": "new"}])})
    export(repo, tmp_path / "old.jsonl", snapshot=before)
    assert (tmp_path / "old.jsonl").read_text().splitlines() == PLAIN_LINES
    done = export(repo, tmp_path / "dev.jsonl", snapshot=repo.snapshot(dev))
    assert done.rows == {**ROWS, PERSON: 1, KNOWS: 0}
    assert done.commit == repo.snapshot(dev).head
    assert export(repo, tmp_path / "new.jsonl").rows == {**ROWS, NOTE: 1}


@pytest.mark.parametrize(
    ("types", "keys"),
    [
        (("Knows",), [KNOWS]),
        (("Person",), [PERSON, OWNS]),  # a node type and an edge type
        (("edge:Person", "File", "File"), [FILE, OWNS]),
        ((), []),
    ],
)
def test_types_are_chosen_by_name(
    repo: Repository, types: tuple[str, ...], keys: list[str]
) -> None:
    output = io.BytesIO()
    done = export(repo, output, types=types)
    assert list(done.rows) == keys
    assert len(output.getvalue().splitlines()) == sum(done.rows.values())


@pytest.mark.parametrize(
    ("name", "hint"), [("Persn", "`Person`"), ("edge:Know", "`edge:Knows`"), ("Zebra", "Zebra")]
)
def test_an_unknown_type_is_refused(repo: Repository, name: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint):
        export(repo, io.BytesIO(), types=(name,))


def test_numbers_that_json_cannot_say_are_refused(tmp_path: Path) -> None:
    graph = make(Root.parse(str(tmp_path / "graph")), "node A { x: F64? }")
    write(graph, {"node:A": Delta(insert=[{"id": "a", "x": float("nan")}])})
    with pytest.raises(Corrupt, match="not finite"):
        export(graph, tmp_path / "out.jsonl")
    assert names_in(tmp_path) == ["graph"]
    export(graph, tmp_path / "out.parquet")


# -- streams ---------------------------------------------------------------------------------------


class Trickle(io.RawIOBase):
    """An unbuffered file that takes a few bytes at a time."""

    def __init__(self) -> None:
        self.taken = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        piece = bytes(data[:7])
        self.taken += piece
        return len(piece)


def test_streams_take_it_and_stay_open(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = "\n".join([*PLAIN_LINES, ""]).encode()
    output = io.BytesIO()
    done = export(repo, output)
    assert (output.getvalue(), done.files, done.bytes) == (whole, ("-",), len(whole))
    trickle = Trickle()
    export(repo, cast(BinaryIO, trickle))
    assert trickle.taken == whole
    screen = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", screen)
    screen.write("before\n")
    export(repo, "-")
    screen.seek(0)
    assert screen.read().encode() == b"before\n" + whole
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with pytest.raises(InvalidInput, match="standard output"):
        export(repo, "-")


@pytest.mark.parametrize("target", [io.StringIO(), None, 3])
def test_other_things_are_no_targets(repo: Repository, target: Any) -> None:
    with pytest.raises(InvalidInput, match="takes bytes"):
        export(repo, target)


def test_a_stream_takes_no_parts(repo: Repository) -> None:
    with pytest.raises(InvalidInput, match="name a folder"):
        export(repo, io.BytesIO(), parts=True)


# -- compression and formats -----------------------------------------------------------------------


def test_lines_are_packed_by_suffix_or_on_demand(repo: Repository, tmp_path: Path) -> None:
    many(repo)
    plain = io.BytesIO()
    export(repo, plain)
    export(repo, tmp_path / "out.jsonl.gz")
    assert gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()) == plain.getvalue()
    export(repo, tmp_path / "out.ndjson.zst")
    with pa.input_stream(str(tmp_path / "out.ndjson.zst"), compression="zstd") as file:
        assert file.read() == plain.getvalue()
    packed = io.BytesIO()
    done = export(repo, packed, compression="gzip")
    assert gzip.decompress(packed.getvalue()) == plain.getvalue()
    assert done.bytes == len(packed.getvalue()) < len(plain.getvalue())


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("a.jsonl", {"format": "csv"}, "no format 'csv'"),
        ("a.jsonl", {"compression": "lz4"}, "no compression 'lz4'"),
        ("a.jsonl.gz", {"compression": "zstd"}, "the name says gzip"),
        ("a.arrow", {"compression": "gzip", "types": ("Note",)}, "zstd"),
        ("a.parquet.gz", {"types": ("Note",)}, "leave .gz away"),
        ("a.parquet", {}, "one type"),
        ("a.arrow", {"types": ("Person",)}, "one type"),
        ("a.jsonl", {"types": "Person"}, "list of names"),
        ("ftp://host/a", {}, "scheme"),
    ],
)
def test_requests_that_make_no_sense(
    repo: Repository, tmp_path: Path, name: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidInput, match=text):
        export(repo, name if ":" in name else tmp_path / name, **options)
    assert names_in(tmp_path) == ["graph"]


def test_arrow_and_parquet_keep_the_columns(repo: Repository, tmp_path: Path) -> None:
    for key, columns in {
        FILE: ["id", "content", "path", "vector"],
        KNOWS: ["id", "from", "to", "since"],
        NOTE: ["id", "text"],
    }.items():
        stored = repo.read(repo.snapshot(), key).rename_columns(columns)
        arrow, parquet = tmp_path / f"{key}.arrow", tmp_path / f"{key}.parquet"
        for target in (arrow, parquet):
            done = export(repo, target, types=(key,))
            assert done.rows == {key: ROWS[key]}
            assert done.bytes == target.stat().st_size
        for found in (pa.ipc.open_file(str(arrow)).read_all(), pq.read_table(parquet)):
            assert found.schema.metadata == {b"omnigraph:type": key.encode()}
            assert found.to_pylist() == stored.to_pylist()
            assert found.schema.types == stored.schema.types
    described = pq.ParquetFile(tmp_path / f"{FILE}.parquet").metadata.row_group(0).column(0)
    assert described.compression == "ZSTD"


def test_arrow_goes_to_streams_too(repo: Repository) -> None:
    output = io.BytesIO()
    export(repo, output, types=("Knows",), format="arrow", compression="zstd")
    table = pa.ipc.open_file(io.BytesIO(output.getvalue())).read_all()
    assert table.column("from").to_pylist() == ["b"]


def test_large_blobs_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make(Root.parse(str(tmp_path / "graph")), SCHEMA)
    sizes = [0, 10, None, 900, 30, 30, 30, 2_000, 1]
    files = [
        {"id": f"f{k}", "path": f"f{k}", "content": None if size is None else b"x" * size}
        for k, size in enumerate(sizes)
    ]
    write(graph, {FILE: Delta(insert=files)})
    monkeypatch.setattr(tuning.active, "batch_bytes", 100)
    pin = graph.snapshot().pin(FILE)
    entity = graph.schema(graph.snapshot()).catalog.node_by_name["File"]
    batches = list(reading.read_rows(graph.table(pin), entity))
    assert max(batch.num_rows for batch in batches) < len(sizes)
    for batch in batches:
        content = [each for each in batch.column("content").to_pylist() if each is not None]
        assert batch.num_rows == 1 or sum(map(len, content)) <= 100
    table = pa.Table.from_batches(batches)
    assert table.column("content").to_pylist() == [file["content"] for file in files]
    assert table.column_names == ["id", "content", "path", "vector"]


# -- folders ---------------------------------------------------------------------------------------


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part after every few dozen rows."""
    monkeypatch.setattr(tuning.active, "part_text_bytes", 6_000)


def test_a_folder_holds_the_same_lines_and_says_so(
    repo: Repository, tmp_path: Path, small_parts: None
) -> None:
    many(repo)
    whole = io.BytesIO()
    export(repo, whole)
    out = tmp_path / "out"
    done = export(repo, f"{out}/")
    assert done.is_parallel
    assert b"".join(Path(file).read_bytes() for file in done.files) == whole.getvalue()
    files = [Path(file).name for file in done.files]
    assert files[0] == "File-00000.ndjson"
    assert files[1:4] == [f"Person-0000{number}.ndjson" for number in range(3)]
    assert files[-2:] == ["Knows-00000.ndjson", "edge.Person-00000.ndjson"]
    assert names_in(out) == sorted([*files, "_export.json"])
    manifest = json.loads((out / "_export.json").read_text())
    snapshot = repo.snapshot()
    types = manifest.pop("types")
    assert manifest == {
        "version": 1,
        "format": "ndjson",
        "compression": "none",
        "commit": snapshot.head,
        "branch": "main",
        "schema_digest": snapshot.schema_digest,
    }
    assert {item["type"]: item["rows"] for item in types} == done.rows == {**ROWS, PERSON: 152}
    told = [file for item in types for file in item["files"]]
    assert [file["name"] for file in told] == files
    assert [file["bytes"] for file in told] == [Path(file).stat().st_size for file in done.files]
    assert sum(file["rows"] for file in told) == sum(done.rows.values())


@pytest.mark.parametrize("format", ["ndjson", "arrow", "parquet"])
def test_tasks_that_run_twice_elsewhere_write_the_same(
    repo: Repository, tmp_path: Path, small_parts: None, format: str
) -> None:
    many(repo)
    runners: dict[str, Runner] = {"one": InProcessRunner(2), "two": ShippingRunner()}
    for name, runner in runners.items():
        export(repo, tmp_path / name, parts=True, format=format, runner=runner)
    one, two = tmp_path / "one", tmp_path / "two"
    assert names_in(one) == names_in(two)
    assert len(names_in(one)) > 5
    for name in names_in(one):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_parts_can_be_packed(repo: Repository, tmp_path: Path) -> None:
    done = export(repo, f"{tmp_path}/out/", types=("node:Person",), compression="zstd")
    assert [Path(file).name for file in done.files] == ["Person-00000.ndjson.zst"]
    with pa.input_stream(done.files[0], compression="zstd") as file:
        assert file.read().decode().splitlines() == PLAIN_LINES[2:4]


def test_an_existing_folder_keeps_what_is_not_ours(repo: Repository, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "README-00001.parquet").write_text("mine")
    (out / "notes.txt").write_text("mine")
    export(repo, out)
    export(repo, out, overwrite=True, format="parquet")
    assert (out / "README-00001.parquet").read_text() == "mine"
    assert names_in(out) == [
        "File-00000.parquet",
        "Knows-00000.parquet",
        "Person-00000.parquet",
        "README-00001.parquet",
        "_export.json",
        "edge.Person-00000.parquet",
        "notes.txt",
    ]


def test_an_older_export_is_not_mixed_with_a_new_one(repo: Repository, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(repo, out, parts=True)
    before = {name: (out / name).read_bytes() for name in names_in(out)}
    with pytest.raises(InvalidInput, match=r"_export\.json"):
        export(repo, out)
    assert {name: (out / name).read_bytes() for name in names_in(out)} == before
    export(repo, out, overwrite=True, types=("Knows",))
    assert names_in(out) == ["Knows-00000.ndjson", "_export.json"]


def test_what_a_killed_export_left_is_noticed(repo: Repository, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(repo, out, parts=True)
    (out / "_export.json").unlink()
    with pytest.raises(InvalidInput, match="File-00000"):
        export(repo, out)
    export(repo, out, overwrite=True, types=("Knows",))
    assert names_in(out) == ["Knows-00000.ndjson", "_export.json"]


def test_a_manifest_that_cannot_be_read_is_replaced(repo: Repository, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for text in ("{", "[]", '{"types": [{"files": [{"name": "../graph"}]}]}'):
        (out / "_export.json").write_text(text)
        export(repo, out, overwrite=True)
        assert json.loads((out / "_export.json").read_text())["version"] == 1
    assert (tmp_path / "graph").is_dir()


def test_an_empty_graph_is_a_manifest_only(tmp_path: Path) -> None:
    graph = make(Root.parse(str(tmp_path / "graph")), SCHEMA)
    done = export(graph, f"{tmp_path}/out/")
    assert names_in(tmp_path / "out") == ["_export.json"]
    assert (done.files, done.bytes, set(done.rows.values())) == ((), 0, {0})
    export(graph, tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_bytes() == b""


# -- what can go wrong -----------------------------------------------------------------------------


def test_a_file_is_not_replaced_unless_told(repo: Repository, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    with pytest.raises(InvalidInput, match="there already"):
        export(repo, target)
    assert target.read_text() == "mine"
    export(repo, target, overwrite=True)
    assert target.read_text().splitlines() == PLAIN_LINES


@pytest.mark.parametrize("name", ["file.txt/out.jsonl", "file.txt/", "file.txt/deep/"])
def test_a_place_that_cannot_be_is_refused(repo: Repository, tmp_path: Path, name: str) -> None:
    (tmp_path / "file.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"file\.txt"):
        export(repo, f"{tmp_path}/{name}", overwrite=True)
    assert (tmp_path / "file.txt").read_text() == "mine"


@pytest.mark.parametrize("place", ["", "/nodes/", "/out.jsonl"])
def test_the_graph_itself_is_no_target(repo: Repository, place: str) -> None:
    with pytest.raises(InvalidInput, match="inside of the graph"):
        export(repo, f"{repo.root.uri}{place}", overwrite=True)


def test_a_failure_leaves_the_old_file(repo: Repository, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    for call in (StorageCall.TABLE_SCAN, StorageCall.TABLE_TAKE, StorageCall.OBJECT_PUT):
        with armed({call: Refuse()}), pytest.raises(Unavailable):
            export(repo, target, overwrite=True)
        assert names_in(tmp_path) == ["graph", "out.jsonl"]
        assert target.read_text() == "mine"


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_a_failure_leaves_an_empty_folder(repo: Repository, tmp_path: Path, nth: int) -> None:
    out = tmp_path / "out"
    # The fifth is the manifest.
    with armed({StorageCall.OBJECT_PUT: Refuse()}, nth=nth), pytest.raises(Unavailable):
        export(repo, out, parts=True)
    assert names_in(out) == []
    export(repo, out)


def test_versions_that_were_reclaimed_are_gone(repo: Repository, tmp_path: Path) -> None:
    pinned = repo.snapshot()
    lost = replace(pinned.pin(PERSON), version=99)
    broken = replace(pinned, tables={**pinned.tables, PERSON: lost})
    for target in (tmp_path / "out.jsonl", tmp_path / "out"):
        with pytest.raises(Gone):
            export(repo, target, snapshot=broken, parts=target.name == "out")
    assert names_in(tmp_path) == ["graph"]


# -- progress --------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [False, True])
def test_progress_is_told(repo: Repository, tmp_path: Path, parts: bool) -> None:
    moments: list[Progress] = []
    done = export(repo, tmp_path / "out", parts=parts, watch=monitor(repo, moments.append))
    assert {moment.stage for moment in moments} == {"write"}
    assert moments[-1].rows == sum(ROWS.values())
    assert moments[-1].bytes == done.bytes
    assert moments[-1].tasks == (4 if parts else None)
    assert moments[-1].tasks_done == (4 if parts else 0)


@pytest.mark.parametrize("parts", [False, True])
def test_stopping_leaves_nothing(repo: Repository, tmp_path: Path, parts: bool) -> None:
    def stop(moment: Progress) -> None:
        if moment.rows:
            watch.stop()

    watch = monitor(repo, stop)
    with pytest.raises(StopRequested):
        export(repo, tmp_path / "out", parts=parts, watch=watch)
    assert names_in(tmp_path) == (["graph", "out"] if parts else ["graph"])
    assert not parts or names_in(tmp_path / "out") == []
