"""Endpoints: an edge joins nodes that exist."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.lang.catalog.rules import ID_NAME
from omnigraph.lang.values import Base, ValueType
from omnigraph.rules.report import Positions, Reporter, joined, places, plain_values, quoted
from omnigraph.rules.violation import Origin, Rule, Violations

_TEXT = ValueType(Base.STRING)


def judge_endpoints(
    edge: EdgeType,
    edges: pa.Table,
    out: Violations,
    *,
    sources: pa.Array | pa.ChunkedArray,
    targets: pa.Array | pa.ChunkedArray,
    origin: Origin | None = None,
) -> None:
    """Judge that both ends of edges exist after a change.

    Args:
        edge: The type of the edges.
        edges: Their `id`, `src` and `dst`. A missing end is judged as a required value.
        out: Takes one violation for each end that leads nowhere.
        sources: The ids of nodes of the source type that exist, at least those that are named.
        targets: The same for the target type.
        origin: The file and line of an edge, given the number of its row.
    """
    report = Reporter(edge, joined(edges.column(ID_NAME)), out, origin)
    _judge_end("src", edge.source, joined(edges.column("src")), sources, report)
    _judge_end("dst", edge.target, joined(edges.column("dst")), targets, report)


def _judge_end(
    end: str,
    node: str,
    named: pa.Array,
    existing: pa.Array | pa.ChunkedArray,
    report: Reporter,
) -> None:
    found = pc.is_in(named, value_set=joined(existing).cast(named.type), skip_nulls=True)
    rows = places(pc.and_(pc.invert(found), named.is_valid()))

    def describe(chosen: Positions, _: list[str]) -> Iterator[tuple[JsonValue, str]]:
        for value in plain_values(named.take(pa.array(rows[chosen])), _TEXT):
            yield value, f"{end} {quoted(value)} not found in {node}"

    report.rows(Rule.ENDPOINT, rows, (end,), describe)
