"""Predicates of a plan on workers: which entities and which rows meet them.

Predicates are evaluated by the code that evaluates them in process, on Arrow columns, so they mean
the same. Entities are judged where they are read, before they cross to the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.dataplane.spark.kernel import raising
from omnigraph.exec.evaluate import EvalContext, holds
from omnigraph.exec.large_text import joined
from omnigraph.exec.read.conditions import true
from omnigraph.exec.search.search import matching
from omnigraph.exec.search.text_index import TextIndex
from omnigraph.exec.view import Mask
from omnigraph.lang.ir.expr import Predicate, TextMatch
from omnigraph.lang.values import ValueType
from omnigraph.store.table import ROW_ID

NUMBER: Final = "_id"


@dataclass(frozen=True, slots=True)
class KeepEntities:
    """Keeps the stored rows of one variable that meet all predicates.

    Attributes:
        predicates: What must be true; they name one variable only.
        context: Parameters and the moment of the statement.
        columns: Stored columns to keep beside the number, and the names that they get.
    """

    predicates: tuple[Predicate, ...]
    context: EvalContext
    columns: tuple[tuple[str, str], ...] = ()

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that pass."""

        def column(_: str, name: str) -> pa.Array:
            return batch.column(name)

        mask = np.ones(batch.num_rows, np.bool_)
        for predicate in self.predicates:
            mask &= truth(predicate, column, batch.num_rows, self.context)
        arrays = [batch.column(ROW_ID).cast(pa.int64())]
        arrays += [batch.column(stored) for stored, _ in self.columns]
        names = [NUMBER, *(name for _, name in self.columns)]
        return pa.RecordBatch.from_arrays(arrays, names).filter(pa.array(mask))


@dataclass(frozen=True, slots=True)
class KeepRows:
    """Keeps the rows of a frame that meet a predicate on several variables.

    Attributes:
        predicate: What must be true.
        context: Parameters and the moment of the statement.
        columns: By variable and stored column: the column of the frame, and its type.
        kept: The columns of the frame that go on.
    """

    predicate: Predicate
    context: EvalContext
    columns: Mapping[tuple[str, str], tuple[str, ValueType]]
    kept: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that pass."""
        with raising():
            for batch in batches:
                yield self._passed(batch)

    def _passed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        def column(var: str, name: str) -> pa.Array:
            known, kind = self.columns[var, name]
            return pc.cast(batch.column(known), arrow_type(kind))

        mask = truth(self.predicate, column, batch.num_rows, self.context)
        return batch.select(list(self.kept)).filter(pa.array(mask))


def truth(
    predicate: Predicate,
    column: Callable[[str, str], pa.Array],
    rows: int,
    context: EvalContext,
) -> Mask:
    """A mask of the rows for which a predicate is true, text search included."""

    def text(match: TextMatch) -> pa.Array:
        texts = joined(column(match.var, match.column))
        found = matching(match, TextIndex.build(texts), context)
        return pa.array(found, mask=texts.is_null().to_numpy(zero_copy_only=False))

    return true(holds(predicate, column, rows, replace(context, text=text)))
