"""Group `kernels`: special-purpose kernels against the plain way that would take their place.

A kernel stays as long as it is worth its lines: the plain way must take clearly longer.
"""

import json
import zlib
from collections.abc import Callable
from datetime import date
from typing import Any, cast

import pyarrow as pa

from bench.measure import Case
from omnigraph.dataplane.export.cells import escaped
from omnigraph.dataplane.export.files import LineEncoder
from omnigraph.dataplane.export.small_numbers import SmallNumbers
from omnigraph.dataplane.load.hashing import partitions_of
from omnigraph.dataplane.load.packing import numbered, packed
from omnigraph.lang import compile_schema

ROWS = 1 << 16
PARTITIONS = 64
SCHEMA = """
node Person {
  name: String @key
  age: I32
  year: I32
  born: Date
  active: Bool
}
"""


def cases() -> tuple[list[Case], list[str]]:
    """The cases of this group, and remarks about them."""
    made = [
        *_pair("export: numbers by table", _lines(small=True), _lines(small=False)),
        *_pair("export: escaping, 2% of texts", _escaping(50, escaped), _escaping(50, _encoded)),
        *_pair("export: escaping, no text", _escaping(0, escaped), _escaping(0, _encoded)),
        *_pair("load: numbering keys, packed", _numbering(short=True), _numbering(short=False)),
        *_pair("load: partitions by words", _hashing(partitions_of), _hashing(_one_by_one)),
    ]
    return made, [
        f"{ROWS:,} rows each, processor time; the plain ways are Arrow's casts, the JSON encoder",
        "per text, `dictionary_encode` of texts, and a CRC-32 per text",
    ]


def _pair(name: str, kernel: Callable[[], object], plain: Callable[[], object]) -> list[Case]:
    return [
        Case(name=f"{name}: plain", call=plain),
        Case(name=name, call=kernel, against=f"{name}: plain", ratio_max=0.9),
    ]


class _NoTables(SmallNumbers):
    def spelled(self, before: str, column: pa.Array, kind: object) -> None:
        return None


def _lines(*, small: bool) -> Callable[[], object]:
    entity = compile_schema(SCHEMA).node_by_name["Person"]
    encoder = LineEncoder(entity)
    if not small:
        cast(Any, encoder)._small = _NoTables()
    numbers = range(ROWS)
    ids = pa.array([f"person-{n:07}" for n in numbers])
    rows = pa.record_batch(
        {
            "id": ids,
            "name": ids,
            "age": pa.array([n % 90 for n in numbers], pa.int32()),
            "year": pa.array([1930 + n % 90 for n in numbers], pa.int32()),
            "born": pa.array([date(1930 + n % 90, 1 + n % 12, 1) for n in numbers]),
            "active": pa.array([n % 3 == 0 for n in numbers]),
        }
    )
    return lambda: encoder.encode(rows)


def _escaping(every: int, function: Callable[[pa.Array], pa.Array]) -> Callable[[], object]:
    """Texts of some fifty characters, one in so many of which has quotes and a line feed."""
    plain = "It weaves algebraic patterns just as the loom does, "
    texts = [f'{plain}"{n}"\n' if every and n % every == 0 else f"{plain}{n}" for n in range(ROWS)]
    column = pa.array(texts)
    expected = [json.dumps(text)[1:-1] for text in texts[:100]]
    assert function(column)[:100].to_pylist() == expected
    return lambda: function(column)


def _encoded(column: pa.Array) -> pa.Array:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    return pa.array([encode(text)[1:-1] for text in column.to_pylist()])


def _numbering(*, short: bool) -> Callable[[], object]:
    keys = pa.array([f"person-{n * 7919 % ROWS:07}" for n in range(ROWS)])
    chunks = [keys.slice(start, ROWS // 8) for start in range(0, ROWS, ROWS // 8)] * 2
    if not short:
        return lambda: numbered(chunks)
    given = [packed([chunk])[0] for chunk in chunks]
    return lambda: numbered(given)


def _hashing(function: Callable[[list[pa.Array], int], object]) -> Callable[[], object]:
    keys = pa.array([f"person-{n:07}" for n in range(ROWS)])
    return lambda: function([keys], PARTITIONS)


def _one_by_one(columns: list[pa.Array], count: int) -> list[int]:
    return [zlib.crc32(text.encode()) % count for text in columns[0].to_pylist()]
