"""Rows of bound variables as a DataFrame, and the statements that make one of another.

A variable is a column of numbers, null where it is missing. The column `n` says how many equal
rows a row stands for. Names of the language never become names of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from omnigraph.dataplane.spark.dense import NUMBER, DenseFrames
from omnigraph.dataplane.spark.table_scan import Frame
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.prefilter import among, fixed_ids, prefilter
from omnigraph.exec.read.bounded import text_matches
from omnigraph.exec.read.conditions import props_in
from omnigraph.exec.spark.filters import KeepEntities
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import And, EntityRef, Predicate
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.lang.values import Base, ValueType

COUNT: Final = "n"
Perform: TypeAlias = Callable[[str, Callable[[], Any]], Any]
"""Runs a job of Spark: its title, and what starts it and waits."""

_ONE: Final = "CAST(1 AS BIGINT) AS n"


@dataclass(frozen=True, slots=True)
class Bound:
    """The rows so far: a DataFrame with a column per variable and `n`."""

    frame: Frame
    vars: frozenset[str]
    is_start: bool = False  # one empty row


class Frames:
    """Makes the frames of one run of one plan."""

    def __init__(
        self, dense: DenseFrames, plan: ReadPlan, catalog: Catalog, context: EvalContext
    ) -> None:
        """Read the entities of a snapshot for a plan."""
        self.dense = dense
        self.session = dense.session
        self.catalog = catalog
        self.context = context
        self.plan = plan
        self.entities = {need.var: need.entity for need in plan.needs}
        self.nullable = frozenset(need.var for need in plan.needs if need.nullable)
        self._names: dict[str, str] = {}

    def name(self, var: str) -> str:
        """The column of a variable."""
        return self._names.setdefault(var, f"v{len(self._names)}")

    def sql(self, text: str, **frames: Frame) -> Frame:
        """Runs a statement on frames; `{f}` in it stands for the frame `f`."""
        return self.session.sql(text, **frames)

    def start(self) -> Bound:
        """One empty row."""
        return Bound(self.session.range(1).selectExpr(_ONE), frozenset(), is_start=True)

    def columns(self, vars: frozenset[str], alias: str = "f", *, count: bool = True) -> str:
        """The columns of some variables and `n`, as a list of SQL."""
        found = [f"{alias}.{self.name(var)}" for var in sorted(vars)]
        return ", ".join([*found, f"{alias}.{COUNT}"] if count else found)

    def of_type(
        self,
        entity: EntityRef,
        filters: tuple[Predicate, ...],
        columns: tuple[tuple[str, str], ...] = (),
    ) -> Frame:
        """The numbers of the entities of a type that meet all filters, and some columns of them.

        Args:
            entity: The type.
            filters: They name one variable only.
            columns: Names in the frame and stored columns.
        """
        if not filters:
            return self.dense.rows(entity.table_key, dict(columns))
        read = {prop.column for item in filters for prop in props_in(item)}
        read |= {match.column for item in filters for match in text_matches(item)}
        read |= {stored for _, stored in columns}
        make = KeepEntities(
            filters, self.context, tuple((stored, name) for name, stored in columns)
        )
        stored = tuple(sorted(read))
        schema = self.dense.schema(entity.table_key, columns)
        return self.dense.made(entity.table_key, stored, make, schema, self._where(entity, filters))

    def _where(self, entity: EntityRef, filters: tuple[Predicate, ...]) -> str | None:
        """A condition that leaves out rows which the filters would refuse anyway."""
        whole = And(filters)
        if entity.kind == "node":
            declared = self.catalog.node_by_name[entity.name]
            ids = fixed_ids(whole, declared, self.context)
            if ids is not None:
                return among("id", ValueType(Base.STRING), ids)
        return prefilter(whole, self.context)

    def hydrated(self, frame: Frame, columns: dict[tuple[str, str], str]) -> Frame:
        """A frame with stored columns of its variables beside it.

        Args:
            frame: Has the columns of the variables.
            columns: By variable and stored column: the name of the new column.
        """
        by_var: dict[str, dict[str, str]] = {}
        for (var, stored), name in columns.items():
            by_var.setdefault(var, {})[name] = stored
        for var, wanted in sorted(by_var.items()):
            rows = self.dense.rows(self.entities[var].table_key, wanted)
            join = "LEFT JOIN" if var in self.nullable else "JOIN"
            fresh = ", ".join(f"g.{name}" for name in wanted)
            frame = self.sql(
                f"SELECT f.*, {fresh} FROM {{f}} AS f {join} {{g}} AS g "
                f"ON f.{self.name(var)} = g.{NUMBER}",
                f=frame,
                g=rows,
            )
        return frame
