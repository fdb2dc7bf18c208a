"""Changing plans, statement by statement, on a copy of the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import ConstValue, EntityRef, Expr
from omnigraph.lang.ir.ops import Assign, DeleteOp, EmbedSpec, InsertOp, MutationPlan, UpdateOp
from omnigraph.lang.values import Base, to_f32
from omnigraph.testing.naive.graph import ModelGraph, Row, derived_id, entity_type
from omnigraph.testing.naive.rules import Broken, Refused, broken_rules
from omnigraph.testing.naive.scope import Given, Scope


@dataclass(frozen=True, slots=True)
class Outcome:
    """The graph after a change, and how many different entities it touched."""

    graph: ModelGraph
    affected_nodes: int
    affected_edges: int

    @property
    def published(self) -> bool:
        """True if there is a commit: a change that touches nothing makes none."""
        return bool(self.affected_nodes or self.affected_edges)


def apply(
    plan: MutationPlan,
    graph: ModelGraph,
    catalog: Catalog,
    given: Given,
    new_id: Callable[[], str],
) -> Outcome:
    """The graph after a plan, all of it or nothing.

    Raises:
        Refused: When the result would break rules.
    """
    change = _Change(graph, catalog, given, new_id)
    for op in plan.ops:
        match op:
            case InsertOp():
                change.insert(op)
            case UpdateOp():
                change.update(op)
            case DeleteOp():
                change.delete(op)
            case _:
                assert_never(op)
    return change.outcome()


class _Change:
    """The state between two statements."""

    def __init__(
        self, graph: ModelGraph, catalog: Catalog, given: Given, new_id: Callable[[], str]
    ) -> None:
        self.tables = graph.copied()
        self.catalog = catalog
        self.given = given
        self.new_id = new_id
        self.affected: set[tuple[str, str]] = set()  # table key and id
        self.touched: dict[str, set[str]] = {}  # edge type to sources
        self.broken: list[Broken] = []

    def outcome(self) -> Outcome:
        after = ModelGraph(self.tables)
        broken = self.broken + broken_rules(self.catalog, after, self.touched)
        if broken:
            raise Refused(broken)
        nodes = sum(key.startswith("node:") for key, _ in self.affected)
        return Outcome(after, nodes, len(self.affected) - nodes)

    def insert(self, op: InsertOp) -> None:
        row = self._assigned({}, op.values)
        entity = entity_type(self.catalog, op.entity.table_key)
        if op.key and any(row[column.name] is None for column in op.key):
            self.broken.append(Broken("required", op.entity.name, ""))
            return
        entity_id = derived_id(entity, row) if op.key else self.new_id()
        before = self.tables.get(op.entity.table_key, {}).get(entity_id, {})
        self._put(op.entity, {**self._embedded(before, row, op.embeds), "id": entity_id})

    def update(self, op: UpdateOp) -> None:
        for row in self._selected(op):
            after = self._embedded(row, self._assigned(row, op.values), op.embeds)
            self._put(op.entity, after)

    def delete(self, op: DeleteOp) -> None:
        gone = {str(row["id"]) for row in self._selected(op)}
        for entity_id in gone:
            self._remove(op.entity, entity_id)
        for cascade in op.cascades:
            for row in list(self.tables.get(cascade.edge.table_key, {}).values()):
                if (cascade.source and row["src"] in gone) or (
                    cascade.target and row["dst"] in gone
                ):
                    self._remove(cascade.edge, str(row["id"]))

    def _selected(self, op: UpdateOp | DeleteOp) -> list[Row]:
        """The entities that meet the predicate, which calls them by no name."""
        entities = {"": op.entity}
        graph = ModelGraph(self.tables)
        return [
            row
            for entity_id, row in graph.rows(op.entity).items()
            if Scope(graph, entities, self.given, {"": entity_id}).holds(op.where)
        ]

    def _put(self, entity: EntityRef, row: Row) -> None:
        self.tables.setdefault(entity.table_key, {})[str(row["id"])] = row
        self._note(entity, row)

    def _remove(self, entity: EntityRef, entity_id: str) -> None:
        self._note(entity, self.tables[entity.table_key].pop(entity_id))

    def _note(self, entity: EntityRef, row: Row) -> None:
        self.affected.add((entity.table_key, str(row["id"])))
        if entity.kind == "edge":
            self.touched.setdefault(entity.name, set()).add(str(row["src"]))

    def _assigned(self, row: Row, values: tuple[Assign, ...]) -> Row:
        after = dict(row)
        for assign in values:
            after[assign.column.name] = self._stored(assign)
        return after

    def _stored(self, assign: Assign) -> ConstValue:
        """The value as the column stores it: a float may be narrower, or come as an integer."""
        value = self._value(assign.value)
        match assign.column.type.base:
            case Base.F32:
                return _each(value, lambda number: to_f32(float(number)))
            case Base.F64:
                return _each(value, float)
            case _:
                return value

    def _embedded(self, before: Row, row: Row, embeds: tuple[EmbedSpec, ...]) -> Row:
        """The row with its vectors; one whose text was the same before stays as it is."""
        after = dict(row)
        for spec in embeds:
            text, old = after[spec.source.name], before.get(spec.target.name)
            if text is None:
                after[spec.target.name] = None
            elif old is not None and before.get(spec.source.name) == text:
                after[spec.target.name] = old
            else:
                after[spec.target.name] = self.given.embed(str(text), spec.target.type.dim)
        return after

    def _value(self, expr: Expr) -> ConstValue:
        return Scope(ModelGraph(), {}, self.given, {}).value(expr)


def _each(value: ConstValue, convert: Callable[[int | float], float]) -> ConstValue:
    if isinstance(value, tuple):
        return tuple(_each(item, convert) for item in value)
    return convert(value) if isinstance(value, int | float) else value
