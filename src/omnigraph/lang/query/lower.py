"""From checked blocks to a pipeline: which variable to start from, which edge to follow next.

A pattern means the same in whatever order it is evaluated, so the order is chosen by a static
guess at selectivity: start where the fewest entities are expected, close cycles as soon as both
ends are known, and apply each condition as soon as its variables are bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from omnigraph.lang.ir import expr as ir
from omnigraph.lang.ir.ops import AntiJoin, Expand, Filter, Op, OptionalJoin, Scan
from omnigraph.lang.query.blocks import Block, Hop, InnerBlock, variables_in
from omnigraph.lang.query.scope import Variable, entity_ref

# How promising it is to start from a variable with such a condition.
_BY_ID, _BY_UNIQUE, _BY_RANKING, _BY_EQUALITY, _BY_TEXT, _BY_OTHER = 100, 90, 60, 50, 40, 20
_LIST_PENALTY = 5  # how much less promising a list of values is than one value


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

    def promise(self, key: str, own: Iterable[ir.Predicate]) -> int:
        """Estimates how few entities a scan of this variable, with these conditions, yields."""
        best = _BY_RANKING if key in self.ranked else 0
        single: set[str] = set()  # columns that have one value
        listed: set[str] = set()  # columns that have one of a few values
        for predicate in own:
            fixed = _fixed(predicate)
            if fixed is None:
                guess = _BY_TEXT if isinstance(predicate, ir.TextMatch) else _BY_OTHER
                best = max(best, guess)
            else:
                (single if fixed[1] else listed).add(fixed[0])
        if single:
            best = max(best, self._promise_of(key, single))
        if listed:
            best = max(best, self._promise_of(key, single | listed) - _LIST_PENALTY)
        return best

    def _promise_of(self, key: str, columns: set[str]) -> int:
        """The selectivity of knowing the values of these columns."""
        entity = self.variables[key].entity
        if "id" in columns or (entity.key and columns.issuperset(entity.key)):
            return _BY_ID
        unique = any(columns.issuperset(names) for names in entity.uniques)
        return _BY_UNIQUE if unique else _BY_EQUALITY


def _fixed(predicate: ir.Predicate) -> tuple[str, bool] | None:
    """The column that a condition ties to what is given, and whether to a single value."""
    match predicate:
        case ir.Compare(ir.CompareOp.EQ, ir.Prop(_, column), ir.Const() | ir.Param() | ir.Now()):
            return column, True
        case ir.Compare(ir.CompareOp.EQ, ir.Const() | ir.Param() | ir.Now(), ir.Prop(_, column)):
            return column, True
        case ir.Contains(ir.Param(), ir.Prop(_, column)):
            return column, False
        case ir.OneOf(ir.Prop(_, column), items):
            given = all(isinstance(item, ir.Const | ir.Param | ir.Now) for item in items)
            return (column, False) if given else None
        case _:
            return None


class _Run:
    """The state of lowering one block.

    Every step costs what it touches, not the size of the block: a generated query may have
    thousands of clauses.
    """

    def __init__(self, lowering: Lowering, block: Block, bound: set[str]) -> None:
        self.lowering = lowering
        self.block = block
        self.bound = bound
        self.ops: list[Op] = []
        self._sort_filters()
        self._queue_hops()

    def _sort_filters(self) -> None:
        """Conditions by what they wait for: nothing, one variable alone, or several."""
        self.ready: list[int] = []
        self.own: dict[str, list[int]] = {}
        self.shared: dict[str, list[int]] = {}
        self.missing: dict[int, int] = {}
        for index, predicate in enumerate(self.block.filters):
            names = variables_in(predicate)
            unbound = names - self.bound
            if not unbound:
                self.ready.append(index)
                continue
            self.missing[index] = len(unbound)
            places = self.own if len(names) == 1 else self.shared
            for name in unbound:
                places.setdefault(name, []).append(index)

    def _queue_hops(self) -> None:
        """Hops by how much of them is known: both ends, one end, or none yet."""
        self.done: set[int] = set()
        self.closing: list[int] = []
        self.reachable: list[tuple[int, int]] = []
        self.touching: dict[str, list[int]] = {}
        for index, hop in enumerate(self.block.hops):
            for end in {hop.source, hop.target}:
                self.touching.setdefault(end, []).append(index)
        edges = {hop.edge_var for hop in self.block.hops}
        nodes = [key for key in self.block.binds if key not in edges]
        self.starts = [(-self._promise(key), place, key) for place, key in enumerate(nodes)]
        heapify(self.starts)
        for key in [key for key in self.touching if key in self.bound]:
            self._queue_touching(key)

    def _queue_touching(self, key: str) -> None:
        for index in self.touching.get(key, ()):
            hop = self.block.hops[index]
            if hop.source in self.bound and hop.target in self.bound:
                heappush(self.closing, index)
            else:
                far = hop.target if hop.source in self.bound else hop.source
                heappush(self.reachable, (-self._promise(far), index))

    def _promise(self, key: str) -> int:
        own = (self.block.filters[index] for index in self.own.get(key, ()))
        return self.lowering.promise(key, own)

    def pattern(self) -> None:
        """Bind every variable of the block's own pattern."""
        self._flush()
        while True:
            hop = self._next_hop()
            start = self._next_start() if hop is None else None
            if hop is not None:
                self._expand(hop)
            elif start is not None:
                self._scan(start)
            else:
                return
            self._flush()

    def blocks(self) -> None:
        """Blocks inside: `not` blocks as early as their variables allow, `optional` in order."""
        optionals = [item for item in self.block.inner if item.optional]
        origin = {
            key: place for place, item in enumerate(optionals) for key in item.block.all_bound()
        }
        due: dict[int, list[InnerBlock]] = {}
        for item in self.block.inner:
            if not item.optional:
                place = max((origin.get(key, -1) for key in item.outer), default=-1)
                due.setdefault(place, []).append(item)
        self._anti_joins(due.get(-1, ()))
        for place, item in enumerate(optionals):
            inner = self.lowering.pipeline(item.block, frozenset(self.bound))
            binds = item.block.all_bound()
            self.ops.append(OptionalJoin(item.outer, binds, inner))
            self._bind(binds)
            self._flush()
            self._anti_joins(due.get(place, ()))

    def _anti_joins(self, items: Iterable[InnerBlock]) -> None:
        for item in items:
            inner = self.lowering.pipeline(item.block, frozenset(self.bound))
            self.ops.append(AntiJoin(item.outer, inner))

    def _next_hop(self) -> Hop | None:
        """A hop that closes a cycle, else the reachable one whose other end is most selective."""
        while self.closing or self.reachable:
            index = heappop(self.closing) if self.closing else heappop(self.reachable)[1]
            if index not in self.done:
                self.done.add(index)
                return self.block.hops[index]
        return None

    def _next_start(self) -> str | None:
        while self.starts:
            _, _, key = heappop(self.starts)
            if key not in self.bound:
                return key
        return None

    def _scan(self, key: str) -> None:
        entity = entity_ref(self.lowering.variables[key].entity)
        self.ops.append(Scan(key, entity, self._own_filters(key)))
        self._bind((key,))

    def _expand(self, hop: Hop) -> None:
        source, target, towards = hop.source, hop.target, hop.towards
        if source not in self.bound:
            source, target, towards = target, source, towards.reversed
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
        self._bind((target,) if hop.edge_var is None else (target, hop.edge_var))

    def _bind(self, keys: Iterable[str]) -> None:
        """Note that variables have values now, and what can go on because of it."""
        fresh = [key for key in keys if key not in self.bound]
        self.bound.update(fresh)
        for key in fresh:
            self.ready.extend(self.own.pop(key, ()))
            for index in self.shared.pop(key, ()):
                self.missing[index] -= 1
                if not self.missing[index]:
                    self.ready.append(index)
            self._queue_touching(key)

    def _own_filters(self, key: str) -> tuple[ir.Predicate, ...]:
        """Takes the conditions about one variable alone."""
        return tuple(self.block.filters[index] for index in self.own.pop(key, ()))

    def _flush(self) -> None:
        """Apply the conditions whose variables are all bound."""
        self.ops.extend(Filter(self.block.filters[index]) for index in sorted(self.ready))
        self.ready.clear()
