"""Cardinality: how many edges of a type may leave one node.

Only the sources that a change touches are counted: those of edges that come, go or move, as long
as the source itself stays. A node that never had an edge is not held to a minimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.rules.report import Positions, Reporter, gathered, joined, places
from omnigraph.rules.violation import Origin, Rule, Violations


def count_edges(
    sources: pa.Array | pa.ChunkedArray, ends: Iterable[pa.Array | pa.ChunkedArray]
) -> pa.Int64Array:
    """Counts the edges that leave each of some distinct sources, from batches of `src`."""
    wanted = joined(sources)
    counts = np.zeros(len(wanted), np.int64)
    texts = (joined(batch).cast(wanted.type) for batch in ends)
    for batches in gathered(texts, len(wanted)):
        at = pc.index_in(pa.chunked_array(batches), value_set=wanted, skip_nulls=True)
        found = at.drop_null().to_numpy()
        counts += np.bincount(found, minlength=len(wanted))
    return pa.array(counts)


def judge_cardinality(
    edge: EdgeType,
    sources: pa.Array | pa.ChunkedArray,
    counts: pa.Array,
    out: Violations,
    origin: Origin | None = None,
) -> None:
    """Judge the number of edges that leave each touched source after a change.

    Args:
        edge: The type of the edges.
        sources: The ids of the touched nodes that still exist, each once.
        counts: How many edges leave each of them, of `count_edges`.
        out: Takes one violation for each source with too few or too many.
        origin: The file and line to blame for a source, given its place in `sources`.
    """
    report = Reporter(edge, joined(sources), out, origin)
    low, high = edge.cardinality.low, edge.cardinality.high

    def describe(
        rows: Positions, bound: str, chosen: Positions, names: list[str]
    ) -> Iterator[tuple[JsonValue, str]]:
        found: list[int] = counts.take(pa.array(rows[chosen])).to_pylist()
        for count, name in zip(found, names, strict=True):
            edges = f"{count} edge" if count == 1 else f"{count} edges"
            label = f"@card violation on edge {edge.name}"
            yield count, f"{label}: source {name} has {edges} ({bound})"

    if low:
        few = places(pc.less(counts, low))
        report.rows(Rule.CARDINALITY, few, ("src",), partial(describe, few, f"min {low}"))
    if high is not None:
        many = places(pc.greater(counts, high))
        report.rows(Rule.CARDINALITY, many, ("src",), partial(describe, many, f"max {high}"))
