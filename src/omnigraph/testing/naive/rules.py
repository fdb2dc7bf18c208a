"""The rules of a schema, asked of every entity of a graph."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.lang.catalog.model import Catalog, EdgeType, EntityType, NodeType, Property
from omnigraph.lang.ir.expr import ConstValue
from omnigraph.lang.values import INT_RANGES, Base
from omnigraph.testing.naive.graph import ModelGraph, Row


@dataclass(frozen=True, slots=True, order=True)
class Broken:
    """One rule that an entity breaks."""

    rule: str
    type_name: str
    id: str


class Refused(Exception):
    """A change that would break rules."""

    def __init__(self, broken: Iterable[Broken]) -> None:
        """Refuse because of these."""
        self.broken = tuple(sorted(set(broken)))
        super().__init__(
            ", ".join(f"{item.rule} {item.type_name} {item.id}" for item in self.broken)
        )


def broken_rules(
    catalog: Catalog, graph: ModelGraph, touched: Mapping[str, Iterable[str]]
) -> list[Broken]:
    """Everything that is wrong in a graph.

    Whether a source has enough edges, or too many, is asked only of `touched`: by edge type, the
    nodes whose edges were made or deleted. A node without edges breaks nothing until then.
    """
    found: list[Broken] = []
    for entity in (*catalog.nodes, *catalog.edges):
        rows = graph.tables.get(f"{entity.kind}:{entity.name}", {})
        for row in rows.values():
            for item in entity.properties:
                rules = breaks(entity, item, row[item.name])
                found += [Broken(rule, entity.name, str(row["id"])) for rule in rules]
        found += _uniques(entity, rows)
        if isinstance(entity, EdgeType):
            found += _ends(entity, graph, rows)
            found += _cardinality(entity, graph, rows, touched.get(entity.name, ()))
    return found


def breaks(entity: EntityType, item: Property, value: ConstValue) -> Iterator[str]:
    """The rules that a value of a property breaks by itself."""
    if value is None:
        if not item.type.nullable:
            yield "required"
        return
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, float) and not math.isfinite(each):
            yield "finite"
        if isinstance(each, int) and item.type.base in INT_RANGES:
            low, high = INT_RANGES[item.type.base]
            if not low <= each <= high:
                yield "type"
    if item.type.enum and value not in item.type.enum:
        yield "enum"
    if item.type.base is Base.VECTOR and isinstance(value, tuple) and len(value) != item.type.dim:
        yield "vector_length"
    if isinstance(entity, NodeType):
        yield from _of_node(entity, item, value)


def _of_node(entity: NodeType, item: Property, value: ConstValue) -> Iterator[str]:
    for bounds in entity.ranges:
        if bounds.property == item.name and isinstance(value, int | float):
            low = -math.inf if bounds.low is None else bounds.low
            high = math.inf if bounds.high is None else bounds.high
            if not low <= value <= high:
                yield "range"
    for check in entity.checks:
        if check.property == item.name and not re.search(check.pattern, str(value)):
            yield "check"


def _uniques(entity: EntityType, rows: Mapping[str, Row]) -> Iterator[Broken]:
    for columns in entity.uniques:
        owners: dict[tuple[ConstValue, ...], list[str]] = {}
        for entity_id, row in rows.items():
            held = tuple(row[name] for name in columns)
            if None not in held:
                owners.setdefault(held, []).append(entity_id)
        for ids in owners.values():
            if len(ids) > 1:
                yield Broken("unique", entity.name, min(ids))


def _ends(edge: EdgeType, graph: ModelGraph, rows: Mapping[str, Row]) -> Iterator[Broken]:
    for entity_id, row in rows.items():
        for column, node in (("src", edge.source), ("dst", edge.target)):
            if row[column] not in graph.tables.get(f"node:{node}", {}):
                yield Broken("endpoint", edge.name, entity_id)


def _cardinality(
    edge: EdgeType, graph: ModelGraph, rows: Mapping[str, Row], touched: Iterable[str]
) -> Iterator[Broken]:
    bounds = edge.cardinality
    for source in set(touched):
        if source not in graph.tables.get(f"node:{edge.source}", {}):
            continue
        count = sum(row["src"] == source for row in rows.values())
        if count < bounds.low or (bounds.high is not None and count > bounds.high):
            yield Broken("cardinality", edge.name, source)
