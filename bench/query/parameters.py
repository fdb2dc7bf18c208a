"""With which parameters the questions are asked: the same for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.query.generate import SEED, TOPICS, read
from bench.query.questions import QUESTIONS

SEEDS: Final = 60
DEGREES: Final = (4, 79)
# Ranks of the words that are searched for: neither everywhere nor nowhere.
WORD_RANKS: Final = (200, 2_000)


def parameters(data: Path) -> dict[str, list[dict[str, Any]]]:
    """The parameter sets of every question, the same for every engine."""
    rng = np.random.default_rng(SEED + 1)
    values: dict[str, Sequence[Any]] = {
        "key": _keys(rng, data),
        "age": [30 + number % 20 for number in range(SEEDS)],
        "topic": [TOPICS[number % len(TOPICS)] for number in range(SEEDS)],
        "vector": _vectors(rng, data),
        "words": _words(rng, data),
    }
    return {
        question.name: [
            {name: values[name][number] for name in question.params}
            for number in range(SEEDS if question.params else 1)
        ]
        for question in QUESTIONS
    }


def _keys(rng: np.random.Generator, data: Path) -> list[str]:
    """People of middling degree."""
    found = pc.value_counts(read(data, "Knows", ["src"])["src"].combine_chunks())
    degrees = found.field("counts").to_numpy()
    least, most = DEGREES
    people = found.field("values").filter(pa.array((degrees >= least) & (degrees <= most)))
    ordered = people.take(pc.sort_indices(people))
    return list(ordered.take(pa.array(rng.choice(len(ordered), SEEDS, replace=False))).to_pylist())


def _vectors(rng: np.random.Generator, data: Path) -> list[list[float]]:
    """Points near documents."""
    column = read(data, "Doc", ["embedding"])["embedding"].combine_chunks()
    places = rng.choice(len(column), SEEDS, replace=False)
    found = np.array(column.take(pa.array(places)).to_pylist(), np.float32)
    found += 0.3 * rng.standard_normal(found.shape, dtype=np.float32)
    return [[float(number) for number in row] for row in found]


def _words(rng: np.random.Generator, data: Path) -> list[str]:
    """Pairs of words that some documents have."""
    bodies = read(data, "Doc", ["body"])["body"].combine_chunks()
    some = bodies.slice(0, 20_000)
    counted = pc.value_counts(pc.list_flatten(pc.split_pattern(some, " ")))
    order = np.lexsort((counted.field("values").to_pylist(), -counted.field("counts").to_numpy()))
    words = counted.field("values").take(pa.array(order)).to_pylist()
    least, most = WORD_RANKS
    ranks = rng.integers(least, min(most, len(words)), (SEEDS, 2)).tolist()
    return [f"{words[a]} {words[b]}" for a, b in ranks]
