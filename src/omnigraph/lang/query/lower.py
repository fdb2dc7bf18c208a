"""From checked blocks to a pipeline: which variable to start from, which edge to follow next.

A pattern means the same in whatever order it is evaluated, so the order is chosen by a static
guess at selectivity: start where the fewest entities are expected, close cycles as soon as both
ends are known, and apply each condition as soon as its variables are bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.lang.ir import expr as ir
from omnigraph.lang.ir.ops import AntiJoin, Expand, Filter, Op, OptionalJoin, Scan, Towards
from omnigraph.lang.query.blocks import Block, Hop, variables_in
from omnigraph.lang.query.scope import Variable, entity_ref

_REVERSED = {Towards.OUT: Towards.IN, Towards.IN: Towards.OUT, Towards.BOTH: Towards.BOTH}

# How promising it is to start from a variable with such a condition.
_BY_ID, _BY_UNIQUE, _BY_RANKING, _BY_EQUALITY, _BY_TEXT, _BY_OTHER = 100, 90, 60, 50, 40, 20


class Lowering:
    """Orders the operators of one query."""

    __slots__ = ("ranked", "variables")

    def __init__(self, variables: Mapping[str, Variable], ranking: ir.Ranking | None) -> None:
        """Lower blocks over these variables; `ranking` is what the result is ordered by."""
        self.variables = variables
        self.ranked = variables_in(ranking) if ranking is not None else set()

    def pipeline(self, block: Block, outer: frozenset[str] = frozenset()) -> tuple[Op, ...]:
        """The operators of a block that starts from rows with the `outer` variables bound."""
        run = _Run(self, block, set(outer))
        run.pattern()
        run.blocks()
        return tuple(run.ops)

    def promise(self, key: str, filters: list[ir.Predicate]) -> int:
        """How few entities a scan of this variable is expected to yield."""
        best = _BY_RANKING if key in self.ranked else 0
        for predicate in filters:
            if variables_in(predicate) == {key}:
                best = max(best, self._promise_of(key, predicate))
        return best

    def _promise_of(self, key: str, predicate: ir.Predicate) -> int:
        match predicate:
            case ir.Compare(ir.CompareOp.EQ, ir.Prop(var, column), ir.Const() | ir.Param()):
                entity = self.variables[var].entity
                if column == "id" or entity.key == (column,):
                    return _BY_ID
                return _BY_UNIQUE if (column,) in entity.uniques else _BY_EQUALITY
            case ir.TextMatch():
                return _BY_TEXT
            case _:
                return _BY_OTHER


class _Run:
    """The state of lowering one block."""

    def __init__(self, lowering: Lowering, block: Block, bound: set[str]) -> None:
        self.lowering = lowering
        self.block = block
        self.bound = bound
        self.ops: list[Op] = []
        self.hops = list(block.hops)
        edges = {hop.edge_var for hop in block.hops}
        self.nodes = [key for key in block.binds if key not in edges]
        self.filters = list(block.filters)

    def pattern(self) -> None:
        """Bind every variable of the block's own pattern."""
        self._flush()
        while self.hops or any(key not in self.bound for key in self.nodes):
            hop = self._next_hop()
            if hop is not None:
                self.hops.remove(hop)
                self._expand(hop)
            else:
                self._scan(self._next_start())
            self._flush()

    def blocks(self) -> None:
        """Blocks inside: `not` blocks as early as their variables allow, `optional` in order."""
        pending = list(self.block.inner)
        while pending:
            ready = next(
                (
                    item
                    for item in pending
                    if not item.optional and self.bound.issuperset(item.outer)
                ),
                pending[0],
            )
            pending.remove(ready)
            inner = self.lowering.pipeline(ready.block, frozenset(self.bound))
            if ready.optional:
                binds = ready.block.all_bound()
                self.ops.append(OptionalJoin(ready.outer, binds, inner))
                self.bound.update(binds)
                self._flush()
            else:
                self.ops.append(AntiJoin(ready.outer, inner))

    def _next_hop(self) -> Hop | None:
        """A hop that closes a cycle, else the reachable one whose other end is most selective."""
        best: Hop | None = None
        best_promise = -1
        for hop in self.hops:
            known = (hop.source in self.bound) + (hop.target in self.bound)
            if known == 2:
                return hop
            if known == 1:
                far = hop.target if hop.source in self.bound else hop.source
                promise = self.lowering.promise(far, self.filters)
                if promise > best_promise:
                    best, best_promise = hop, promise
        return best

    def _next_start(self) -> str:
        free = [key for key in self.nodes if key not in self.bound]
        return max(free, key=lambda key: self.lowering.promise(key, self.filters))

    def _scan(self, key: str) -> None:
        entity = entity_ref(self.lowering.variables[key].entity)
        self.ops.append(Scan(key, entity, self._own_filters(key)))
        self.bound.add(key)

    def _expand(self, hop: Hop) -> None:
        source, target, towards = hop.source, hop.target, hop.towards
        if source not in self.bound:
            source, target, towards = target, source, _REVERSED[towards]
        closes = target in self.bound
        edge_filters = () if hop.edge_var is None else self._own_filters(hop.edge_var)
        self.ops.append(
            Expand(
                source=source,
                target=target,
                edge=entity_ref(hop.edge),
                towards=towards,
                low=hop.low,
                high=hop.high,
                target_entity=entity_ref(self.lowering.variables[target].entity),
                edge_var=hop.edge_var,
                closes=closes,
                filters=() if closes else self._own_filters(target),
                edge_filters=edge_filters,
            )
        )
        self.bound.add(target)
        if hop.edge_var is not None:
            self.bound.add(hop.edge_var)

    def _own_filters(self, key: str) -> tuple[ir.Predicate, ...]:
        """Take the conditions that speak of one variable alone."""
        own = [predicate for predicate in self.filters if variables_in(predicate) == {key}]
        self.filters = [predicate for predicate in self.filters if predicate not in own]
        return tuple(own)

    def _flush(self) -> None:
        """Apply the conditions whose variables are all bound."""
        ready = [item for item in self.filters if variables_in(item) <= self.bound]
        self.filters = [item for item in self.filters if item not in ready]
        self.ops.extend(Filter(item) for item in ready)
