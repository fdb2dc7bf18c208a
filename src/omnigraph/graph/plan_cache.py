"""Compiled queries, cached per schema."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Final

from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.errors import Code, InvalidInput
from omnigraph.exec.read.program import Program, prepare
from omnigraph.lang import QueryCompiler
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import Nearest, Rrf
from omnigraph.lang.ir.ops import MutationPlan, Plan, ReadPlan
from omnigraph.lang.values import Base, ValueType

PROGRAMS_MAX = 1024
# What a row takes at least: a number for each end of an edge, an id, a number.
_CELL_BYTES: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class CompiledQuery:
    """A reading query, ready to run."""

    plan: ReadPlan
    program: Program
    # Per table the bytes of a row in the widest column that it reads.
    widths: tuple[tuple[str, int], ...]
    types: frozenset[str]


class PlanCache:
    """The compiled queries of one schema. Thread-safe."""

    __slots__ = ("_compiler", "_lock", "_readings", "catalog", "schema")

    def __init__(self, schema: AcceptedSchema) -> None:
        """Compile for this schema."""
        self.schema = schema
        self.catalog: Catalog = schema.catalog
        self._compiler = QueryCompiler(schema.catalog)
        self._readings: OrderedDict[tuple[str, str | None], CompiledQuery] = OrderedDict()
        self._lock = Lock()

    def reading(self, text: str, name: str | None) -> CompiledQuery:
        """The reading query `name` of a text, or its only one."""
        try:
            known = self._readings.get((text, name))
        except TypeError:  # not even a key; `plan` says what is wrong
            known = None
        if known is not None:
            return known
        plan = self.plan(text, name)
        if not isinstance(plan, ReadPlan):
            message = f"query `{plan.name}` changes the graph; run it with `mutate`"
            raise InvalidInput(Code.QUERY_INVALID, message, query=plan.name)
        reading = CompiledQuery(plan, prepare(plan, self.catalog), _widths(plan), types_of(plan))
        with self._lock:
            self._readings[text, name] = reading
            while len(self._readings) > PROGRAMS_MAX:
                self._readings.popitem(last=False)
        return reading

    def change(self, text: str, name: str | None) -> MutationPlan:
        """The changing query `name` of a text, or its only one."""
        plan = self.plan(text, name)
        if not isinstance(plan, MutationPlan):
            message = f"query `{plan.name}` only reads; run it with `query`"
            raise InvalidInput(Code.QUERY_INVALID, message, query=plan.name)
        return plan

    def plan(self, text: str, name: str | None) -> Plan:
        """The plan of any query."""
        if not isinstance(text, str):
            raise InvalidInput(Code.INPUT_INVALID, "a query is a text")
        if name is not None and not isinstance(name, str):
            raise InvalidInput(Code.INPUT_INVALID, "the name of a query is a text")
        return self._compiler.compile(text, name)


def types_of(plan: Plan) -> frozenset[str]:
    """The types that a reading query reads, or that a changing one changes."""
    named = plan.reads if isinstance(plan, ReadPlan) else plan.writes
    return frozenset(entity.table_key for entity in named)


def _widths(plan: ReadPlan) -> tuple[tuple[str, int], ...]:
    """Per table, the least bytes per row of the widest column that a plan reads."""
    found = {entity.table_key: _CELL_BYTES for entity in plan.reads}
    for need in plan.needs:
        key = need.entity.table_key
        widths = (_width(column.type) for column in need.columns)
        found[key] = max(found.get(key, 0), *widths, 0)
    for ranking in (plan.ranking, *(item.expr for item in plan.outputs)):
        parts = (ranking.first, ranking.second) if isinstance(ranking, Rrf) else (ranking,)
        for part in parts:
            if isinstance(part, Nearest):
                entity = next(need.entity for need in plan.needs if need.var == part.var)
                found[entity.table_key] = max(found[entity.table_key], 4 * part.dim)
    return tuple(found.items())


def _width(kind: ValueType) -> int:
    return 4 * kind.dim if kind.base is Base.VECTOR else _CELL_BYTES
