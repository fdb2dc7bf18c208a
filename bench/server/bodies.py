"""Large bodies: a gigabyte goes in and comes out, and the memory of the server is watched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import omnigraph as og
from bench.server.running import Running, running

SCHEMA = "node Note { key: String @key  text: String  size: I64 }"
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A body that went one way."""

    name: str
    bytes: int
    seconds: float
    cpu: float
    peak: int
    mapped: int


def lines(count: int) -> Iterator[bytes]:
    """Rows of about a kilobyte, a piece of them at a time."""
    words = [f"word{number * 7919 % 100_003:06}" for number in range(4_000)]
    held: list[bytes] = []
    for number in range(count):
        start = number * 37 % 3_900
        text = " ".join(words[start : start + 85])
        row = {"type": "Note", "data": {"key": f"n{number:09}", "text": text, "size": number}}
        held.append(json.dumps(row).encode() + b"\n")
        if len(held) == 1_000:
            yield b"".join(held)
            held.clear()
    yield b"".join(held)


def moved(folder: Path, count: int) -> list[Moved]:
    """Send so many rows, and fetch them again."""
    place = folder / "notes.omni"
    og.init(place, SCHEMA).close()
    with running(place, log=folder / "bodies.log") as server:
        found: list[Moved] = []
        ways: dict[str, Callable[[], int]] = {
            "upload, NDJSON": partial(_sent, server, count),
            "download, NDJSON": partial(_fetched, server),
        }
        for name, move in ways.items():
            before, begin = server.cpu, perf_counter()
            with server.watched() as most:
                size = move()
            found.append(
                Moved(
                    name=name,
                    bytes=size,
                    seconds=perf_counter() - begin,
                    cpu=server.cpu - before,
                    peak=most[0],
                    mapped=server.mapped,
                )
            )
    return found


def _sent(server: Running, count: int) -> int:
    size = 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for piece in lines(count):
            size += len(piece)
            yield piece

    connection = server.connect()
    path, headers = "/graphs/notes/load?mode=append", {"content-type": "application/x-ndjson"}
    connection.request("POST", path, counted(), headers, encode_chunked=True)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    if answer.status != 200 or found["total_entities"] != count:
        raise ValueError(f"the upload failed: {answer.status} {found}")
    return size


def _fetched(server: Running) -> int:
    connection = server.connect()
    connection.request("GET", "/graphs/notes/export")
    answer = connection.getresponse()
    size = 0
    while piece := answer.read(_PIECE):
        size += len(piece)
    connection.close()
    return size
