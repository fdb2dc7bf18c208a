"""The exchange: keys that must meet come together in one partition, whichever task found them.

A task puts keys into channels; every row of a channel goes to the partition of its key. The task
that judges a partition then finds there everything that is said about its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.dataplane.load.hashing import partitions_of
from omnigraph.dataplane.load.packing import packed, unpacked
from omnigraph.dataplane.staging import Content, StagedPart, Staging
from omnigraph.rules.violation import Origin

# No property has such a name.
KEY: Final = ":key"
LINE: Final = ":line"
ID: Final = "id"
NOWHERE: Final = ("", 0)  # the place of what no line of the input is to blame for
PARTITIONS_MAX: Final = 1 << 10
FETCH_BYTES: Final = 32 << 20  # of small partitions that are fetched together
_FLUSH_ROWS: Final = 1 << 20
_BLOCK_ROWS: Final = 1 << 18
_INT32_MAX: Final = (1 << 31) - 1
LINE_BITS: Final = 35  # of a place; the split is above them

Lines: TypeAlias = "npt.NDArray[np.int64]"
Placed: TypeAlias = tuple[int, StagedPart]  # a partition, and what is in it


# -- channels: what is said about keys -------------------------------------------------------------


def ids_channel(key: str) -> str:
    """Ids that the input gives to entities, and their lines."""
    return f"ids {key}"


def claims_channel(key: str) -> str:
    """Ids of entities whose lines cannot be loaded."""
    return f"claims {key}"


def ends_channel(edge: str, end: str) -> str:
    """Nodes that edges name at one end, and their lines."""
    return f"{end} {edge}"


def left_channel(edge: str) -> str:
    """Sources that edges leave, by moving or going; no line where the input has none."""
    return f"left {edge}"


def values_channel(key: str, columns: Sequence[str]) -> str:
    """Values of unique properties, with the ids and lines of their entities."""
    return f"values {key} {','.join(columns)}"


def released_channel(key: str, columns: Sequence[str]) -> str:
    """Values that entities do not hold any more, with their ids."""
    return f"released {key} {','.join(columns)}"


def stored_channel(key: str, columns: Sequence[str]) -> str:
    """The channel for the values of committed entities in some columns."""
    return f"stored {key} {','.join(columns)}"


def key_rows(keys: pa.Array, lines: Lines) -> pa.Table:
    """Rows of a channel of texts."""
    return pa.table({KEY: keys, LINE: lines_array(lines)})


def lines_array(lines: Lines) -> pa.Array:
    """Numbers of lines, half as wide when that is enough."""
    narrow = not len(lines) or int(lines[-1]) <= _INT32_MAX
    return pa.array(lines.astype(np.int32) if narrow else lines)


# -- sending ---------------------------------------------------------------------------------------


class Emitter:
    """Divides the keys of one task into partitions and stages them. Not thread-safe.

    A task that is the only one need not divide anything until there is much of it (`is_alone`).
    """

    def __init__(self, staging: Staging, partitions: int, *, is_alone: bool = False) -> None:
        """Divide into so many partitions."""
        self._staging = staging
        self._divides = partitions > 1 and not is_alone
        self._partitions = partitions
        self._waiting: dict[tuple[str, int], list[pa.Table]] = {}
        self._rows = 0
        self._sent: list[Placed] = []

    def add(self, channel: str, rows: pa.Table, keys: int = 1) -> None:
        """Add rows; the first so many columns are the key."""
        if not rows.num_rows:
            return
        self._waiting.setdefault((channel, keys), []).append(rows)
        self._rows += rows.num_rows
        if self._rows >= _FLUSH_ROWS:
            self._divides = self._partitions > 1
            self._flush()

    def close(self) -> tuple[Placed, ...]:
        """Stage what is left; return the places of all."""
        self._flush()
        return tuple(self._sent)

    @property
    def partitions(self) -> int:
        """Into how many partitions it was divided in the end."""
        return self._partitions if self._divides else 1

    def _flush(self) -> None:
        if not self._waiting:
            return
        found: dict[int, dict[str, pa.Table]] = {}
        for (channel, keys), tables in self._waiting.items():
            rows = _together(tables)
            for partition, part in self._divided(rows, keys):
                found.setdefault(partition, {})[channel] = part
        partitions = sorted(found)
        staged_parts = self._staging.put_all([found[partition] for partition in partitions])
        self._sent += zip(partitions, staged_parts, strict=True)
        self._waiting, self._rows = {}, 0

    def _divided(self, rows: pa.Table, keys: int) -> Iterator[tuple[int, pa.Table]]:
        if not self._divides:
            yield 0, rows
            return
        # Block by block: picking texts from all over a large column misses the cache.
        batches = [batch.columns for batch in rows.to_batches(max_chunksize=_BLOCK_ROWS)]
        of = [partitions_of(columns[:keys], self._partitions) for columns in batches]
        names = rows.schema.names
        if names[0] == KEY:
            short = packed([columns[0] for columns in batches])
            batches = [[key, *rest] for key, (_, *rest) in zip(short, batches, strict=True)]
        blocks = [
            _sorted_block(columns, numbers, self._partitions)
            for columns, numbers in zip(batches, of, strict=True)
        ]
        for partition in range(self._partitions):
            pieces = [block.piece(partition) for block in blocks]
            columns = [pa.concat_arrays(column) for column in zip(*pieces, strict=True)]
            if len(columns[0]):
                yield partition, pa.Table.from_arrays(columns, names)


@dataclass(frozen=True, slots=True)
class _Block:
    """Some rows, sorted by partition: those of one lie between its bound and the next."""

    columns: list[pa.Array]
    bounds: list[int]

    def piece(self, partition: int) -> list[pa.Array]:
        start, stop = self.bounds[partition : partition + 2]
        return [column.slice(start, stop - start) for column in self.columns]


def _sorted_block(columns: list[pa.Array], of: npt.NDArray[np.uint16], partitions: int) -> _Block:
    # Stable, so that each partition keeps the order of the input.
    order = pa.array(np.argsort(of, kind="stable"))
    bounds = [0, *np.cumsum(np.bincount(of, minlength=partitions)).tolist()]
    return _Block([column.take(order) for column in columns], bounds)


# -- receiving -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SentKeys:
    """The keys that one task, of a split or of a committed table, put into one partition."""

    split: int
    staged_part: StagedPart


@dataclass(frozen=True, kw_only=True)
class Partition:
    """All keys of one partition, in the order of the input."""

    contents: tuple[tuple[int, Content], ...]

    @staticmethod
    def of(staging: Staging, sent: Iterable[SentKeys]) -> Partition:
        """Fetch what was sent."""
        return next(iter(fetched(staging, [tuple(sent)])))

    def tables(self, channel: str) -> list[pa.Table]:
        """The tables of a channel, piece by piece."""
        return [content[channel] for _, content in self.contents if channel in content]

    def keys(self, channel: str) -> Keys:
        """A channel of the input, with the places of its rows."""
        found: dict[int, list[pa.Table]] = {}
        for split, content in self.contents:
            if channel in content:
                found.setdefault(split, []).append(content[channel])
        return Keys(splits=tuple(found), tables=tuple(_in_order(t) for t in found.values()))


def fetched(
    staging: Staging, partitions: Iterable[Sequence[SentKeys]], bytes_at_once: int = FETCH_BYTES
) -> Iterator[Partition]:
    """Fetch partitions, one after another: the small ones several at a time.

    What a task has sent to neighbouring partitions lies side by side and is read as one.
    """
    waiting: list[list[SentKeys]] = []
    room = bytes_at_once
    for sent in partitions:
        size = sum(item.staged_part.bytes for item in sent)
        if waiting and size > room:
            yield from _fetched_together(staging, waiting)
            waiting, room = [], bytes_at_once
        waiting.append(sorted(sent, key=lambda item: item.split))
        room -= size
    yield from _fetched_together(staging, waiting)


def _fetched_together(staging: Staging, partitions: list[list[SentKeys]]) -> Iterator[Partition]:
    found = iter(staging.get_all([item.staged_part for sent in partitions for item in sent]))
    contents = [tuple((item.split, next(found)) for item in sent) for sent in partitions]
    for number, each in enumerate(contents):
        contents[number] = ()  # what was looked at need not stay in memory
        yield Partition(contents=each)


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Rows of one channel, each with its place in the input."""

    splits: tuple[int, ...]
    tables: tuple[pa.Table, ...]

    @cached_property
    def count(self) -> int:
        """The number of rows."""
        return sum(table.num_rows for table in self.tables)

    @property
    def chunks(self) -> list[pa.Array]:
        """The keys of a channel of texts, each piece in the form in which it was sent."""
        return [chunk for table in self.tables for chunk in table.column(KEY).chunks]

    def whole(self) -> pa.Array:
        """The same as texts, in one piece."""
        return texts_of(self.tables)

    @cached_property
    def _starts(self) -> Lines:
        sizes = [table.num_rows for table in self.tables]
        return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    @property
    def origin(self) -> Origin:
        """The place of a row, given its number."""
        return lambda row: place_named(int(self.places(np.array([row]))[0]))

    def places(self, rows: Lines) -> Lines:
        """The origins of rows, as numbers in the order of the input; -1 for nowhere."""
        found = np.empty(len(rows), np.int64)
        at = np.searchsorted(self._starts, rows, side="right") - 1
        for number in np.unique(at).tolist():
            mine = at == number
            local = pa.array(rows[mine] - self._starts[number])
            lines = self.tables[number].column(LINE).take(local).cast(pa.int64())
            first = self.splits[number] << LINE_BITS
            found[mine] = np.asarray(pc.add(lines, first).fill_null(-1))
        return found


def texts_of(tables: Iterable[pa.Table]) -> pa.Array:
    """The keys of channels of texts, in one piece."""
    chunks = [unpacked(chunk) for table in tables for chunk in table.column(KEY).chunks]
    return pa.chunked_array(chunks, pa.string()).combine_chunks()


def _together(tables: list[pa.Table]) -> pa.Table:
    """Tables of one channel as one.

    They differ in nothing but the width of their lines, and in the form of their keys.
    """
    if all(table.schema.equals(tables[0].schema) for table in tables):
        return pa.concat_tables(tables)
    plain = [
        table.set_column(0, KEY, texts_of([table])) if table.schema.names[0] == KEY else table
        for table in tables
    ]
    return pa.concat_tables(plain, promote_options="permissive")


def _in_order(tables: list[pa.Table]) -> pa.Table:
    """Rows of one split in the order of its lines, emitted by several stages."""
    rows = _together(tables)
    if rows.column(LINE).null_count:
        return rows
    lines = rows.column(LINE).to_numpy()
    if (lines[1:] >= lines[:-1]).all():
        return rows
    return rows.take(pa.array(np.argsort(lines, kind="stable")))


def place_named(place: int) -> tuple[str, int]:
    """A place as violations name it: the split, spelled so that it sorts, and the line there."""
    if place < 0:
        return NOWHERE
    return split_label(place >> LINE_BITS), place & ((1 << LINE_BITS) - 1)


def split_label(number: int) -> str:
    """The name that stands for a file in violations until all splits are counted."""
    return f"{number:012d}"
