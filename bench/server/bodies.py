"""Large bodies: a gigabyte goes in and comes out, and the memory of the server is watched."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree
from time import perf_counter

import pyarrow as pa

import omnigraph as og
from bench.server.running import Running, running

SCHEMA = "node Note { key: String @key  text: String  size: I64 }"
NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"
_PIECE = 1 << 20
_ROWS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A body that went one way."""

    name: str
    bytes: int
    seconds: float
    cpu: float
    peak: int
    mapped: int


def rows(count: int) -> Iterator[list[dict[str, str | int]]]:
    """Rows of about a kilobyte, a thousand of them at a time."""
    words = [f"word{number * 7919 % 100_003:06}" for number in range(4_000)]
    for begin in range(0, count, _ROWS):
        starts = ((number, number * 37 % 3_900) for number in range(begin, begin + _ROWS))
        yield [
            {"key": f"n{number:09}", "text": " ".join(words[at : at + 85]), "size": number}
            for number, at in starts
            if number < count
        ]


def lines(count: int) -> Iterator[bytes]:
    """The rows as NDJSON."""
    for part in rows(count):
        yield b"".join(json.dumps({"type": "Note", "data": row}).encode() + b"\n" for row in part)


def arrow(count: int) -> Iterator[bytes]:
    """The rows as an Arrow stream."""
    schema = pa.schema([("key", pa.string()), ("text", pa.string()), ("size", pa.int64())])
    made = io.BytesIO()
    with pa.ipc.new_stream(made, schema) as stream:
        for part in rows(count):
            stream.write_batch(pa.RecordBatch.from_pylist(part, schema))
            yield made.getvalue()
            made.seek(0)
            made.truncate()
    yield made.getvalue()


def moved(folder: Path, count: int) -> list[Moved]:
    """Send so many rows, and fetch them again."""
    return [
        each
        for name, media, made in (("NDJSON", NDJSON, lines), ("Arrow", ARROW, arrow))
        for each in _both_ways(folder, name, media, made, count)
    ]


def _both_ways(
    folder: Path, name: str, media: str, made: Callable[[int], Iterator[bytes]], count: int
) -> list[Moved]:
    """Each way with a server of its own, so that none has the memory that another has freed."""
    place = folder / "notes.omni"
    og.init(place, SCHEMA).close()
    found: list[Moved] = []
    ways: dict[str, Callable[[Running], int]] = {
        f"upload, {name}": partial(_sent, media, made, count),
        f"download, {name}": partial(_fetched, media),
    }
    for way, move in ways.items():
        with running(place, log=folder / "bodies.log") as server:
            before, begin = server.cpu, perf_counter()
            with server.watched() as most:
                size = move(server)
            found.append(
                Moved(
                    name=way,
                    bytes=size,
                    seconds=perf_counter() - begin,
                    cpu=server.cpu - before,
                    peak=most[0],
                    mapped=server.mapped,
                )
            )
    rmtree(place)
    return found


def _sent(media: str, made: Callable[[int], Iterator[bytes]], count: int, server: Running) -> int:
    size = 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for piece in made(count):
            size += len(piece)
            yield piece

    connection = server.connect()
    path, headers = "/graphs/notes/load?mode=append&type=Note", {"content-type": media}
    connection.request("POST", path, counted(), headers, encode_chunked=True)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    if answer.status != 200 or found["total_entities"] != count:
        raise ValueError(f"the upload failed: {answer.status} {found}")
    return size


def _fetched(media: str, server: Running) -> int:
    connection = server.connect()
    connection.request("GET", "/graphs/notes/export?types=Note", headers={"accept": media})
    answer = connection.getresponse()
    if answer.status != 200:
        raise ValueError(f"the download failed: {answer.status} {answer.read()!r}")
    size = 0
    while piece := answer.read(_PIECE):
        size += len(piece)
    connection.close()
    return size
