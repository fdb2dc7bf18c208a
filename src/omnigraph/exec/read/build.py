"""Builds the steps of a program from the operators of a plan: the cheapest that give the result.

A variable is kept as long as a later operator or the result reads it. Where the result only needs
to know how many rows there are, or that there are some, rows that agree in what is kept become
one; then many hops need not be taken at all, because the degrees of their sources say enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from omnigraph.core.schema.arrow_types import arrow_type
from omnigraph.exec.read.conditions import EntityCondition, FilterStep
from omnigraph.exec.read.expand import (
    ClosedHopStep,
    DegreeStep,
    HopEdgesStep,
    HopFromAllStep,
    HopStep,
    MultiHopStep,
)
from omnigraph.exec.read.fold import Multiplicity, StepOutput
from omnigraph.exec.read.intersect import IntersectStep
from omnigraph.exec.read.join import AntiJoinStep, OptionalStep, ReadStep, UnlinkedStep
from omnigraph.exec.read.scan import JoinStep, ScanStep, joinable, lookup
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import Compare, CompareOp, EntityRef, Predicate, Prop
from omnigraph.lang.ir.ops import AntiJoin, Expand, Filter, Op, OptionalJoin, Scan
from omnigraph.lang.query.blocks import variables_in


@dataclass(frozen=True, slots=True)
class JoinOp:
    """A scan and the equality that ties it to the rows."""

    scan: Scan
    column: str
    other: Prop


@dataclass(frozen=True, slots=True)
class HopFromAllOp:
    """A scan of a whole type and the hop out of it, when only the targets matter."""

    expand: Expand


@dataclass(frozen=True, slots=True)
class CommonNeighbourOp:
    """A hop and the edge that ties its target to the rows, when the target itself is not read."""

    hop: Expand
    closing: Expand


StepOp = Op | JoinOp | HopFromAllOp | CommonNeighbourOp


class Builder:
    """Builds the steps of one plan."""

    __slots__ = ("catalog", "depth", "nullable")

    def __init__(self, catalog: Catalog, nullable: frozenset[str]) -> None:
        """`nullable` are the variables that may be missing."""
        self.catalog = catalog
        self.nullable = nullable
        self.depth = 0

    def steps(
        self,
        pipeline: tuple[Op, ...],
        bound: frozenset[str],
        live: frozenset[str],
        mode: Multiplicity,
        *,
        ends: bool = True,
    ) -> list[ReadStep]:
        """The steps of a pipeline.

        Args:
            pipeline: The operators.
            bound: The variables of the rows that it starts from.
            live: The variables that are read at its end.
            mode: What the end needs to know about equal rows.
            ends: Whether equal rows are worth removing after the last operator, too.
        """
        ops = with_joins(pipeline, bound)
        if not bound and mode is not Multiplicity.ROWS:
            ops = self._arriving(ops, live)
        if mode is not Multiplicity.ROWS:
            ops = self._in_common(ops, live)
        after = live_after(ops, live)
        built: list[ReadStep] = []
        kept = bound
        for place, op in enumerate(ops):
            there = kept | binds_of(op)
            needed = there & after[place]
            again = any(multiplies(item) for item in ops[place + 1 :])
            folds = needed != there and (ends or again)
            output = StepOutput(tuple(sorted(needed)), mode, folds=folds, again=again)
            built.append(self._step(op, output))
            kept = needed
        return built

    def _arriving(self, ops: list[StepOp], live: frozenset[str]) -> list[StepOp]:
        match ops:
            case [Scan(var, _, ()), Expand() as hop, *rest] if (
                hop.source == var
                and hop.target != var
                and hop.edge_var is None
                and self._is_single(hop)
                and var not in live_after(ops, live)[1]
            ):
                return [HopFromAllOp(hop), *rest]
            case _:
                return ops

    def _in_common(self, ops: list[StepOp], live: frozenset[str]) -> list[StepOp]:
        after = live_after(ops, live)
        found: list[StepOp] = []
        for place, op in enumerate(ops):
            last = found[-1] if found else None
            if (
                isinstance(op, Expand)
                and isinstance(last, Expand)
                and op.closes
                and not last.closes
                and (op.source == last.target) != (op.target == last.target)
                and all(item.edge_var is None and self._is_single(item) for item in (op, last))
                and last.target not in after[place]
            ):
                found[-1] = CommonNeighbourOp(last, op)
            else:
                found.append(op)
        return found

    # -- steps -----------------------------------------------------------------------------

    def _step(self, op: StepOp, output: StepOutput) -> ReadStep:
        match op:
            case Scan():
                return self._scan(op, output)
            case JoinOp(scan, column, other):
                label = (
                    f"join {scan.var}: {scan.entity.name} on {column} = {other.var}.{other.column}"
                )
                return JoinStep(self._scan(scan, output), column, other, output, label=label)
            case Expand():
                return self._expand(op, output)
            case HopFromAllOp(hop):
                label = f"count {_arrow(hop)} by the degrees of all {hop.target}"
                return HopFromAllStep(hop, self._target_condition(hop), output, label=label)
            case CommonNeighbourOp(hop, closing):
                return self._common(hop, closing, output)
            case Filter(predicate):
                return FilterStep(predicate, output, label="filter")
            case AntiJoin():
                return self._anti(op, output)
            case OptionalJoin():
                return self._optional(op, output)
            case _:
                assert_never(op)

    def _scan(self, op: Scan, output: StepOutput) -> ScanStep:
        entity = self.catalog.node_by_name[op.entity.name]
        found, rest = lookup(op.var, op.entity, entity, op.filters)
        condition = EntityCondition(op.var, op.entity, rest) if rest else None
        word = "scan" if found is None else "find"
        checks = f" where {len(rest)} conditions hold" if rest else ""
        label = f"{word} {op.var}: {op.entity.name}{checks}"
        return ScanStep(op.var, op.entity, found, condition, output, label=label)

    def _expand(self, op: Expand, output: StepOutput) -> ReadStep:
        nullable = op.source in self.nullable or (op.closes and op.target in self.nullable)
        condition = self._target_condition(op)
        edges = _condition(op.edge_var or "", op.edge, op.edge_filters)
        single = self._is_single(op)
        unseen = condition is None and op.target not in output.live and not op.closes
        if op.edge_var is not None:
            if (
                unseen
                and edges is None
                and op.edge_var not in output.live
                and output.mode is not Multiplicity.ROWS
            ):
                return DegreeStep(op, output, nullable=nullable, label=f"count {_arrow(op)}")
            label = f"expand {_arrow(op)} by edge"
            return HopEdgesStep(op, condition, edges, output, nullable=nullable, label=label)
        if not single:
            chains = self._chains(op)
            label = f"reach {_arrow(op)} in {op.low}..{op.high} hops"
            return MultiHopStep(
                op, condition, output, chains=chains, nullable=nullable, label=label
            )
        if op.closes:
            return ClosedHopStep(op, output, nullable=nullable, label=f"close {_arrow(op)}")
        if unseen and output.mode is not Multiplicity.ROWS:
            return DegreeStep(op, output, nullable=nullable, label=f"count {_arrow(op)} by degree")
        return HopStep(op, condition, output, nullable=nullable, label=f"expand {_arrow(op)}")

    def _common(self, hop: Expand, closing: Expand, output: StepOutput) -> ReadStep:
        owner = closing.source if closing.target == hop.target else closing.target
        nullable = not self.nullable.isdisjoint((hop.source, owner))
        label = f"count {_arrow(hop)} where {_arrow(closing)}"
        condition = self._target_condition(hop)
        return IntersectStep(hop, closing, condition, output, nullable=nullable, label=label)

    def _target_condition(self, op: Expand) -> EntityCondition | None:
        return _condition(op.target, op.target_entity, op.filters)

    def _chains(self, op: Expand) -> bool:
        """True if the edge type leads back to its own node type, so that hops chain."""
        edge = self.catalog.edge_by_name[op.edge.name]
        return edge.source == edge.target

    def _is_single(self, op: Expand) -> bool:
        return op.low == 1 and (op.high == 1 or not self._chains(op))

    # -- inner pipelines -------------------------------------------------------------------

    def _anti(self, op: AntiJoin, output: StepOutput) -> ReadStep:
        match op.inner:
            case (Expand(low=1, closes=False, filters=(), edge_filters=()) as hop,):
                nullable = hop.source in self.nullable
                return UnlinkedStep(
                    hop, output, nullable=nullable, label=f"without {_arrow(hop)} by degree"
                )
        number = self._number()
        live = frozenset({number})
        inner = self.steps(op.inner, frozenset(op.outer) | live, live, Multiplicity.SET)
        label = f"without [{'; '.join(step.label for step in inner)}]"
        return AntiJoinStep(op.outer, inner, number, output, label=label)

    def _optional(self, op: OptionalJoin, output: StepOutput) -> ReadStep:
        number = self._number()
        binds = tuple(name for name in op.binds if name in output.live)
        live = frozenset({number, *binds})
        inner = self.steps(op.inner, frozenset({number, *op.outer}), live, output.mode)
        label = f"optional [{'; '.join(step.label for step in inner)}]"
        return OptionalStep(op.outer, binds, inner, number, output, label=label)

    def _number(self) -> str:
        """A name for row numbers that no variable has."""
        self.depth += 1
        return f"#{self.depth}"


def _condition(
    var: str, entity: EntityRef, filters: tuple[Predicate, ...]
) -> EntityCondition | None:
    return EntityCondition(var, entity, filters) if filters else None


def _arrow(op: Expand) -> str:
    return f"{op.source} {op.edge.name} {op.towards} {op.target}"


def with_joins(pipeline: tuple[Op, ...], bound: frozenset[str]) -> list[StepOp]:
    """The operators, with scans merged with an equality that connects them to the rows."""
    ops: list[StepOp] = []
    known = set(bound)
    waiting = list(pipeline)
    while waiting:
        op = waiting.pop(0)
        found: JoinOp | None = None
        if isinstance(op, Scan) and known:
            for place, item in enumerate(waiting):
                if not isinstance(item, Filter):
                    break
                found = _join_of(op, item, known)
                if found is not None:
                    del waiting[place]
                    break
        ops.append(op if found is None else found)
        known |= binds_of(op)
    return ops


def _join_of(scan: Scan, item: Filter, known: set[str]) -> JoinOp | None:
    match item.predicate:
        case Compare(CompareOp.EQ, Prop() as left, Prop() as right):
            for own, other in ((left, right), (right, left)):
                if own.var == scan.var and other.var in known:
                    fits = joinable(arrow_type(own.type), arrow_type(other.type))
                    return JoinOp(scan, own.column, other) if fits else None
            return None
        case _:
            return None


def binds_of(op: StepOp) -> frozenset[str]:
    """The variables that an operator binds."""
    match op:
        case Scan(var) | JoinOp(Scan(var)):
            return frozenset({var})
        case Expand():
            names = {op.target} if op.edge_var is None else {op.target, op.edge_var}
            return frozenset(names)
        case HopFromAllOp(hop):
            return frozenset({hop.target})
        case OptionalJoin():
            return frozenset(op.binds)
        case _:
            return frozenset()


def _reads(op: StepOp) -> frozenset[str]:
    match op:
        case Expand():
            return frozenset({op.source, op.target} if op.closes else {op.source})
        case Filter(predicate):
            return frozenset(variables_in(predicate))
        case AntiJoin(outer) | OptionalJoin(outer):
            return frozenset(outer)
        case CommonNeighbourOp(hop, closing):
            return frozenset({hop.source, closing.source, closing.target} - {hop.target})
        case JoinOp(_, _, other):
            return frozenset({other.var})
        case _:
            return frozenset()


def multiplies(op: StepOp) -> bool:
    """True if an operator can make several rows of one."""
    match op:
        case Filter() | AntiJoin():
            return False
        case Expand():
            return not op.closes or op.edge_var is not None
        case _:
            return True


def live_after(ops: list[StepOp], live: frozenset[str]) -> list[frozenset[str]]:
    """For each operator the variables that are read after it."""
    after: list[frozenset[str]] = []
    for op in reversed(ops):
        after.append(live)
        live = live | _reads(op)
    after.reverse()
    return after
