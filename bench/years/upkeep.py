"""Upkeep: clean-up against Lance's own, verification, and small updates of a large table."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import lance
import pyarrow as pa

import omnigraph as og
from bench.figure import Figure, Taken
from omnigraph.core.cleanup.cleaner import CleanupRequest
from omnigraph.core.cleanup.retention import RetentionPolicy

_VERSIONS: Final = 2_000
_FILES_ROWS: Final = 5_000_000
_SMALL_ROWS: Final = 10_000
_ROUNDS: Final = 9
_CLEANUP_MAX: Final = 2.0
_UPDATE_MAX: Final = 1.5
_VERIFY_MAX: Final = 2.0
_SCHEMA: Final = "node Item { name: String @key  a: I64 }"
# As if minutes had passed since the commits.
_REQUEST: Final = CleanupRequest(policy=RetentionPolicy(keep=1), superseded_us=0)


def cleanup(folder: Path, scale: float) -> list[Figure]:
    """Clean a graph up after many commits; then its copy, table by table, with Lance alone."""
    versions = max(20, int(_VERSIONS * scale))
    place, copy = folder / "history", folder / "copy"
    ours, raw = Taken.nothing(), Taken.nothing()
    with og.init(str(place), schema=_SCHEMA) as graph:
        for number in range(versions):
            graph.mutate(f'query q() {{ insert Item {{ name: "{number}", a: 1 }} }}')
        shutil.copytree(place, copy)
        ours.time(lambda: graph._repo.cleanup(replace(_REQUEST), lambda _: None))
    tables = [copy / "__manifest", *(copy / "nodes").iterdir()]
    raw.time(lambda: _cleaned(tables))
    floor = raw.figure(f"clean-up of {versions:,} versions of both tables, by Lance")
    name = f"clean-up after {versions:,} commits"
    return [ours.figure(name).at_most(_CLEANUP_MAX, floor), floor]


def _cleaned(tables: list[Path]) -> None:
    for table in tables:
        found = lance.dataset(str(table))
        refs = found.version_refs()
        old = [each["version"] for each in refs if each["version"] != found.version]
        found.cleanup_old_versions(versions=old)


def large(folder: Path, scale: float) -> list[Figure]:
    """Verify the files of a large table, and update single rows of it and of a small one."""
    rows = int(_FILES_ROWS * scale)
    verified, plain = Taken.nothing(), Taken.nothing()
    large, small = Taken.nothing(), Taken.nothing()
    with (
        og.init(str(folder / "large"), schema=_SCHEMA) as graph,
        og.init(str(folder / "small"), schema=_SCHEMA) as other,
    ):
        _load(graph, rows)
        _load(other, min(rows, _SMALL_ROWS))
        size = _bytes(folder / "large")
        for _ in range(3):
            verified.time(lambda: graph.verify("files", engine="inprocess"))
            plain.time(lambda: _read(folder / "large"))
        for turn in range(_ROUNDS):
            large.time(_update(graph, turn * (rows // _ROUNDS), turn))
            small.time(_update(other, turn * (min(rows, _SMALL_ROWS) // _ROUNDS), turn))
    read = _rated(plain, size, "the same files read and summed up")
    floor = small.figure(f"one row updated, {min(rows, _SMALL_ROWS):,} rows")
    return [
        _rated(verified, size, "verify files").at_most(_VERIFY_MAX, read),
        read,
        large.figure(f"one row updated, {rows:,} rows").at_most(_UPDATE_MAX, floor),
        floor,
    ]


def _load(graph: og.Graph, rows: int) -> None:
    names = pa.array([f"k{number:09}" for number in range(rows)])
    content = pa.table({"name": names, "a": pa.array(range(rows), pa.int64())})
    graph.load({"Item": content}, mode="append")  # and nothing else: many never optimize


def _update(graph: og.Graph, row: int, value: int) -> Callable[[], object]:
    text = f'query q() {{ update Item set {{ a: {value} }} where name = "k{row:09}" }}'
    return lambda: graph.mutate(text)


def _rated(taken: Taken, size: int, name: str) -> Figure:
    """A figure that tells in its name how fast files were read."""
    _, wall = taken.seconds
    return taken.figure(f"{name}, {size / 1e9:.2f} GB at {size / 1e9 / wall * 60:.0f} GB/min")


def _read(folder: Path) -> None:
    for place, _, names in os.walk(folder):
        for name in names:
            zlib.crc32(Path(place, name).read_bytes())


def _bytes(folder: Path) -> int:
    return sum(
        os.path.getsize(Path(place, name)) for place, _, names in os.walk(folder) for name in names
    )
