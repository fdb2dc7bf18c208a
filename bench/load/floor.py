"""The least that a load could cost: decode with Arrow, write Lance fragments, on two threads.

Nothing is judged, nothing is exchanged, committed or synced. Lines are told apart by the tenth
character, and unknown fields, duplicates and places are not looked at.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
from lance.fragment import write_fragments

from bench.load.contender import THREADS, Pass
from bench.load.schema import DIM, EDGES
from omnigraph.store.versions.gateway import STORAGE_VERSION

SPLIT_BYTES: Final = 64 << 20
BLOCK_BYTES: Final = 8 << 20
GATHER_BYTES: Final = 64 << 20
NEWLINE: Final = 10
TYPE_AT: Final = 9  # `{"type":"P` and `{"edge":"K`: the initials of the types differ

DAY: Final = pa.timestamp("s")  # the JSON reader has no days

DATA: Final[Mapping[str, pa.Schema]] = {
    "Person": pa.schema(
        [
            ("key", pa.string()),
            ("name", pa.string()),
            ("age", pa.int32()),
            ("score", pa.float64()),
            ("active", pa.bool_()),
            ("since", DAY),
            ("city", pa.string()),
            ("bio", pa.string()),
        ]
    ),
    "Company": pa.schema(
        [
            ("key", pa.string()),
            ("name", pa.string()),
            ("sector", pa.string()),
            ("founded", pa.int32()),
        ]
    ),
    "Knows": pa.schema([("since", DAY), ("weight", pa.float64())]),
    "WorksAt": pa.schema([("since", DAY), ("role", pa.string())]),
    "Doc": pa.schema(
        [("key", pa.string()), ("title", pa.string()), ("embedding", pa.list_(pa.float32()))]
    ),
}
_STORED: Final[Mapping[pa.DataType, pa.DataType]] = {
    DAY: pa.date32(),
    pa.list_(pa.float32()): pa.list_(pa.float32(), DIM),
}
BY_INITIAL: Final = {ord(name[0]): name for name in DATA}

Item = TypeVar("Item")


def ndjson(*, source: str, types: Sequence[str], target: str, ids: bool = True) -> Pass:
    """Lines into one table per type. Without `ids`, tables lack the column that a graph's have."""
    tables = Tables(Path(target), types, ids=ids)
    path = Path(source)

    def run() -> None:
        tables.fill(ranges(path), lambda place: decoded(path, *place))

    return Pass(run=run, count=tables.count)


def parquet(*, source: str, types: Sequence[str], target: str, ids: bool = True) -> Pass:
    """Parquet files, one per type, into tables."""
    tables = Tables(Path(target), types, ids=ids)
    folder = Path(source)

    def read(place: tuple[str, int]) -> Iterator[tuple[str, pa.Table]]:
        name, group = place
        rows = pq.ParquetFile(folder / f"{name}.parquet").read_row_group(group, use_threads=False)
        yield name, _ends(rows, name)

    def run() -> None:
        tables.fill(
            [
                (name, group)
                for name in types
                for group in range(pq.ParquetFile(folder / f"{name}.parquet").num_row_groups)
            ],
            read,
        )

    return Pass(run=run, count=tables.count)


class Tables:
    """Tables below a folder, each a pile of fragments that nothing refers to."""

    def __init__(self, folder: Path, types: Sequence[str], *, ids: bool) -> None:
        self._ids = ids
        self._rows: dict[str, int] = defaultdict(int)
        self._tables = {name: self._create(folder / name, name) for name in types}

    def _create(self, place: Path, name: str) -> Any:
        fixed = ["id"] if self._ids else []
        fixed += ["src", "dst"] if name in EDGES else []
        columns = [pa.field(item, pa.string()) for item in fixed]
        columns += [field.with_type(_STORED.get(field.type, field.type)) for field in DATA[name]]
        return lance.write_dataset(
            pa.schema(columns).empty_table(),
            str(place),
            enable_stable_row_ids=True,
            data_storage_version=STORAGE_VERSION,
        )

    def fill(
        self,
        items: Sequence[Item],
        read: Callable[[Item], Iterable[tuple[str, pa.Table]]],
    ) -> None:
        """Read all items and write what they hold, two at a time."""
        with ThreadPoolExecutor(THREADS) as pool:
            for written in pool.map(partial(self._one, read), items):
                for name, rows in written.items():
                    self._rows[name] += rows

    def count(self) -> dict[str, int]:
        """How many rows were written, by type."""
        return dict(self._rows)

    def _one(
        self, read: Callable[[Item], Iterable[tuple[str, pa.Table]]], item: Item
    ) -> dict[str, int]:
        gathered: dict[str, list[pa.Table]] = defaultdict(list)
        sizes: dict[str, int] = defaultdict(int)
        written: dict[str, int] = defaultdict(int)
        for name, rows in read(item):
            gathered[name].append(rows)
            sizes[name] += rows.nbytes
            if sizes[name] >= GATHER_BYTES:
                written[name] += self._write(name, gathered.pop(name))
                sizes[name] = 0
        for name, parts in gathered.items():
            written[name] += self._write(name, parts)
        return written

    def _write(self, name: str, parts: list[pa.Table]) -> int:
        rows = pa.concat_tables(parts)
        if self._ids:
            rows = rows.add_column(0, "id", _ids(rows, name))
        made = write_fragments(rows, self._tables[name], mode="append")
        return sum(int(fragment.physical_rows) for fragment in made)


def _ids(rows: pa.Table, name: str) -> pa.Array:
    """Ids as tables have them: the key, or 26 characters that nothing else has."""
    if name not in EDGES:
        return rows["key"]
    letters = np.random.default_rng().integers(65, 91, rows.num_rows * 26, dtype=np.uint8)
    offsets = np.arange(0, len(letters) + 1, 26, dtype=np.int32)
    return pa.StringArray.from_buffers(rows.num_rows, pa.py_buffer(offsets), pa.py_buffer(letters))


def ranges(path: Path) -> list[tuple[int, int]]:
    """Pieces of a file that end with a line."""
    size = path.stat().st_size
    found, start = [], 0
    with path.open("rb") as file:
        while start < size:
            file.seek(min(size, start + SPLIT_BYTES) - 1)
            file.readline()
            found.append((start, file.tell()))
            start = file.tell()
    return found


def decoded(path: Path, start: int, stop: int) -> Iterator[tuple[str, pa.Table]]:
    """The rows of a piece of a file, block by block and type by type."""
    with path.open("rb") as file:
        file.seek(start)
        while start < stop:
            block = file.read(min(BLOCK_BYTES, stop - start))
            if start + len(block) < stop:
                block += file.readline()
            start += len(block)
            for name, lines in _routed(block):
                yield name, _typed(name, lines)


def _routed(block: bytes) -> Iterator[tuple[str, bytes | pa.Buffer]]:
    """The lines of each type, one after the other."""
    text = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(text == NEWLINE) + 1
    starts = np.concatenate(([0], ends[:-1]))
    kinds = text[starts + TYPE_AT]
    present = np.unique(kinds)
    if len(present) == 1:
        yield BY_INITIAL[int(present[0])], block
        return
    by_byte = np.repeat(kinds, ends - starts)
    for kind in present:
        yield BY_INITIAL[int(kind)], pa.py_buffer(text[by_byte == kind])


def _typed(name: str, lines: bytes | pa.Buffer) -> pa.Table:
    data = pa.field("data", pa.struct(list(DATA[name])))
    head = [pa.field(item, pa.string()) for item in ("edge", "from", "to")]
    envelope = [*head, data] if name in EDGES else [pa.field("type", pa.string()), data]
    found = pj.read_json(
        pa.BufferReader(lines) if isinstance(lines, pa.Buffer) else io.BytesIO(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema(envelope), unexpected_field_behavior="error"
        ),
    )
    columns: dict[str, Any] = {}
    if name in EDGES:
        columns = {"src": found["from"], "dst": found["to"]}
    for field, column in zip(DATA[name], found["data"].combine_chunks().flatten(), strict=True):
        columns[field.name] = _stored(column)
    return pa.table(columns)


def _stored(column: pa.Array) -> pa.Array:
    if column.type == DAY:
        return column.cast(pa.date32())
    if pa.types.is_list(column.type):
        return pa.FixedSizeListArray.from_arrays(pc.list_flatten(column), DIM)
    return column


def _ends(rows: pa.Table, name: str) -> pa.Table:
    if name not in EDGES:
        return rows
    return rows.rename_columns(["src", "dst", *rows.column_names[2:]])
