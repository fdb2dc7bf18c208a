"""Checked match blocks: the form between the type checker and the pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnigraph.lang.catalog.model import EdgeType
from omnigraph.lang.ir import expr as ir
from omnigraph.lang.ir.ops import Towards


@dataclass(frozen=True, slots=True)
class Hop:
    """A checked traversal, from its source as it was written."""

    source: str
    target: str
    edge: EdgeType
    towards: Towards
    low: int
    high: int
    edge_var: str | None


@dataclass(slots=True)
class Block:
    """A checked block: its bindings and conditions. Blocks inside it keep their order."""

    binds: list[str] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    filters: list[ir.Predicate] = field(default_factory=list)
    inner: list[InnerBlock] = field(default_factory=list)
    rebinds: set[str] = field(default_factory=set)  # variables from outside that it types again

    def all_bound(self) -> tuple[str, ...]:
        """The variables that this block binds, those of its optional blocks included."""
        return (
            *self.binds,
            *(key for item in self.inner if item.optional for key in item.block.all_bound()),
        )

    def mentioned(self) -> set[str]:
        """The variables that this block uses, without those private to its `not` blocks."""
        names = {*self.binds, *self.rebinds}
        for hop in self.hops:
            names |= {hop.source, hop.target}
        for predicate in self.filters:
            names |= variables_in(predicate)
        for item in self.inner:
            names.update(item.outer)
        return names


@dataclass(slots=True)
class InnerBlock:
    """A `not` or `optional` block and the outer variables that it uses."""

    optional: bool
    block: Block
    outer: tuple[str, ...]


def variables_in(item: ir.Predicate | ir.Expr) -> set[str]:
    """Every variable that a predicate or expression reads."""
    match item:
        case ir.Prop(var) | ir.Entity(var) | ir.Nearest(var) | ir.Bm25(var) | ir.TextMatch(_, var):
            return {var}
        case ir.Compare(_, left, right):
            return variables_in(left) | variables_in(right)
        case ir.Contains(left, right) | ir.Substring(left, right) | ir.StartsWith(left, right):
            return variables_in(left) | variables_in(right)
        case ir.Rrf(left, right):
            return variables_in(left) | variables_in(right)
        case ir.OneOf(operand, items):
            return variables_in(operand).union(*map(variables_in, items))
        case ir.And(items) | ir.Or(items):
            return set().union(*map(variables_in, items))
        case ir.Not(inner) | ir.IsNull(inner) | ir.Aggregate(_, inner):
            return variables_in(inner)
        case _:
            return set()
