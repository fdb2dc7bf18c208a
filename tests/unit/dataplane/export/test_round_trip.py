"""Export, then load: the same graph, whatever the format."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

SCHEMA = """
node Cell {
  name: String @key
  flag: Bool?  small: I32?  large: I64?  count: U32?  huge: U64?  single: F32?  double: F64?
  day: Date?  moment: DateTime?  mood: enum(bad, good)?  vector: Vector(3)?  data: Blob?
  words: [String]?  integers: [U64]?  floats: [F32]?  days: [Date]?  moments: [DateTime]?
}
node Number { number: U64 @key }
node Note { text: String? }
edge Link: Cell -> Cell { weight: F64? }
edge Once: Cell -> Number { note: String? @key(src, dst) }
edge Note: Cell -> Note
"""
FULL: dict[str, Any] = {
    "flag": False,
    "small": -(2**31),
    "large": -(2**63),
    "count": 2**32 - 1,
    "huge": 2**64 - 1,
    "single": 0.1,
    "double": -0.0,
    "day": "0001-01-01",
    "moment": "1969-12-31T23:59:59.999Z",
    "mood": "good",
    "vector": [0.1, -1e-45, 3e38],
    "data": "base64:AP8=",
    "words": ["", 'a "b"\n', "é🌍"],
    "integers": [2**64 - 1, 0],
    "floats": [],
    "days": ["9999-12-31"],
    "moments": ["2020-02-29T12:00:00.000Z"],
}
LINES: list[dict[str, Any]] = [
    {"type": "Cell", "data": {"name": "full", **FULL}},
    {"type": "Cell", "data": {"name": 'nothing "\\\t'}},
    {"type": "Number", "data": {"number": 2**64 - 1}},
    {"type": "Note", "data": {"text": "without a key"}},
    {"type": "Note", "data": {"id": "n-1", "text": None}},
    {"edge": "Link", "from": "full", "to": 'nothing "\\\t', "data": {"weight": 5e-324}},
    {"edge": "Link", "from": "full", "to": 'nothing "\\\t'},
    {"edge": "Once", "from": "full", "to": "18446744073709551615", "data": {"note": "x"}},
    {"edge": "Note", "from": "full", "to": "n-1"},
]
FORMS: dict[str, dict[str, Any]] = {
    "one.jsonl": {},
    "one.jsonl.gz": {},
    "one.ndjson.zst": {},
    "lines/": {},
    "packed/": {"compression": "gzip"},
    "arrow/": {"format": "arrow"},
    "small/": {"format": "arrow", "compression": "zstd"},
    "parquet/": {"format": "parquet"},
}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    made = og.init(str(tmp_path / "first.omni"), schema=SCHEMA)
    source = tmp_path / "source.jsonl"
    source.write_text("".join(f"{json.dumps(line)}\n" for line in LINES), encoding="utf-8")
    made.load(str(source), mode="append")
    return made


def everything(graph: og.Graph) -> list[str]:
    """What a graph holds, in no particular order."""
    output = io.BytesIO()
    graph.export(output)
    return sorted(output.getvalue().decode().split("\n"))


@pytest.mark.parametrize("form", FORMS)
def test_the_same_graph_comes_back(graph: og.Graph, tmp_path: Path, form: str) -> None:
    target = f"{tmp_path}/{form}"
    done = graph.export(target, **FORMS[form])
    assert sum(done.rows.values()) == len(LINES)
    again = og.init(str(tmp_path / "second.omni"), schema=SCHEMA)
    loaded = again.load(target, mode="append")
    assert loaded.rows == len(LINES)
    assert everything(again) == everything(graph)
    # And over itself it changes nothing.
    again.load(target, mode="merge")
    assert everything(again) == everything(graph)


def test_what_was_given_is_what_is_exported(graph: og.Graph) -> None:
    lines = [json.loads(line) for line in everything(graph) if line]
    found = next(line["data"] for line in lines if line["data"].get("name") == "full")
    assert found == {"id": "full", "name": "full", **FULL}
    assert all("id" in line["data"] for line in lines)
