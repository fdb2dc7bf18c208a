"""The graph that is asked: people who know each other, work somewhere and write documents.

Made from one seed, so that everybody measures the same graph. Degrees follow a power law both ways,
keys are in no order, words are made up so that no analyser stems them or takes them for stop words.
Every document has one to three authors.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]

FORMAT: Final = 1  # raised when the same seed gives another graph
SEED: Final = 20_240_331
DIM: Final = 64
TOPICS: Final = tuple(f"topic{number}" for number in range(10))
CITIES: Final = 200
SECTORS: Final = 20
VOCABULARY: Final = 20_000
CLUSTERS: Final = 256
WORDS_LEAST, WORDS_MOST = 30, 50
DAYS: Final = (14_610, 19_723)  # 2010 to 2023


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many of everything."""

    persons: int
    knows: int
    companies: int
    docs: int

    @classmethod
    def of(cls, scale: float) -> Size:
        """The full graph times `scale`; degrees stay as they are."""
        return cls(
            persons=max(500, round(200_000 * scale)),
            knows=max(10_000, round(4_000_000 * scale)),
            companies=max(50, round(50_000 * scale)),
            docs=max(1_000, round(500_000 * scale)),
        )


def generate(folder: Path, scale: float) -> None:
    """Write the graph as one Parquet file per type, unless it is there already."""
    size = Size.of(scale)
    stamp = json.dumps({"format": FORMAT, "seed": SEED, **asdict(size)}, sort_keys=True)
    done = folder / "graph.json"
    if done.exists() and done.read_text(encoding="utf-8") == stamp:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, table in tables(size, SEED).items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    done.write_text(stamp, encoding="utf-8")


def tables(size: Size, seed: int) -> Mapping[str, pa.Table]:
    """The tables by type name. Edges name their ends by key, in `src` and `dst`."""
    rng = np.random.default_rng(seed)
    persons, companies, docs = (
        _keys(rng, prefix, count)
        for prefix, count in (("p", size.persons), ("c", size.companies), ("d", size.docs))
    )
    knows = _knows(rng, size)
    authors, written = _authorship(rng, size)
    employees = rng.permutation(size.persons)
    employers = _weighted(rng, _popularity(rng, size.companies), size.persons)
    return {
        "Person": _persons(rng, persons),
        "Company": _companies(rng, companies),
        "Doc": _docs(rng, docs),
        "Knows": _edges(rng, persons, persons, *knows),
        "WorksAt": _edges(rng, persons, companies, employees, employers),
        "Wrote": _edges(rng, persons, docs, authors, written),
    }


def read(folder: Path, name: str, columns: list[str] | None = None) -> Any:
    """A generated table."""
    return pq.read_table(folder / f"{name}.parquet", columns=columns)


# -- nodes -----------------------------------------------------------------------------------


def _keys(rng: np.random.Generator, prefix: str, count: int) -> pa.Array:
    """Keys of one length, in no order."""
    digits = len(str(count))
    numbers = pa.array(rng.permutation(count)).cast(pa.string())
    return pc.binary_join_element_wise(prefix, pc.utf8_lpad(numbers, width=digits, padding="0"), "")


def _persons(rng: np.random.Generator, keys: pa.Array) -> pa.Table:
    count = len(keys)
    names = pc.binary_join_element_wise(
        _pick(rng, _words(rng, 300, 2), count), _pick(rng, _words(rng, 3_000, 3), count), " "
    )
    ages = np.clip(rng.normal(42, 15, count), 18, 90).astype(np.int32)
    cities = _weighted(rng, 1 / np.arange(2, CITIES + 2), count)
    return pa.table(
        {"key": keys, "name": names, "age": ages, "city": _named("city", CITIES).take(cities)}
    )


def _companies(rng: np.random.Generator, keys: pa.Array) -> pa.Table:
    count = len(keys)
    names = pc.binary_join_element_wise(_pick(rng, _words(rng, 3_000, 3), count), "ltd", " ")
    return pa.table(
        {"key": keys, "name": names, "sector": _pick(rng, _named("sector", SECTORS), count)}
    )


def _docs(rng: np.random.Generator, keys: pa.Array) -> pa.Table:
    count = len(keys)
    words = _words(rng, VOCABULARY, 3)
    lengths = rng.integers(WORDS_LEAST, WORDS_MOST + 1, count)
    titles = _texts(rng, words, np.full(count, 4))
    return pa.table(
        {
            "key": keys,
            "title": titles,
            "topic": _pick(rng, pa.array(TOPICS), count),
            "body": _texts(rng, words, lengths),
            "embedding": _vectors(rng, count),
        }
    )


def _texts(rng: np.random.Generator, words: pa.Array, lengths: Ints) -> pa.Array:
    """Texts of so many words; the first words of the vocabulary are the most frequent ones."""
    chosen = _weighted(rng, 1 / np.arange(1, len(words) + 1), int(lengths.sum()))
    ends = np.concatenate(([0], np.cumsum(lengths)))
    lists = pa.LargeListArray.from_arrays(pa.array(ends), words.take(pa.array(chosen)))
    return pc.binary_join(lists, " ").cast(pa.string())


def _vectors(rng: np.random.Generator, count: int) -> pa.Array:
    """Points around a few hundred centres, as embeddings of texts tend to lie."""
    centres = rng.standard_normal((CLUSTERS, DIM), dtype=np.float32)
    points = rng.standard_normal((count, DIM), dtype=np.float32)
    points *= 0.7
    points += centres[rng.integers(0, CLUSTERS, count)]
    return pa.FixedSizeListArray.from_arrays(pa.array(points.reshape(-1)), DIM)


def _words(rng: np.random.Generator, count: int, syllables: int) -> pa.Array:
    """Different made-up words. They end in a, o or u, where English has no suffix to take off."""
    opening, inner, last = "bcdfghjklmnprtvz", "aeiou", "aou"
    total = (len(opening) * len(inner)) ** (syllables - 1) * len(opening) * len(last)
    words = []
    for chosen in rng.choice(total, count, replace=False).tolist():
        rest, letter = divmod(chosen, len(last))
        rest, consonant = divmod(rest, len(opening))
        word = opening[consonant] + last[letter]
        for _ in range(syllables - 1):
            rest, vowel = divmod(rest, len(inner))
            rest, consonant = divmod(rest, len(opening))
            word = opening[consonant] + inner[vowel] + word
        words.append(word)
    return pa.array(words)


def _named(prefix: str, count: int) -> pa.Array:
    return pa.array([f"{prefix}{number}" for number in range(count)])


def _pick(rng: np.random.Generator, values: pa.Array, count: int) -> pa.Array:
    return values.take(pa.array(rng.integers(0, len(values), count)))


# -- edges -----------------------------------------------------------------------------------


def _edges(
    rng: np.random.Generator, sources: pa.Array, targets: pa.Array, src: Ints, dst: Ints
) -> pa.Table:
    order = rng.permutation(len(src))
    since = rng.integers(*DAYS, len(src)).astype(np.int32)
    return pa.table(
        {
            "src": sources.take(pa.array(src[order])),
            "dst": targets.take(pa.array(dst[order])),
            "since": pa.array(since, pa.date32()),
        }
    )


def _knows(rng: np.random.Generator, size: Size) -> tuple[Ints, Ints]:
    """Different pairs of different people, at least as many as asked for and then cut."""
    count = size.persons
    degrees = rng.lognormal(0, 0.7, count) * _popularity(rng, count) ** 0.57
    degrees[rng.random(count) < 0.045] = 0
    degrees *= 1.04 * size.knows / degrees.sum()
    degrees = np.minimum(degrees, count / 8)
    src = np.repeat(np.arange(count), np.floor(degrees + rng.random(count)).astype(np.int64))
    pairs = np.empty(0, np.int64)
    popularity = rng.lognormal(0, 0.5, count) * _popularity(rng, count) ** 0.62
    while len(pairs) < size.knows:
        dst = _weighted(rng, popularity, len(src))
        apart = src != dst
        pairs = np.union1d(pairs, src[apart] * count + dst[apart])
        src = rng.permutation(src)[: size.knows // 4]
    pairs = rng.permutation(pairs)[: size.knows]
    return pairs // count, pairs % count


def _authorship(rng: np.random.Generator, size: Size) -> tuple[Ints, Ints]:
    authors = rng.integers(1, 4, size.docs)
    written = np.repeat(np.arange(size.docs), authors)
    writers = _weighted(rng, _popularity(rng, size.persons) ** 0.5, len(written))
    pairs = np.unique(written * size.persons + writers)
    return pairs % size.persons, pairs // size.persons


def _popularity(rng: np.random.Generator, count: int) -> Floats:
    """Weights with a heavy tail."""
    return rng.pareto(1.2, count) + 1


def _weighted(rng: np.random.Generator, weights: Floats, count: int) -> Ints:
    """So many draws with these weights."""
    total = np.cumsum(weights)
    drawn: Ints = np.searchsorted(total, rng.random(count) * total[-1], side="right")
    return drawn
