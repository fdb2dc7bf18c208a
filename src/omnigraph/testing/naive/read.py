"""Reading plans by nested loops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from omnigraph.errors import InvalidInput
from omnigraph.lang.ir import expr as ir
from omnigraph.lang.ir.ops import (
    AntiJoin,
    Expand,
    Filter,
    Op,
    OptionalJoin,
    ReadPlan,
    Scan,
    SortKey,
    Towards,
)
from omnigraph.testing.naive import text as texts
from omnigraph.testing.naive.graph import ModelGraph
from omnigraph.testing.naive.scope import Bound, Given, Scope
from omnigraph.types import Metric


class Scores:
    """The rankings of one query, over the rows that its pattern found."""

    def __init__(
        self,
        graph: ModelGraph,
        entities: Mapping[str, ir.EntityRef],
        given: Given,
        rows: Sequence[Bound],
    ) -> None:
        """Rank what these rows bind."""
        self.graph = graph
        self.entities = entities
        self.given = given
        self.rows = rows
        self._known: dict[ir.Ranking, dict[str, float]] = {}

    def value(self, ranking: ir.Ranking, row: Bound) -> float | None:
        """The value of a ranking in a row; None where there is none."""
        if ranking not in self._known:
            self._known[ranking] = self._values(ranking)
        first = ranking.first if isinstance(ranking, ir.Rrf) else ranking
        entity_id = row[first.var]
        return None if entity_id is None else self._known[ranking].get(entity_id)

    def _values(self, ranking: ir.Ranking) -> dict[str, float]:
        """The value for each entity that has one."""
        if isinstance(ranking, ir.Rrf):
            return self._fused(ranking)
        found = {row[ranking.var] for row in self.rows}
        values = {
            entity_id: self._single(ranking, entity_id)
            for entity_id in found
            if entity_id is not None
        }
        return {entity_id: value for entity_id, value in values.items() if value is not None}

    def _single(self, ranking: ir.Nearest | ir.Bm25, entity_id: str) -> float | None:
        rows = self.graph.rows(self.entities[ranking.var])
        stored = rows[entity_id][ranking.column]
        query = self._given(ranking.query)
        if stored is None:
            return None
        if isinstance(ranking, ir.Bm25):
            corpus = [row[ranking.column] for row in rows.values()]
            known = [text for text in corpus if isinstance(text, str)]
            return texts.bm25(known, str(stored), str(query))
        if isinstance(query, str):
            query = self.given.embed(query, ranking.dim)
        return distance(ranking.metric, _numbers(stored), _numbers(query))

    def _fused(self, ranking: ir.Rrf) -> dict[str, float]:
        """Each entity's reciprocal ranks added up; ties in a ranking are broken by id."""
        k = self._given(ranking.k)
        assert isinstance(k, int)
        if k < 1:
            raise InvalidInput.default("k of rrf is below 1")
        fused: dict[str, float] = {}
        for part in (ranking.first, ranking.second):
            sign = 1 if isinstance(part, ir.Nearest) else -1
            values = self._values(part)
            best = sorted(values, key=lambda entity_id: (sign * values[entity_id], entity_id))
            for place, entity_id in enumerate(best, 1):
                fused[entity_id] = fused.get(entity_id, 0.0) + 1 / (k + place)
        return fused

    def _given(self, expr: ir.Expr) -> ir.ConstValue:
        return Scope(self.graph, self.entities, self.given, {}).value(expr)


def _numbers(value: ir.ConstValue) -> list[float]:
    assert isinstance(value, tuple)
    return [float(number) for number in value if isinstance(number, int | float)]


def distance(metric: Metric, left: Sequence[float], right: Sequence[float]) -> float | None:
    """The distance of two vectors; None when one has no direction and the metric needs it."""
    product = math.fsum(a * b for a, b in zip(left, right, strict=True))
    match metric:
        case Metric.L2:
            return math.fsum((a - b) ** 2 for a, b in zip(left, right, strict=True))
        case Metric.DOT:
            return 1 - product
        case Metric.COSINE:
            lengths = math.hypot(*left) * math.hypot(*right)
            return None if lengths == 0 else 1 - product / lengths


Result: TypeAlias = dict[str, Any]
"""A result: column names to values in stored form, an entity as a mapping of its columns."""


def evaluate(plan: ReadPlan, graph: ModelGraph, given: Given | None = None) -> list[Result]:
    """The results of a plan, in order.

    Raises:
        InvalidInput: When a bound or a setting of a search is out of its range.
    """
    reader = _Reader(plan, graph, given or Given())
    return reader.results()


@dataclass(slots=True)
class _Line:
    """A result under way: its columns, and a row that they come from."""

    values: list[Any]
    bound: Bound | None  # None for the totals of nothing


class _Reader:
    """Runs one plan."""

    def __init__(self, plan: ReadPlan, graph: ModelGraph, given: Given) -> None:
        self.plan = plan
        self.graph = graph
        self.given = given
        self.entities = {need.var: need.entity for need in plan.needs}
        self.scores: Scores | None = None

    def results(self) -> list[Result]:
        offset = self._bound(self.plan.offset, "offset") or 0
        limit = self._bound(self.plan.limit, "limit")
        rows = list(self.run(self.plan.pipeline, [{}]))
        self.scores = Scores(self.graph, self.entities, self.given, rows)
        lines = self._groups(rows) if self.plan.grouped else self._lines(rows)
        if self.plan.distinct:
            lines = list({self._identity(line.values): line for line in lines[::-1]}.values())
        lines = self._sorted(lines)
        end = None if limit is None else offset + limit
        return [
            dict(zip(self.plan.columns, line.values, strict=True)) for line in lines[offset:end]
        ]

    def _bound(self, item: ir.Const | ir.Param | None, word: str) -> int | None:
        if item is None:
            return None
        value = self.scope({}).value(item)
        assert isinstance(value, int)
        if value < 0:
            raise InvalidInput.default(f"the {word} is negative")
        return value

    def scope(self, bound: Bound) -> Scope:
        return Scope(self.graph, self.entities, self.given, bound)

    # -- the pipeline ------------------------------------------------------------------------

    def run(self, pipeline: Sequence[Op], rows: Iterable[Bound]) -> Iterable[Bound]:
        for op in pipeline:
            rows = [after for row in rows for after in self._step(op, row)]
        return rows

    def _step(self, op: Op, row: Bound) -> Iterator[Bound]:
        match op:
            case Scan():
                for entity_id in self.graph.rows(op.entity):
                    yield from self._kept({**row, op.var: entity_id}, op.filters)
            case Expand():
                yield from self._expand(op, row)
            case Filter(predicate):
                yield from self._kept(row, (predicate,))
            case AntiJoin():
                if not self.run(op.inner, [row]):
                    yield row
            case OptionalJoin():
                found = self.run(op.inner, [row])
                yield from found or [{**row, **dict.fromkeys(op.binds)}]
            case _:
                assert_never(op)

    def _kept(self, row: Bound, predicates: Iterable[ir.Predicate]) -> Iterator[Bound]:
        scope = self.scope(row)
        if all(scope.holds(predicate) for predicate in predicates):
            yield row

    def _expand(self, op: Expand, row: Bound) -> Iterator[Bound]:
        source = row[op.source]
        if source is None:
            return
        found: list[tuple[str | None, str]]
        if op.edge_var is not None:
            found = list(self._edges_at(op, source))
        else:
            found = [(None, target) for target in self._reached(op, source)]
        for edge, target in found:
            if op.closes and row[op.target] != target:
                continue
            after = {**row, op.target: target}
            if op.edge_var is not None:
                after[op.edge_var] = edge
            yield from self._kept(after, (*op.filters, *op.edge_filters))

    def _edges_at(self, op: Expand, node: str) -> Iterator[tuple[str, str]]:
        """The edges at a node and what is at their other ends; a self-loop is at it once."""
        for edge_id, row in self.graph.rows(op.edge).items():
            source, target = str(row["src"]), str(row["dst"])
            if op.towards is not Towards.IN and source == node:
                yield edge_id, target
            elif op.towards is not Towards.OUT and target == node:
                yield edge_id, source

    def _reached(self, op: Expand, start: str) -> Iterator[str]:
        """The nodes whose shortest distance is within the bounds."""
        if self.entities[op.source] != op.target_entity:
            # An edge between two types leads to nodes that it does not start from.
            if op.low == 1:
                yield from dict(edge[::-1] for edge in self._edges_at(op, start))
            return
        distances = {start: 0}
        frontier = [start]
        while frontier:
            at = frontier.pop(0)
            for _, target in self._edges_at(op, at):
                if target not in distances:
                    distances[target] = distances[at] + 1
                    frontier.append(target)
        if any(target == start for _, target in self._edges_at(op, start)):
            distances[start] = 1
        for target, hops in distances.items():
            if hops and op.low <= hops <= op.high:
                yield target

    # -- results -----------------------------------------------------------------------------

    def _lines(self, rows: Iterable[Bound]) -> list[_Line]:
        return [
            _Line([self._output(item.expr, row) for item in self.plan.outputs], row) for row in rows
        ]

    def _groups(self, rows: Sequence[Bound]) -> list[_Line]:
        keys = [item.expr for item in self.plan.outputs if not isinstance(item.expr, ir.Aggregate)]
        groups: dict[Any, list[Bound]] = {} if keys else {(): []}
        for row in rows:
            group = self._identity([self._output(key, row) for key in keys])
            groups.setdefault(group, []).append(row)
        return [
            _Line(
                [
                    self._total(item.expr, group)
                    if isinstance(item.expr, ir.Aggregate)
                    else self._output(item.expr, group[0])
                    for item in self.plan.outputs
                ],
                group[0] if group else None,
            )
            for group in groups.values()
        ]

    def _output(self, expr: ir.Expr, row: Bound) -> Any:
        match expr:
            case ir.Entity(var, entity, columns):
                entity_id = row[var]
                if entity_id is None:
                    return None
                stored = self.graph.row(entity, entity_id)
                return {column.name: stored[column.name] for column in columns}
            case ir.Nearest() | ir.Bm25() | ir.Rrf():
                assert self.scores is not None
                return self.scores.value(expr, row)
            case _:
                return self.scope(row).value(expr)

    def _total(self, aggregate: ir.Aggregate, rows: Iterable[Bound]) -> Any:
        values = [self._output(aggregate.arg, row) for row in rows]
        known: list[Any] = [value for value in values if value is not None]
        if aggregate.distinct:
            known = list({self._identity([value]): value for value in known}.values())
        match aggregate.function:
            case ir.AggregateFunction.COUNT:
                return len(known)
            case ir.AggregateFunction.SUM:
                return _sum(known) if known else None
            case ir.AggregateFunction.AVG:
                return _sum(known) / len(known) if known else None
            case ir.AggregateFunction.MIN:
                return min(known, default=None)
            case ir.AggregateFunction.MAX:
                return max(known, default=None)

    def _identity(self, values: Iterable[Any]) -> tuple[Any, ...]:
        """The identity of a result: entities are their ids."""
        return tuple(value["id"] if isinstance(value, Mapping) else value for value in values)

    # -- order -------------------------------------------------------------------------------

    def _sorted(self, lines: list[_Line]) -> list[_Line]:
        """Sort by the least important key first; sorting keeps the order of what is equal."""
        plan = self.plan
        for place in reversed(plan.tie_break_columns):
            lines.sort(key=lambda line: _ascending(line.values[place]))
        for var in reversed(plan.tie_break):
            lines.sort(key=lambda line: _ascending((line.bound or {}).get(var)))
        for key in reversed(plan.order):
            lines.sort(
                key=lambda line: _ascending(self._sort_value(key, line)),
                reverse=key.descending,
            )
        if plan.ranking is not None:
            lines.sort(key=self._rank)
        return lines

    def _sort_value(self, key: SortKey, line: _Line) -> Any:
        if key.column is not None:
            return line.values[key.column]
        assert line.bound is not None
        return self._output(key.expr, line.bound)

    def _rank(self, line: _Line) -> tuple[bool, float]:
        """The best first: the nearest, or the highest score; what has no value is last."""
        assert self.plan.ranking is not None
        assert line.bound is not None
        value = self._output(self.plan.ranking, line.bound)
        if value is None:
            return True, 0.0
        return False, value if isinstance(self.plan.ranking, ir.Nearest) else -value


def _sum(values: Sequence[Any]) -> float:
    """The sum, rounded once."""
    if all(isinstance(value, int) for value in values):
        return float(sum(values))
    return math.fsum(values)


def _ascending(value: Any) -> tuple[Any, ...]:
    """A sort key: nulls first, entities by id."""
    if value is None:
        return ()
    return (value["id"],) if isinstance(value, Mapping) else (value,)
