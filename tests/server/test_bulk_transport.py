"""Loads and exports as streams: media types, compression, budgets, keys, and what a cut leaves."""

import gzip
import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.server.columns import parquet_reader
from omnigraph.server.streams import Growth
from tests.server.support import G, config_of, names, raw, send
from tests.serving import Served, serving

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
BUDGETS = {"load_bytes": 1 << 20, "load_decompressed_bytes": 4 << 20, "body_idle_seconds": 2}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("bulk")
    (folder / "inbox").mkdir()
    (folder / "inbox" / "in.jsonl").write_bytes(lines("ref"))
    config = config_of(
        folder, budgets=BUDGETS, load_prefixes=(str(folder / "inbox"), f"file://{folder}/inbox")
    )
    with serving(config) as found:
        yield found


def lines(*people: str) -> bytes:
    rows = [{"type": "Person", "data": {"name": name}} for name in people]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def stream_of(table: pa.Table, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def load(served: Served, body: Any, media: str, terms: str = "", **headers: str) -> Any:
    status, _, found = send(
        served, "POST", f"{G}/load?mode=merge{terms}", body, content_type=media, **headers
    )
    return status, json.loads(found)


def test_ndjson_comes_plain_and_compressed(served: Served) -> None:
    assert load(served, lines("a1"), NDJSON)[1]["total_entities"] == 1
    packed = gzip.compress(lines("a2")) + gzip.compress(lines("a3"))
    assert load(served, packed, NDJSON, content_encoding="gzip")[1]["total_entities"] == 2
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(lines("a4"))
    zstd = sink.getvalue().to_pybytes()
    assert load(served, zstd, NDJSON, content_encoding="zstd")[1]["total_entities"] == 1
    assert {"a1", "a2", "a3", "a4"} <= set(names(served))
    assert load(served, lines("x"), NDJSON, content_encoding="br")[0] == 415
    assert load(served, b"a,b", "text/csv")[0] == 415
    # Nothing is unpacked that the header does not name, and nothing twice.
    assert load(served, packed, NDJSON)[0] == 400
    assert load(served, gzip.compress(packed), NDJSON, content_encoding="gzip")[0] == 400


def test_arrow_parquet_and_several_parts(served: Served) -> None:
    people = pa.table({"name": ["b1", "b2"], "age": pa.array([1, 2], pa.int32())})
    assert load(served, stream_of(people), ARROW, "&type=Person")[1]["total_entities"] == 2
    assert load(served, stream_of(people), ARROW)[0] == 400
    file = io.BytesIO()
    pq.write_table(pa.table({"name": ["b3"]}), file)
    done = load(served, file.getvalue(), PARQUET, "&type=Person")
    assert done[1]["total_entities"] == 1, done
    knows = pa.table({"from": ["b1"], "to": ["b4"]})
    parts = b"".join(
        b'--cut\r\nContent-Type: %b\r\nContent-Disposition: attachment; name="%b"\r\n\r\n%b\r\n'
        % (ARROW.encode(), name, stream_of(table))
        for name, table in ((b"Person", pa.table({"name": ["b4"]})), (b"Knows", knows))
    )
    media = 'multipart/mixed; boundary="cut"'
    done = load(served, parts + b"--cut--\r\n", media)
    assert (done[0], done[1]["total_entities"]) == (200, 2), done
    assert load(served, parts, media)[0] == 400
    twice = parts + parts + b"--cut--\r\n"
    assert load(served, twice, media)[0] == 400


def test_budgets_are_named_and_nothing_is_published(served: Served) -> None:
    before = names(served)
    large = lines("c0") * 40_000
    status, found = load(served, large, NDJSON)
    assert status == 413
    assert found["resource_limit"]["resource"] == "load_bytes"
    bomb = gzip.compress(b" " * (8 << 20))
    status, found = load(served, bomb, NDJSON, content_encoding="gzip")
    assert status == 413
    assert found["resource_limit"]["resource"] == "load_decompressed_bytes"
    status, found = load(served, gzip.compress(lines("c1"))[:-4], NDJSON, content_encoding="gzip")
    assert status == 400
    forged = bytearray(stream_of(pa.table({"name": ["c2"]})))
    forged[4:8] = (1 << 30).to_bytes(4, "little")
    status, found = load(served, bytes(forged), ARROW, "&type=Person")
    assert status in (400, 413), found
    table = pa.table({"name": ["c3", "c4"]})
    ends = pa.array([0, 1 << 28, 4], pa.int32()).buffers()[1]
    column = table["name"].chunk(0)
    wrong = pa.Array.from_buffers(pa.string(), 2, [None, ends, column.buffers()[2]])
    forged_ends = stream_of(pa.table({"name": wrong}))
    status, found = load(served, forged_ends, ARROW, "&type=Person")
    assert status == 400, found
    packed = stream_of(pa.table({"name": ["c" * (8 << 20)]}), compression="zstd")
    assert len(packed) < 1 << 20
    status, found = load(served, packed, ARROW, "&type=Person")
    assert (status, found["resource_limit"]["resource"]) == (413, "load_decompressed_bytes")
    assert names(served) == before


def parquet_of(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", **options)
    return sink.getvalue()


def test_rows_are_bounded_as_they_are_spelled_out(served: Served) -> None:
    before = names(served)
    text = "x" * 4096
    coded = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int8()), [text])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2000], pa.int32()), [text])
    plain = pa.array([text] * 2000)
    one_value = pa.table({"name": coded})
    bodies = [
        (stream_of(one_value), ARROW),
        (stream_of(pa.table({"name": runs})), ARROW),
        (parquet_of(one_value), PARQUET),
        (parquet_of(pa.table({"name": plain}), use_dictionary=False), PARQUET),
    ]
    for body, media in bodies:
        assert len(body) < 1 << 16
        status, found = load(served, body, media, "&type=Person")
        assert status == 413, found
        assert found["resource_limit"]["resource"] == "load_decompressed_bytes"
        part = b'--cut\r\nContent-Type: %b\r\nContent-Disposition: attachment; name="Person"\r\n'
        several = part % media.encode() + b"\r\n" + body + b"\r\n--cut--\r\n"
        assert load(served, several, "multipart/mixed; boundary=cut")[0] == 413
    assert names(served) == before


@pytest.mark.parametrize("first", [[None], [0], []])
def test_a_long_value_in_a_dictionary_bounds_what_is_read_at_once(first: list[int | None]) -> None:
    longest = "x" * (1 << 20)
    places = [*first, *[1] * 40]
    coded = pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), ["y", longest])
    lists = pa.ListArray.from_arrays(pa.array([0, *range(len(places) + 1)], pa.int32()), coded)
    for column in (coded, lists):
        counted = Counted()
        file = io.BytesIO(parquet_of(pa.table({"c": column})))
        rows = sum(piece.num_rows for piece in parquet_reader(file, counted))
        assert rows == len(column)
        assert max(counted.seen) <= 9 << 20


class Counted(Growth):
    """Counts without bounds."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def add(self, count: int) -> None:
        self.seen.append(count)

    def check(self, count: int) -> None:
        pass


def test_columns_come_with_dictionaries_and_runs(served: Served) -> None:
    coded = pa.array(["f1", "f2", "f3"]).dictionary_encode()
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, None]))
    table = pa.table({"name": coded, "age": runs})
    assert load(served, stream_of(table), ARROW, "&type=Person")[1]["total_entities"] == 3
    several_groups = parquet_of(pa.table({"name": coded}), row_group_size=1)
    done = load(served, several_groups, PARQUET, "&type=Person")
    assert done[1]["total_entities"] == 3, done
    assert {"f1", "f2", "f3"} <= set(names(served))


def test_an_upload_that_is_cut_publishes_nothing(served: Served) -> None:
    before = names(served)
    head = (
        f"POST {G}/load/ndjson HTTP/1.1\r\nHost: x\r\nContent-Type: {NDJSON}\r\n"
        "Content-Length: 1000\r\n\r\n"
    ).encode()
    with socket.create_connection((served.host, served.port)) as connection:
        connection.sendall(head + lines("d1"))
    silent = raw(served, head + lines("d2"))
    assert b" 408 " in silent.splitlines()[0]
    assert names(served) == before


def test_a_key_names_a_load(served: Served) -> None:
    first = load(served, lines("e1"), NDJSON, idempotency_key="one")[1]
    again = load(served, lines("e1"), NDJSON, idempotency_key="one")[1]
    assert again["replayed"] is True
    assert again["graph_commit_id"] == first["graph_commit_id"]
    _, _, found = send(served, "GET", f"{G}/commits?idempotency_key=one")
    assert [item["graph_commit_id"] for item in json.loads(found)["commits"]] == [
        first["graph_commit_id"]
    ]


def test_references_are_read_below_the_prefixes_only(served: Served, tmp_path: Path) -> None:
    inbox = served.server.config.load_prefixes[0]
    for place in (inbox, f"file://{inbox}", "file://" + inbox.replace("inbox", "%69nbox")):
        done = send(served, "POST", f"{G}/load", {"uri": f"{place}/in.jsonl"})
        assert done[0] == (200 if "%" not in place else 403), done
    for uri in (
        f"{inbox}/../g.omni/x.jsonl",
        f"{inbox}-other/in.jsonl",
        str(tmp_path / "in.jsonl"),
        "http://169.254.169.254/latest",
        "s3://elsewhere/in.jsonl",
        f"{inbox}/*.jsonl",
        f"{inbox}/i?.jsonl",
        f"{inbox}/[i]n.jsonl",
    ):
        assert send(served, "POST", f"{G}/load", {"uri": uri})[0] == 403, uri


def test_references_do_not_leave_a_prefix_by_links_or_encoded_steps(
    served: Served, tmp_path: Path
) -> None:
    inbox = Path(served.server.config.load_prefixes[0])
    (tmp_path / "out.jsonl").write_bytes(lines("out"))
    (inbox / "linked").mkdir()
    (inbox / "linked" / "inner.jsonl").symlink_to(inbox / "in.jsonl")
    assert send(served, "POST", f"{G}/load", {"uri": f"{inbox}/linked"})[0] == 200
    (inbox / "linked" / "file.jsonl").symlink_to(tmp_path / "out.jsonl")
    (inbox / "linked" / "folder").symlink_to(tmp_path)
    steps = "/".join(["%2e%2e"] * len(inbox.parts))
    for uri in (
        f"{inbox}/linked",
        f"{inbox}/linked/file.jsonl",
        f"{inbox}/linked/folder/out.jsonl",
        f"file://{inbox}/linked/file.jsonl",
        f"file://{inbox}/{steps}{tmp_path}/out.jsonl",
        f"file://{inbox}/{steps.replace('/', '%2f')}{tmp_path}/out.jsonl",
    ):
        assert send(served, "POST", f"{G}/load", {"uri": uri})[0] == 403, uri
    assert "out" not in names(served)


def test_exports_are_pinned_and_negotiated(served: Served) -> None:
    load(served, lines("f1"), NDJSON)
    head = json.loads(send(served, "GET", f"{G}/snapshot")[2])["graph_commit_id"]
    _, headers, plain = send(served, "GET", f"{G}/export?types=Person")
    assert headers["omnigraph-graph-commit"] == head
    _, headers, packed = send(served, "GET", f"{G}/export?types=Person", accept_encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == plain
    _, headers, arrow = send(served, "GET", f"{G}/export?types=Person", accept=ARROW)
    assert headers["content-type"] == ARROW
    table = pa.ipc.open_stream(arrow).read_all()
    assert table.num_rows == len(plain.splitlines())
    _, _, file = send(served, "GET", f"{G}/export?types=Person", accept=PARQUET)
    assert pq.read_table(io.BytesIO(file)).num_rows == table.num_rows
    for accept, status, media in (
        ("application/*", 200, NDJSON),
        (f"{NDJSON};q=0.5, {ARROW}", 200, ARROW),
        (f"text/csv, */*;q=0.1, {NDJSON};q=0", 200, ARROW),
        ("text/csv", 406, "application/json"),
    ):
        answered, headers, _ = send(served, "GET", f"{G}/export?types=Person", accept=accept)
        assert (answered, headers["content-type"]) == (status, media), accept
    plain_again = send(
        served, "GET", f"{G}/export?types=Person", accept_encoding="gzip;q=0, br, identity"
    )
    assert plain_again[2] == plain
    load(served, lines("f2"), NDJSON)
    _, _, old = send(served, "GET", f"{G}/export?types=Person&at={head}")
    assert old == plain
