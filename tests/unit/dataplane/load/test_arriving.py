"""Rows that are read while they arrive: the same result as from a file, and little on disk."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.dataplane.source.spool import Scratch
from omnigraph.dataplane.tuning import tuned
from omnigraph.errors import ConstraintViolated

SCHEMA = "node P { k: String @key  n: I32 }\nedge E: P -> P"
ROWS = [b'{"type":"P","data":{"k":"k%d","n":%d}}\n' % (n, n) for n in range(400)]
EDGES = [b'{"edge":"E","from":"k%d","to":"k%d"}\n' % (n, 399 - n) for n in range(100)]
PIECE = 1_000


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "g.omni", SCHEMA) as graph, tuned(split_bytes=PIECE):
        yield graph


@pytest.fixture
def spooled(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The temporary files, in the order in which they were made."""
    made: list[Path] = []
    new = Scratch.new

    def noted(self: Scratch) -> str:
        path = new(self)
        made.append(Path(path))
        return path

    monkeypatch.setattr(Scratch, "new", noted)
    return made


class Slow(io.RawIOBase):
    """A stream that gives a few bytes at a time, and tells how much of it lies on disk."""

    def __init__(self, data: bytes, spooled: list[Path], fails_at: int | None = None) -> None:
        self._data = io.BytesIO(data)
        self._spooled = spooled
        self._fails_at = fails_at
        self.most = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        there = [path.stat().st_size for path in self._spooled if path.exists()]
        self.most = max(self.most, sum(there))
        if self._fails_at is not None and self._data.tell() >= self._fails_at:
            raise ConnectionResetError("the client left")
        piece = self._data.read(min(len(buffer), 97))
        buffer[: len(piece)] = piece
        return len(piece)


def load(graph: og.Graph, stream: Any, mode: Any = "append") -> og.LoadResult:
    return graph.load(stream, mode=mode, format="ndjson", engine="inprocess")


def test_pieces_are_read_while_others_arrive(graph: og.Graph, spooled: list[Path]) -> None:
    data = b"".join([*ROWS, *EDGES])
    stream = Slow(data, spooled)
    done = load(graph, stream)
    assert (done.rows, done.bytes) == (500, len(data))
    assert graph.snapshot().counts == {"edge:E": 100, "node:P": 400}
    assert len(spooled) > len(data) // PIECE - 2
    assert 0 < stream.most < len(data) // 2
    assert not any(path.exists() for path in spooled)
    again = load(graph, Slow(b"".join(ROWS).rstrip(), spooled), "merge")
    assert again.counts["node:P"].updated == 400


def test_lines_have_the_numbers_that_they_have_in_the_stream(
    graph: og.Graph, spooled: list[Path]
) -> None:
    data = [*ROWS[:350], b'{"type":"P","data":{"k":"x","n":"no"}}\n', *ROWS[350:390], b"{broken\n"]
    with pytest.raises(ConstraintViolated) as caught:
        load(graph, Slow(b"".join(data), spooled))
    assert [item["line"] for item in caught.value.violations] == [351, 392]
    assert not any(path.exists() for path in spooled)


def test_a_line_may_be_longer_than_a_piece(graph: og.Graph, spooled: list[Path]) -> None:
    key = "k" * (3 * PIECE)
    long = b'{"type":"P","data":{"k":"%s","n":1}}\n' % key.encode()
    load(graph, Slow(b"".join([*ROWS[:50], long, *ROWS[50:100]]), spooled))
    assert graph.snapshot().counts["node:P"] == 101


def test_a_stream_that_is_cut_publishes_nothing(graph: og.Graph, spooled: list[Path]) -> None:
    before = graph.snapshot().commit
    with pytest.raises(ConnectionResetError):
        load(graph, Slow(b"".join(ROWS), spooled, fails_at=12_000))
    assert graph.snapshot().commit == before
    assert spooled
    assert not any(path.exists() for path in spooled)
    assert load(graph, Slow(b"".join(ROWS), spooled)).rows == 400


def test_a_short_stream_is_one_file(graph: og.Graph, spooled: list[Path]) -> None:
    load(graph, Slow(ROWS[0], spooled))
    load(graph, Slow(b"", spooled))
    assert len(spooled) == 2


def batches(spooled: list[Path], most: list[int], fails_at: int | None = None) -> Any:
    """Rows as a stream of small batches, which notes how much of it lies on disk."""
    schema = pa.schema([("k", pa.string()), ("n", pa.int32())])

    def made() -> Iterator[pa.RecordBatch]:
        for first in range(0, 4_000, 20):
            most.append(sum(path.stat().st_size for path in spooled if path.exists()))
            if fails_at is not None and first >= fails_at:
                raise ConnectionResetError("the client left")
            rows = [{"k": f"k{n}", "n": n} for n in range(first, first + 20)]
            yield pa.RecordBatch.from_pylist(rows, schema)

    return pa.RecordBatchReader.from_batches(schema, made())


def test_batches_are_read_while_others_arrive(graph: og.Graph, spooled: list[Path]) -> None:
    most: list[int] = []
    with tuned(split_bytes=4 * PIECE):
        done = graph.load({"P": batches(spooled, most)}, mode="append", engine="inprocess")
    assert done.rows == 4_000
    assert graph.snapshot().counts["node:P"] == 4_000
    assert len(spooled) > 10
    assert 0 < max(most) < done.bytes // 2
    assert not any(path.exists() for path in spooled)


def test_batches_that_are_cut_publish_nothing(graph: og.Graph, spooled: list[Path]) -> None:
    before = graph.snapshot().commit
    with pytest.raises(ConnectionResetError):
        graph.load({"P": batches(spooled, [], 2_000)}, mode="append", engine="inprocess")
    assert graph.snapshot().commit == before
    assert spooled
    assert not any(path.exists() for path in spooled)


def test_a_wrong_row_of_a_stream_of_batches_has_its_number(graph: og.Graph) -> None:
    schema = pa.schema([("k", pa.string()), ("n", pa.int32())])
    rows = [{"k": f"k{n}", "n": n} for n in range(200)]
    rows[150] = {"k": "wrong", "n": None}
    found = [pa.RecordBatch.from_pylist(rows[at : at + 20], schema) for at in range(0, 200, 20)]
    reader = pa.RecordBatchReader.from_batches(schema, found)
    with pytest.raises(ConstraintViolated) as caught:
        graph.load({"P": reader}, mode="append", engine="inprocess")
    assert [item["line"] for item in caught.value.violations] == [151]
