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
    for end, node, existing in (("src", edge.source, sources), ("dst", edge.target, targets)):
        named = joined(edges.column(end))
        found = pc.is_in(named, value_set=joined(existing).cast(named.type), skip_nulls=True)
        rows = places(pc.and_(pc.invert(found), named.is_valid()))
        _report(end, node, named, rows, report)


def report_dangling(
    edge: EdgeType,
    end: str,
    named: pa.Array,
    rows: Positions,
    out: Violations,
    *,
    ids: pa.Array | None = None,
    origin: Origin | None = None,
) -> None:
    """Report edges of which one end was found to lead nowhere.

    Args:
        edge: The type of the edges.
        end: Which end, `src` or `dst`.
        named: The node that each of some edges names there.
        rows: The places of those that do not exist.
        out: Takes one violation for each.
        ids: The ids of the edges; None when they are not known here.
        origin: The file and line of an edge, given its place.
    """
    known = pa.nulls(len(named), pa.string()) if ids is None else ids
    node = edge.source if end == "src" else edge.target
    _report(end, node, named, rows, Reporter(edge, known, out, origin))


def _report(end: str, node: str, named: pa.Array, rows: Positions, report: Reporter) -> None:
    def describe(chosen: Positions, _: list[str]) -> Iterator[tuple[JsonValue, str]]:
        for value in plain_values(named.take(pa.array(rows[chosen])), _TEXT):
            yield value, f"{end} {quoted(value)} not found in {node}"

    report.rows(Rule.ENDPOINT, rows, (end,), describe)
