"""The data that is loaded, made from one seed, so that everybody measures the same.

Mixed NDJSON as an application writes it, nodes before edges and their types in no order; the same
rows as one Parquet file per type; documents with vectors; rows to merge into a large table.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.load.lines import lines_of, write_lines
from bench.load.schema import DIM, EDGES, NODES, SECTORS

FORMAT: Final = 1  # raised when the same seed gives other data
SEED: Final = 20_250_607
ROWS_PER_GROUP: Final = 200_000
VECTORS_PER_GROUP: Final = 20_000
LINES_AT_ONCE: Final = 200_000
DAYS: Final = (14_610, 19_723)  # 2010 to 2023


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many of everything."""

    persons: int
    companies: int
    knows: int
    works: int

    @classmethod
    def of(cls, scale: float) -> Size:
        """1.5 million nodes and 2.5 million edges, times `scale`."""
        persons = max(1_000, round(1_400_000 * scale))
        return cls(
            persons=persons,
            companies=max(100, round(100_000 * scale)),
            knows=max(2_000, round(2_100_000 * scale)),
            works=min(persons, max(400, round(400_000 * scale))),
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many of each type."""
        return {
            "Person": self.persons,
            "Company": self.companies,
            "Knows": self.knows,
            "WorksAt": self.works,
        }


def tables(size: Size, seed: int = SEED) -> Mapping[str, pa.Table]:
    """The rows by type name. Edges name their ends by key, in `from` and `to`."""
    rng = np.random.default_rng(seed)
    persons = keys("p", rng.permutation(size.persons))
    companies = keys("c", rng.permutation(size.companies))
    knows = (rng.integers(0, size.persons, size.knows), rng.integers(0, size.persons, size.knows))
    # Nobody has two employers: the schema says so.
    works = (
        rng.permutation(size.persons)[: size.works],
        rng.integers(0, size.companies, size.works),
    )
    return {
        "Person": people(rng, persons),
        "Company": _companies(rng, companies),
        "Knows": _edges(rng, persons, persons, *knows, weight=_decimals(rng, size.knows, 1)),
        "WorksAt": _edges(rng, persons, companies, *works, role=_texts(rng, size.works, 1)),
    }


def graph(folder: Path, scale: float, *, parquet: bool = True) -> Size:
    """Write the graph as `graph.jsonl`, and as one Parquet file per type if wanted."""
    size = Size.of(scale)

    def make() -> None:
        found = tables(size)
        with (folder / "graph.jsonl").open("wb") as out:
            for text in _mixed({name: found[name] for name in NODES}, "node"):
                out.write(text)
            for text in _mixed({name: found[name] for name in EDGES}, "edge"):
                out.write(text)
        for name, table in found.items() if parquet else ():
            path = folder / f"{name}.parquet"
            pq.write_table(table, path, row_group_size=ROWS_PER_GROUP)

    once(folder, {**asdict(size), "parquet": parquet}, make)
    return size


def divided(source: Path, folder: Path, count: int) -> None:
    """Write the lines of a file into so many files, about as many into each."""

    def make() -> None:
        lines = source.read_bytes().splitlines(keepends=True)
        for number in range(count):
            part = lines[len(lines) * number // count : len(lines) * (number + 1) // count]
            (folder / f"part-{number:06d}.jsonl").write_bytes(b"".join(part))

    once(folder, {"bytes": source.stat().st_size, "count": count}, make)


def docs(folder: Path, scale: float) -> int:
    """Write 500,000 documents times `scale` as Parquet, and some of them as NDJSON."""
    count = max(2_000, round(500_000 * scale))
    slice_of = max(1_000, round(20_000 * scale))

    def make() -> None:
        rng = np.random.default_rng(SEED)
        names = keys("d", rng.permutation(count))
        titles = _texts(rng, count, 4)
        schema = pa.schema(
            [
                ("key", pa.string()),
                ("title", pa.string()),
                ("embedding", pa.list_(pa.float32(), DIM)),
            ]
        )
        path = folder / "Doc.parquet"
        with pq.ParquetWriter(path, schema, use_dictionary=False) as out:
            for start in range(0, count, VECTORS_PER_GROUP):
                part = min(VECTORS_PER_GROUP, count - start)
                columns = [names.slice(start, part), titles.slice(start, part), _vectors(rng, part)]
                out.write_table(pa.table(columns, schema=schema))
        some = pq.read_table(path).slice(0, slice_of)
        with (folder / "docs.jsonl").open("wb") as out:
            for text in _mixed({"Doc": some}, "node"):
                out.write(text)

    once(folder, {"docs": count, "slice": slice_of, "dim": DIM}, make)
    return count


def merging(folder: Path, scale: float) -> tuple[int, int]:
    """Write five million people, and 100,000 to merge into them, every second one known already."""
    base, change = max(10_000, round(5_000_000 * scale)), max(200, round(100_000 * scale))

    def make() -> None:
        rng = np.random.default_rng(SEED)
        # Odd numbers are left over for those who are new.
        there = keys("p", rng.permutation(base) * 2)
        pq.write_table(people(rng, there), folder / "base.parquet", row_group_size=ROWS_PER_GROUP)
        known = rng.choice(base, change // 2, replace=False) * 2
        new = rng.choice(base, change - change // 2, replace=False) * 2 + 1
        both = rng.permutation(np.concatenate((known, new)))
        pq.write_table(people(rng, keys("p", both)), folder / "change.parquet")

    once(folder, {"base": base, "change": change}, make)
    return base, change


def keys(prefix: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """Keys of eight digits."""
    digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=8, padding="0")
    return pc.binary_join_element_wise(prefix, digits, "")


def people(rng: np.random.Generator, names: pa.Array) -> pa.Table:
    """Rows of `Person` with these keys."""
    count = len(names)
    return pa.table(
        {
            "key": names,
            "name": _texts(rng, count, 2),
            "age": pa.array(rng.integers(18, 91, count), pa.int32()),
            "score": _decimals(rng, count, 100),
            "active": pa.array(rng.random(count) < 0.7),
            "since": _days(rng, count),
            "city": _pick(rng, pa.array([f"city{number}" for number in range(500)]), count),
            "bio": _texts(rng, count, 12),
        }
    )


def _companies(rng: np.random.Generator, names: pa.Array) -> pa.Table:
    count = len(names)
    return pa.table(
        {
            "key": names,
            "name": _texts(rng, count, 2),
            "sector": _pick(rng, pa.array(SECTORS), count),
            "founded": pa.array(rng.integers(1850, 2024, count), pa.int32()),
        }
    )


def _edges(
    rng: np.random.Generator,
    sources: pa.Array,
    targets: pa.Array,
    src: np.ndarray[tuple[int], np.dtype[np.int64]],
    dst: np.ndarray[tuple[int], np.dtype[np.int64]],
    **more: pa.Array,
) -> pa.Table:
    ends = {"from": sources.take(pa.array(src)), "to": targets.take(pa.array(dst))}
    return pa.table({**ends, "since": _days(rng, len(src)), **more})


def _decimals(rng: np.random.Generator, count: int, most: int) -> pa.Array:
    return pa.array(rng.integers(0, most * 10_000, count) / 10_000)


def _days(rng: np.random.Generator, count: int) -> pa.Array:
    return pa.array(rng.integers(*DAYS, count).astype(np.int32), pa.date32())


def _texts(rng: np.random.Generator, count: int, words: int) -> pa.Array:
    """Texts of so many made-up words."""
    openings, vowels = "bcdfghjklmnprtvz", "aeiou"
    syllables = [first + second for first in openings for second in vowels]
    vocabulary = pa.array(
        [one + two + three for one, two, three in rng.choice(syllables, (4_000, 3))]
    )
    return pc.binary_join_element_wise(*(_pick(rng, vocabulary, count) for _ in range(words)), " ")


def _pick(rng: np.random.Generator, values: pa.Array, count: int) -> pa.Array:
    return values.take(pa.array(rng.integers(0, len(values), count)))


def _vectors(rng: np.random.Generator, count: int) -> pa.Array:
    points = rng.standard_normal((count, DIM), dtype=np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(points.reshape(-1)), DIM)


def _mixed(found: Mapping[str, pa.Table], kind: str) -> Iterator[memoryview]:
    """The lines of several types in no order, each type's rows in their own."""
    rng = np.random.default_rng(SEED)
    counts = [table.num_rows for table in found.values()]
    order = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    done = [0] * len(counts)
    for start in range(0, len(order), LINES_AT_ONCE):
        part = order[start : start + LINES_AT_ONCE]
        places = np.empty(len(part), np.int64)
        made, before = [], 0
        for number, (name, table) in enumerate(found.items()):
            here = np.flatnonzero(part == number)
            places[here] = before + np.arange(len(here))
            made.append(lines_of(kind, name, table.slice(done[number], len(here))))
            done[number] += len(here)
            before += len(here)
        yield write_lines(pa.concat_arrays(made).take(pa.array(places)))


def once(folder: Path, made_from: Mapping[str, int], make: Callable[[], None]) -> None:
    """Make the files of a folder, unless they are there already."""
    stamp = json.dumps({"format": FORMAT, "seed": SEED, **made_from}, sort_keys=True)
    done = folder / "made.json"
    if done.exists() and done.read_text(encoding="utf-8") == stamp:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make()
    done.write_text(stamp, encoding="utf-8")
