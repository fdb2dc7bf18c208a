"""Descriptions of compiled queries for lint, clients and tools: parameters, results, types."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import JsonValue
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import Plan, ReadPlan
from omnigraph.lang.values import Base, ValueType

_KINDS: dict[Base, str] = {
    Base.STRING: "string",
    Base.BOOL: "bool",
    Base.I32: "int",
    Base.U32: "int",
    Base.I64: "bigint",
    Base.U64: "bigint",
    Base.F32: "float",
    Base.F64: "float",
    Base.DATE: "date",
    Base.DATETIME: "datetime",
    Base.BLOB: "blob",
    Base.VECTOR: "vector",
    Base.ENTITY: "object",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter or result column in words that need no type grammar."""

    name: str
    kind: str
    item_kind: str | None
    vector_dim: int | None
    nullable: bool

    def to_json(self) -> dict[str, JsonValue]:
        """Plain values; what does not apply is left out."""
        plain: dict[str, JsonValue] = {"name": self.name, "kind": self.kind}
        if self.item_kind is not None:
            plain["item_kind"] = self.item_kind
        if self.vector_dim is not None:
            plain["vector_dim"] = self.vector_dim
        plain["nullable"] = self.nullable
        return plain


def field(name: str, kind: ValueType) -> Field:
    """A named value type as a field."""
    word = _KINDS[kind.base]
    if kind.is_list:
        return Field(name, "list", word, None, kind.nullable)
    dim = kind.dim if kind.base is Base.VECTOR else None
    return Field(name, word, None, dim, kind.nullable)


@dataclass(frozen=True, slots=True)
class QueryOperation:
    """A plan seen from outside."""

    params: tuple[Field, ...]
    result: tuple[Field, ...]
    reads: tuple[EntityRef, ...]
    writes: tuple[EntityRef, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Plain values, with the names that clients know."""
        return {
            "params": [item.to_json() for item in self.params],
            "result": [item.to_json() for item in self.result],
            "reads": [{"kind": ref.kind, "type_name": ref.name} for ref in self.reads],
            "writes": [{"kind": ref.kind, "type_name": ref.name} for ref in self.writes],
        }


def describe(plan: Plan) -> QueryOperation:
    """Returns what a plan takes, gives, reads and writes."""
    params = tuple(field(item.name, item.type) for item in plan.params)
    if isinstance(plan, ReadPlan):
        result = tuple(field(item.name, item.type) for item in plan.outputs)
        return QueryOperation(params, result, plan.reads, ())
    return QueryOperation(params, (), plan.reads, plan.writes)
