"""Search on workers: distances, and the relevance of texts.

The arithmetic is that of search in process. Relevance depends on the texts of the whole type, so
these are counted first, in a job of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.exec.large_text import joined
from omnigraph.exec.search.nearest import NearestQuery, Scores, Vectors
from omnigraph.exec.search.sources import matrix_of
from omnigraph.exec.search.text_index import Corpus, TextIndex
from omnigraph.store.table import ROW_ID
from omnigraph.types import Metric

# Rows of equal score are ranked by their id.
SCORED = pa.schema([("_id", pa.int64()), ("score", pa.float64()), ("key", pa.string())])
COUNTED = pa.schema(
    [("texts", pa.int64()), ("words", pa.int64()), ("holders", pa.list_(pa.int64()))]
)


@dataclass(frozen=True, slots=True)
class Distances:
    """The distance of each vector to a target; rows without one are left out."""

    column: str
    dim: int
    metric: Metric
    target: Scores

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The distances of a batch."""
        query = NearestQuery(
            Vectors(*matrix_of(batch.column(self.column), self.dim)), self.metric, self.target
        )
        places = query.with_value(None)
        if places is None:
            places = np.arange(batch.num_rows, dtype=np.int32)
        return _scored(batch, places, query.distances(places))


@dataclass(frozen=True, slots=True)
class CountTexts:
    """Counts the texts of a batch, as far as the relevance for some terms depends on it."""

    column: str
    terms: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One row of counts."""
        corpus = TextIndex.build(joined(batch.column(self.column))).corpus(self.terms)
        holders = pa.array([list(corpus.holders)], COUNTED.field("holders").type)
        return pa.RecordBatch.from_arrays(
            [pa.array([corpus.count]), pa.array([corpus.words]), holders], schema=COUNTED
        )


@dataclass(frozen=True, slots=True)
class Relevances:
    """The relevance of each text for some terms; rows without any are left out."""

    column: str
    terms: tuple[str, ...]
    corpus: Corpus

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The scores of a batch."""
        found = TextIndex.build(joined(batch.column(self.column))).bm25(self.terms, self.corpus)
        places = np.sort(found.holders)
        return _scored(batch, places, found.scores[places])


def _scored(batch: pa.RecordBatch, places: np.ndarray, scores: Scores) -> pa.RecordBatch:
    index = pa.array(places)
    numbers = batch.column(ROW_ID).cast(pa.int64()).take(index)
    arrays = [numbers, pa.array(scores), batch.column("id").take(index)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCORED)
