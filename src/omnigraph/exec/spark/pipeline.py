"""The operators of a plan as joins of frames.

Variables that no later step reads are dropped, and where the result only needs to know how many
rows there are, or that there are some, equal rows become one before the next hop multiplies them.
"""

from __future__ import annotations

from functools import partial
from typing import Final, assert_never

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.dense import NUMBER, SOURCE, TARGET
from omnigraph.dataplane.spark.table_scan import Frame
from omnigraph.errors import Code, Internal
from omnigraph.exec.read.bounded import text_matches
from omnigraph.exec.read.build import (
    CommonNeighbourOp,
    HopFromAllOp,
    JoinOp,
    StepOp,
    live_after,
    multiplies,
    with_joins,
)
from omnigraph.exec.read.conditions import props_in
from omnigraph.exec.read.fold import Multiplicity
from omnigraph.exec.spark.filters import KeepRows
from omnigraph.exec.spark.frames import COUNT, Bound, Frames, Perform
from omnigraph.lang.ir.expr import EntityRef, Predicate
from omnigraph.lang.ir.ops import AntiJoin, Expand, Filter, Op, OptionalJoin, Scan, Towards
from omnigraph.lang.query.blocks import variables_in
from omnigraph.lang.values import FLOATS, INTEGERS, Base, ValueType

_STRING: Final = ValueType(Base.STRING)


class Pipeline:
    """Turns operators into frames."""

    def __init__(self, frames: Frames, perform: Perform) -> None:
        """Read what these frames read; `perform` runs jobs whose results the next steps need."""
        self.frames = frames
        self._perform = perform
        self.kept: list[Frame] = []  # what was persisted on the way
        self._sql = frames.sql
        self._name = frames.name

    def run(
        self, pipeline: tuple[Op, ...], bound: Bound, live: frozenset[str], mode: Multiplicity
    ) -> Bound:
        """The rows that a pipeline makes of others.

        Args:
            pipeline: The operators.
            bound: The rows that it starts from.
            live: The variables that are read at its end.
            mode: What the end needs to know about equal rows.
        """
        ops = with_joins(pipeline, bound.vars)
        after = live_after(ops, live)
        for place, op in enumerate(ops):
            bound = self._step(op, bound, after[place], mode)
            needed = bound.vars & after[place]
            again = any(multiplies(item) for item in ops[place + 1 :])
            if needed != bound.vars:
                bound = self._without(bound, needed, mode if again else Multiplicity.ROWS)
        return bound

    def _without(self, bound: Bound, needed: frozenset[str], mode: Multiplicity) -> Bound:
        columns = self.frames.columns(needed, count=False)
        if mode is Multiplicity.ROWS:
            frame = self._sql(
                f"SELECT {self.frames.columns(needed)} FROM {{f}} AS f", f=bound.frame
            )
        elif mode is Multiplicity.SET:
            comma = ", " if needed else ""
            text = f"SELECT DISTINCT {columns}{comma}CAST(1 AS BIGINT) AS {COUNT} FROM {{f}} AS f"
            frame = self._sql(text, f=bound.frame)
        elif needed:
            text = f"SELECT {columns}, sum(f.{COUNT}) AS {COUNT} FROM {{f}} AS f GROUP BY {columns}"
            frame = self._sql(text, f=bound.frame)
        else:
            text = f"SELECT sum(f.{COUNT}) AS {COUNT} FROM {{f}} AS f HAVING count(*) > 0"
            frame = self._sql(text, f=bound.frame)
        return Bound(frame, needed)

    def _step(self, op: StepOp, bound: Bound, live: frozenset[str], mode: Multiplicity) -> Bound:
        match op:
            case Scan():
                return self._scan(op, bound)
            case JoinOp():
                return self._join(op, bound)
            case Expand():
                return self._expand(op, bound)
            case Filter(predicate):
                return Bound(self._filtered(bound, predicate), bound.vars)
            case AntiJoin():
                return self._anti(op, bound)
            case OptionalJoin():
                return self._optional(op, bound, live, mode)
            case HopFromAllOp() | CommonNeighbourOp():
                raise Internal(Code.INTERNAL, "shortcuts are for the process")
            case _:
                assert_never(op)

    # -- entities --------------------------------------------------------------------------

    def _scan(self, op: Scan, bound: Bound) -> Bound:
        rows = self.frames.of_type(op.entity, op.filters)
        fresh = f"g.{NUMBER} AS {self._name(op.var)}"
        if bound.is_start:
            frame = self._sql(
                f"SELECT {fresh}, CAST(1 AS BIGINT) AS {COUNT} FROM {{g}} AS g", g=rows
            )
        else:
            text = f"SELECT f.*, {fresh} FROM {{f}} AS f CROSS JOIN {{g}} AS g"
            frame = self._sql(text, f=bound.frame, g=rows)
        return Bound(frame, bound.vars | {op.var})

    def _join(self, op: JoinOp, bound: Bound) -> Bound:
        scan, other = op.scan, op.other
        entity = self.frames.catalog.node_by_name[scan.entity.name]
        declared = entity.property_by_name.get(op.column)
        own = _STRING if declared is None else declared.type
        rows = self.frames.of_type(scan.entity, scan.filters, (("k", op.column),))
        left = self.frames.hydrated(bound.frame, {(other.var, other.column): "k"})
        on = f"{_alike('f.k', other.type, own)} = {_alike('g.k', own, other.type)}"
        text = (
            f"SELECT {self.frames.columns(bound.vars)}, g.{NUMBER} AS {self._name(scan.var)} "
            f"FROM {{f}} AS f JOIN {{g}} AS g ON {on}"
        )
        return Bound(self._sql(text, f=left, g=rows), bound.vars | {scan.var})

    def _filtered(self, bound: Bound, predicate: Predicate) -> Frame:
        frames = self.frames
        names = variables_in(predicate)
        if len(names) == 1 and names.isdisjoint(frames.nullable):
            # Judged where it is read, so that only numbers come back.
            (var,) = names
            return self._only(bound.frame, self._name(var), frames.entities[var], (predicate,))
        wanted: dict[tuple[str, str], tuple[str, ValueType]] = {}
        for prop in props_in(predicate):
            wanted.setdefault((prop.var, prop.column), (f"p{len(wanted)}", prop.type))
        for match in text_matches(predicate):
            wanted.setdefault((match.var, match.column), (f"p{len(wanted)}", _STRING))
        columns = {place: name for place, (name, _) in wanted.items()}
        rows = frames.hydrated(bound.frame, columns) if columns else bound.frame
        kept = tuple(bound.frame.columns)
        keep = KeepRows(predicate, frames.context, wanted, kept)
        return rows.mapInArrow(keep, bound.frame.schema)

    def _only(
        self, frame: Frame, column: str, entity: EntityRef, filters: tuple[Predicate, ...]
    ) -> Frame:
        """The rows whose entity in a column meets filters."""
        rows = self.frames.of_type(entity, filters)
        text = f"SELECT f.* FROM {{f}} AS f LEFT SEMI JOIN {{g}} AS g ON f.{column} = g.{NUMBER}"
        return self._sql(text, f=frame, g=rows)

    # -- edges -----------------------------------------------------------------------------

    def _expand(self, op: Expand, bound: Bound) -> Bound:
        edge = self.frames.catalog.edge_by_name[op.edge.name]
        chains = edge.source == edge.target
        source, target = self._name(op.source), self._name(op.target)
        if op.edge_var is None and not (op.low == 1 and (op.high == 1 or not chains)):
            hops = self._reached(op, bound) if chains else None
        else:
            hops = self._hops(op)
        if hops is None:
            # An edge between two types cannot be followed twice.
            frame = self._sql("SELECT f.* FROM {f} AS f WHERE false", f=bound.frame)
            hops = self._sql(
                "SELECT CAST(0 AS BIGINT) AS s, CAST(0 AS BIGINT) AS t, CAST(0 AS BIGINT) AS e "
                "FROM {f} WHERE false",
                f=bound.frame,
            )
            bound = Bound(frame, bound.vars)
        fresh = frozenset({op.target} if op.edge_var is None else {op.target, op.edge_var})
        on = f"f.{source} = g.s"
        columns = [self.frames.columns(bound.vars)]
        if op.closes:
            on += f" AND f.{target} = g.t"
        else:
            columns.append(f"g.t AS {target}")
        if op.edge_var is not None:
            columns.append(f"g.e AS {self._name(op.edge_var)}")
        text = f"SELECT {', '.join(columns)} FROM {{f}} AS f JOIN {{g}} AS g ON {on}"
        frame = self._sql(text, f=bound.frame, g=hops)
        if op.filters:
            frame = self._only(frame, target, op.target_entity, op.filters)
        return Bound(frame, bound.vars | fresh)

    def _hops(self, op: Expand) -> Frame:
        """From where to where one edge leads, and the edge when it has a name."""
        frame = self.frames.dense.edge_ends(op.edge.name)
        if op.edge_filters:
            frame = self._only(frame, NUMBER, op.edge, op.edge_filters)
        # A self-loop is at its node once.
        sides = {
            Towards.OUT: ((SOURCE, TARGET, ""),),
            Towards.IN: ((TARGET, SOURCE, ""),),
            Towards.BOTH: ((SOURCE, TARGET, ""), (TARGET, SOURCE, f" WHERE {SOURCE} != {TARGET}")),
        }[op.towards]
        edge = "" if op.edge_var is None else f", {NUMBER} AS e"
        parts = [f"SELECT {s} AS s, {t} AS t{edge} FROM {{f}}{where}" for s, t, where in sides]
        text = " UNION ALL ".join(parts)
        declared = self.frames.catalog.edge_by_name[op.edge.name]
        single = set(declared.key) == {"src", "dst"} and op.towards is not Towards.BOTH
        if op.edge_var is None and not single:
            text = f"SELECT DISTINCT s, t FROM ({text})"
        return self._sql(text, f=frame)

    def _reached(self, op: Expand, bound: Bound) -> Frame:
        """The nodes at a shortest distance within the bounds, from each source.

        Every hop makes `seen` anew from itself: a row stays and, if it was reached last, brings
        its neighbours; of equal ones the nearest stays. So the plan grows by one join per hop.
        """
        hops = self._hops(op)
        source = self._name(op.source)
        begin = self._sql(
            f"SELECT DISTINCT {source} AS s, {source} AS t FROM {{f}} WHERE {source} IS NOT NULL",
            f=bound.frame,
        )
        seen = self._sql("SELECT s, t, 0 AS d FROM {f}", f=begin)
        for distance in range(1, op.high + 1):
            seen = self._sql(
                "SELECT s, hop.t AS t, min(hop.d) AS d FROM ("
                "SELECT f.s AS s, explode(filter(array("
                "named_struct('t', f.t, 'd', f.d), "
                f"named_struct('t', g.t, 'd', {distance})), x -> x.t IS NOT NULL)) AS hop "
                f"FROM {{f}} AS f LEFT JOIN {{g}} AS g ON f.t = g.s AND f.d = {distance - 1}"
                ") GROUP BY s, hop.t",
                f=seen,
                g=hops,
            )
            if op.high > tuning.active.planned_hops_max:
                seen = seen.persist()
                self.kept.append(seen)
                fresh = seen.filter(f"d = {distance}")
                if not self._perform(f"hop {distance}", partial(fresh.head, 1)):
                    break
        found = f"SELECT s, t FROM {{f}} WHERE d BETWEEN {op.low} AND {op.high}"
        if op.low > 1:
            return self._sql(found, f=seen)
        # The source is at distance 1 of itself by a stored self-loop only.
        loops = "SELECT b.s, b.t FROM {b} AS b JOIN {g} AS g ON b.s = g.s AND b.s = g.t"
        return self._sql(f"{found} UNION ALL {loops}", f=seen, b=begin, g=hops)

    # -- inner pipelines -------------------------------------------------------------------

    def _inner(
        self, op: AntiJoin | OptionalJoin, bound: Bound, binds: frozenset[str], mode: Multiplicity
    ) -> Bound:
        """The rows of the inner pipeline, started once from each different outer row."""
        outer = frozenset(op.outer)
        begin = self._without(bound, outer, Multiplicity.SET) if outer else self.frames.start()
        return self.run(op.inner, begin, outer | binds, mode)

    def _anti(self, op: AntiJoin, bound: Bound) -> Bound:
        inner = self._inner(op, bound, frozenset(), Multiplicity.SET)
        text = f"SELECT f.* FROM {{f}} AS f LEFT ANTI JOIN {{g}} AS g ON {self._same(op.outer)}"
        return Bound(self._sql(text, f=bound.frame, g=inner.frame), bound.vars)

    def _optional(
        self, op: OptionalJoin, bound: Bound, live: frozenset[str], mode: Multiplicity
    ) -> Bound:
        binds = frozenset(op.binds) & live
        inner = self._inner(op, bound, binds, mode)
        columns = [self.frames.columns(bound.vars, count=False)] if bound.vars else []
        columns += [f"g.{self._name(var)}" for var in sorted(binds)]
        columns.append(f"f.{COUNT} * coalesce(g.{COUNT}, 1) AS {COUNT}")
        text = (
            f"SELECT {', '.join(columns)} FROM {{f}} AS f LEFT JOIN {{g}} AS g "
            f"ON {self._same(op.outer)}"
        )
        return Bound(self._sql(text, f=bound.frame, g=inner.frame), bound.vars | binds)

    def _same(self, outer: tuple[str, ...]) -> str:
        """The condition that two frames agree in some variables, missing ones included."""
        names = [self._name(var) for var in outer]
        return " AND ".join(f"f.{name} <=> g.{name}" for name in names) or "true"


def _alike(column: str, kind: ValueType, other: ValueType) -> str:
    """A column in a form in which it can be compared with one of another type."""
    if arrow_type(kind) == arrow_type(other):
        return column
    if {kind.base, other.base} <= FLOATS:
        return f"CAST({column} AS DOUBLE)"
    if {kind.base, other.base} <= INTEGERS:
        return f"CAST({column} AS BIGINT)"
    return column
