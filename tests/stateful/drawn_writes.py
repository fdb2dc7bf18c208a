"""Rows and statements for whatever schema a branch has: few values, so that entities meet."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.lang.catalog.model import Catalog, EdgeType, EntityType, Property
from omnigraph.lang.values import Base
from omnigraph.testing.naive.graph import derived_id
from tests.dice import Dice
from tests.stateful.branch_states import STORED, State

NAMES = ("a", "b", "c", "d", "e'")
VALUES: Mapping[Base, tuple[Any, ...]] = {
    Base.VECTOR: ([0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [1.0, 2.0]),
    Base.BLOB: tuple("base64:" + base64.b64encode(text).decode() for text in (b"aa", b"b", b"")),
    Base.STRING: ("a", "b", "ab", "b'", 'a"', "Ada"),
    Base.BOOL: (False, True),
    Base.DATE: ("2024-01-01", "2024-01-02", "1969-12-31"),
    Base.F64: (0.0, 0.5, 1.0, 2.0, -0.0),
    Base.F32: (0.0, 0.5, 1.0, 2.0, -0.0),
}
NUMBERS = (0, 1, 2, 3)
Row = dict[str, Any]
Ids = dict[str, list[str]]


def entities(catalog: Catalog) -> tuple[EntityType, ...]:
    return *catalog.nodes, *catalog.edges


def held(found: State, entity: EntityType) -> list[Row]:
    key = f"{entity.kind}:{entity.name}"
    return [row for (table, _), row in sorted(found.items()) if table == key]


def assignments(values: Mapping[str, Any]) -> str:
    """Values as statements write them: literals are those of JSON."""
    return ", ".join(f"{name}: {json.dumps(value)}" for name, value in values.items())


class DrawnWrites:
    """Draws what is written to a branch."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def value(self, item: Property) -> Any:
        """A value of a property, as loads take it."""
        kind = item.type
        if kind.nullable and self._dice.is_so(0.2):
            return None
        if kind.is_list:
            return self._dice.some(NUMBERS, 2)
        return self._dice.one(kind.enum or VALUES.get(kind.base, NUMBERS))

    def of_key(self, item: Property) -> Any:
        return self._dice.one(NAMES if item.type.base is Base.STRING else NUMBERS[:2])

    # -- loads -------------------------------------------------------------------------------------

    def rows(self, catalog: Catalog, found: State, mode: str) -> dict[str, list[Row]]:
        """A few rows of some types, each entity once."""
        ids: Ids = {node.name: [row["id"] for row in held(found, node)] for node in catalog.nodes}
        chance = 0.4 if mode == "overwrite" else 0.6
        drawn: dict[str, list[Row]] = {}
        for entity in entities(catalog):
            if not self._dice.is_so(chance):
                continue
            is_partial = mode == "merge" and self._dice.is_so(0.6)
            rows = [self._row(entity, ids, is_partial) for _ in range(1 + self._dice.below(4))]
            if isinstance(entity, EdgeType):
                rows += self._enough(entity, ids, rows)
            by_id = {entity_id(entity, row): row for row in rows if row}
            if by_id:
                drawn[entity.name] = list(by_id.values())
            if not isinstance(entity, EdgeType):
                ids[entity.name] = sorted({*ids[entity.name], *by_id})
        return drawn

    def _row(self, entity: EntityType, ids: Ids, is_partial: bool) -> Row:
        """A row; an empty one when there is nothing that an edge could join."""
        row: Row = {}
        if isinstance(entity, EdgeType):
            if not ids[entity.source] or not ids[entity.target]:
                return row
            row = {"from": self._dice.one(ids[entity.source])}
            row["to"] = self._dice.one(ids[entity.target])
        if not entity.key:
            row["id"] = entity.name + self._dice.one(NAMES[:4])
        for item in entity.properties:
            if item.name in entity.key:
                row[item.name] = self.of_key(item)
            elif self._dice.is_so(0.5 if is_partial else 0.9):
                row[item.name] = self.value(item)
        return row

    def _enough(self, edge: EdgeType, ids: Ids, rows: Iterable[Row]) -> list[Row]:
        """More edges for the sources of others, where a source has to have so many."""
        if not edge.cardinality.low or self._dice.is_so(0.3):
            return []
        sources = [row["from"] for row in rows if row for _ in range(edge.cardinality.low)]
        return [{**self._row(edge, ids, False), "from": source} for source in sources]

    def moved(self, catalog: Catalog, found: State) -> dict[str, list[Row]]:
        """An edge without a key that gets another end."""
        free = [edge for edge in catalog.edges if not edge.key and held(found, edge)]
        if not free:
            return {}
        edge = self._dice.one(free)
        row = self._dice.one(held(found, edge))
        node, end = self._dice.one([(edge.source, "from"), (edge.target, "to")])
        others = [other["id"] for other in held(found, catalog.node_by_name[node])]
        ends = {"id": row["id"], "from": row["src"], "to": row["dst"]}
        return {edge.name: [{**ends, end: self._dice.one(others)}]}

    # -- statements --------------------------------------------------------------------------------

    def statements(self, catalog: Catalog, found: State) -> list[str]:
        drawn = []
        for _ in range(self._dice.one([1, 1, 2, 3])):
            entity = self._dice.one((*catalog.nodes, *entities(catalog)))
            rows = held(found, entity)
            what = self._dice.one(["insert", "update", "update", "delete", "again"])
            if what == "insert" or not rows:
                drawn += self._insert(catalog, found, entity)
            elif what == "update":
                drawn += self._update(entity, self._dice.one(rows))
            else:
                row = self._dice.one(rows)
                drawn.append(f"delete {entity.name} where {self._where(entity, row)}")
                drawn += self._again(entity, row) if what == "again" and entity.key else []
        return drawn

    @staticmethod
    def _written(entity: EntityType) -> list[Property]:
        """The properties that literals are written for."""
        others = (Base.BLOB, Base.VECTOR)
        return [
            item
            for item in entity.properties
            if item.type.base not in others and not item.type.is_list
        ]

    def _values(self, entity: EntityType) -> Row:
        return {
            item.name: self.value(item)
            for item in self._written(entity)
            if item.name not in entity.key and (not item.type.nullable or self._dice.is_so(0.5))
        }

    def _insert(self, catalog: Catalog, found: State, entity: EntityType) -> list[str]:
        values: Row = {}
        if isinstance(entity, EdgeType):
            for end, node in (("from", entity.source), ("to", entity.target)):
                some = held(found, catalog.node_by_name[node])
                if not some:
                    return []
                values[end] = self._dice.one(some)["id"]
        for item in entity.properties:
            if item.name in entity.key:
                values[item.name] = self.of_key(item)
        return [f"insert {entity.name} {{ {assignments({**values, **self._values(entity)})} }}"]

    def _update(self, entity: EntityType, row: Row) -> list[str]:
        free = [item for item in self._written(entity) if item.name not in entity.key]
        if not free:
            return []
        item = self._dice.one(free)
        given = assignments({item.name: self.value(item)})
        return [f"update {entity.name} set {{ {given} }} where {self._where(entity, row)}"]

    def _again(self, entity: EntityType, row: Row) -> list[str]:
        """What a statement before has deleted is made anew."""
        values = {spoken(name): row[name] for name in entity.key}
        return [f"insert {entity.name} {{ {assignments({**values, **self._values(entity)})} }}"]

    def _where(self, entity: EntityType, row: Row) -> str:
        if not isinstance(entity, EdgeType):
            return f"id = {json.dumps(row['id'])}"
        source, target = (json.dumps(row[end]) for end in ("src", "dst"))
        return f"from = {source}" + (f" and to = {target}" if self._dice.is_so(0.5) else "")


def spoken(name: str) -> str:
    """A column as statements and loads call it."""
    return {"src": "from", "dst": "to"}.get(name, name)


def entity_id(entity: EntityType, row: Row) -> str:
    if not entity.key:
        return str(row.get("id"))
    return derived_id(entity, {STORED.get(name, name): value for name, value in row.items()})
