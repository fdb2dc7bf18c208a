"""From the rows of a pattern to the result: groups, distinct rows, order, limit, columns."""

from __future__ import annotations

import numpy as np

from omnigraph.errors import Code, InvalidInput
from omnigraph.exec.evaluate import EvalContext, constant
from omnigraph.exec.read.aggregate import Groups, aggregate, nothing
from omnigraph.exec.read.columns import (
    ComputedColumn,
    ConstantColumn,
    EntityColumn,
    ResultColumn,
    StoredColumn,
)
from omnigraph.exec.read.frame import Frame, Index
from omnigraph.exec.read.keys import (
    KeySource,
    SortKeys,
    backwards,
    column_codes,
    column_order,
    grouped,
    ordered,
)
from omnigraph.exec.read.ranking import Rankings, best_rows, smaller_is_better
from omnigraph.exec.read.rows import Rows
from omnigraph.exec.read.run import Run
from omnigraph.lang.ir.expr import (
    Aggregate,
    AggregateFunction,
    Bm25,
    Const,
    Entity,
    EntityRef,
    Expr,
    Nearest,
    Param,
    Prop,
    Rrf,
)
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.lang.values import ValueType
from omnigraph.runtime import cancellation


class ResultBuilder:
    """The end of one plan."""

    __slots__ = ("bounded", "by_ids", "names", "plan", "props")

    def __init__(self, plan: ReadPlan) -> None:
        """Make the results of this plan."""
        self.plan = plan
        self.names = plan.columns
        self.bounded = plan.limit is not None or plan.offset is not None
        self.by_ids = plan.ranking is None and not plan.order and not plan.tie_break_columns
        self.props = _plain_props(plan)

    def rows(self, frame: Frame | None, run: Run) -> Rows:
        """The result for the rows of the pattern; None for none."""
        plan = self.plan
        cancellation.check()
        first, last = bounds(plan, run.context) if self.bounded else (0, None)
        if frame is None:
            return self._empty(run, first, last)
        columns: list[ResultColumn]
        if self.props is not None and self.by_ids:
            # The common case, and the one where a microsecond counts.
            view, handles = run.view, frame.vars
            columns = [
                StoredColumn(view, ref, name, handles[var], kind)
                for var, ref, name, kind in self.props
            ]
            places = None if frame.rows < 2 else self._by_ids(frame, run, last)
            return self._cut(columns, frame.rows, places, first, last, run)
        if plan.grouped:
            columns, frame = self._grouped(frame, run)
            rankings = Rankings(frame, run)
        elif plan.distinct:
            columns, frame, rankings = self._distinct(frame, run)
        else:
            rankings = Rankings(frame, run)
            if plan.ranking is not None and last is not None:
                frame, rankings = best_rows(frame, plan.ranking, last, run)
            columns = [column(item.expr, frame, run, rankings) for item in plan.outputs]
        if plan.ranking is not None:
            # Computed even when there is nothing to order, so that its errors are raised.
            rankings.values(plan.ranking)
        cancellation.check()
        places = self._places(columns, frame, run, rankings, last)
        return self._cut(columns, frame.rows, places, first, last, run)

    def _cut(
        self,
        columns: list[ResultColumn],
        count: int,
        places: Index | None,
        first: int,
        last: int | None,
        run: Run,
    ) -> Rows:
        """The results at these places (all when None), from `first` up to `last`."""
        if places is not None:
            places = places[first:last]
            columns = [item.pick(places) for item in columns]
            count = len(places)
        elif first or (last is not None and last < count):
            part = slice(first, last)
            columns = [item.pick(part) for item in columns]
            count = len(range(*part.indices(count)))
        return Rows(self.names, columns, count, run.limits)

    def _empty(self, run: Run, first: int, last: int | None) -> Rows:
        plan = self.plan
        only = plan.grouped and all(isinstance(item.expr, Aggregate) for item in plan.outputs)
        if only and first == 0 and last != 0:
            found = [
                nothing(item.expr) for item in plan.outputs if isinstance(item.expr, Aggregate)
            ]
            return Rows(self.names, found, 1)
        nowhere = Frame(0, {need.var: np.empty(0, np.int32) for need in plan.needs})
        if plan.ranking is not None:
            Rankings(nowhere, run).values(plan.ranking)
        columns = [
            ComputedColumn(nothing(item.expr).array.slice(0, 0), item.expr.type)
            if isinstance(item.expr, Aggregate)
            else column(item.expr, nowhere, run, Rankings(nowhere, run))
            for item in plan.outputs
        ]
        return Rows(self.names, columns, 0)

    # -- groups ----------------------------------------------------------------------------

    def _grouped(self, frame: Frame, run: Run) -> tuple[list[ResultColumn], Frame]:
        plan = self.plan
        rankings = Rankings(frame, run)
        keys = [
            column(item.expr, frame, run, rankings)
            for item in plan.outputs
            if not isinstance(item.expr, Aggregate)
        ]
        first: Index = np.zeros(1, np.int64)
        run.limits.check_keys(frame.rows, len(plan.outputs))
        if keys:
            of, first = grouped([column_codes(item) for item in keys], frame.rows)
            groups = Groups(of, len(first), frame.weights, frame.rows)
        else:
            groups = Groups(None, 1, frame.weights, frame.rows)
        kept = iter([item.pick(first) for item in keys])
        columns: list[ResultColumn] = []
        for item in plan.outputs:
            cancellation.check()
            if isinstance(item.expr, Aggregate):
                arg = None
                if not always_there(item.expr):
                    arg = column(item.expr.arg, frame, run, rankings)
                columns.append(aggregate(item.expr, arg, groups))
            else:
                columns.append(next(kept))
        return columns, frame.pick(first)

    def _distinct(self, frame: Frame, run: Run) -> tuple[list[ResultColumn], Frame, Rankings]:
        rankings = Rankings(frame, run)
        columns = [column(item.expr, frame, run, rankings) for item in self.plan.outputs]
        if frame.rows > 1:
            run.limits.check_keys(frame.rows, len(columns))
            _, first = grouped([column_codes(item) for item in columns], frame.rows)
            columns = [item.pick(first) for item in columns]
            frame = frame.pick(first)
            if self.plan.ranking is not None:
                rankings = PickedRankings(rankings, first)
        return columns, frame, rankings

    # -- order -----------------------------------------------------------------------------

    def _places(
        self,
        columns: list[ResultColumn],
        frame: Frame,
        run: Run,
        rankings: Rankings,
        most: int | None,
    ) -> Index | None:
        """The places of the results in their order, at least the first `most`; None as it is."""
        plan = self.plan
        if frame.rows < 2:
            return None
        if self.by_ids:
            return self._by_ids(frame, run, most)
        sources: list[KeySource] = []
        if plan.ranking is not None:
            sources.append(_by_ranking(rankings, plan.ranking))
        for key in plan.order:
            found = (
                column(key.expr, frame, run, rankings)
                if key.column is None
                else columns[key.column]
            )
            sources.append(_by_column(found, descending=key.descending))
        sources += [
            _by_column(columns[place], descending=False) for place in plan.tie_break_columns
        ]
        sources += [_by_id(frame, run, var) for var in plan.tie_break]
        run.limits.check_keys(frame.rows, len(sources))
        return ordered(sources, frame.rows, most)

    def _by_ids(self, frame: Frame, run: Run, most: int | None) -> Index | None:
        """The places of the rows by the ids of their entities; None as it is."""
        ties = self.plan.tie_break
        order = frame.order
        if order is not None and tuple([name for name in ties if name in order]) == order:
            return None
        run.limits.check_keys(frame.rows, len(ties))
        return ordered([_by_id(frame, run, var) for var in ties], frame.rows, most)


class PickedRankings(Rankings):
    """The rankings of a frame, seen at some of its rows."""

    __slots__ = ("first", "origin")

    def __init__(self, origin: Rankings, first: Index) -> None:
        """Look at `origin` at these places."""
        super().__init__(origin.frame, origin.run)
        self.origin = origin
        self.first = first

    def values(self, ranking: Nearest | Bm25 | Rrf) -> tuple[np.ndarray, np.ndarray]:
        """The value of each row that was picked, and which have one."""
        scores, valid = self.origin.values(ranking)
        return scores[self.first], valid[self.first]


def column(expr: Expr, frame: Frame, run: Run, rankings: Rankings) -> ResultColumn:
    """The values of an expression that is no aggregate, for the rows of a frame."""
    match expr:
        case Prop(var, name, kind):
            return StoredColumn(run.view, run.entities[var], name, frame.vars[var], kind)
        case Entity(var, entity, columns, kind):
            return EntityColumn(run.view, entity, columns, frame.vars[var], kind)
        case Nearest() | Bm25() | Rrf():
            return ComputedColumn(rankings.array(expr), expr.type)
        case _:
            return ConstantColumn(constant(expr, run.context), frame.rows, expr.type)


def _plain_props(plan: ReadPlan) -> tuple[tuple[str, EntityRef, str, ValueType], ...] | None:
    """The outputs of a plan that just lists properties of its rows."""
    if plan.grouped or plan.distinct:
        return None
    entities = {need.var: need.entity for need in plan.needs}
    found = []
    for item in plan.outputs:
        if not isinstance(item.expr, Prop):
            return None
        prop = item.expr
        found.append((prop.var, entities[prop.var], prop.column, prop.type))
    return tuple(found)


def always_there(item: Aggregate) -> bool:
    """True if an aggregate just counts rows: its argument is never null."""
    if item.function is not AggregateFunction.COUNT or item.distinct:
        return False
    if isinstance(item.arg, Const):
        return item.arg.value is not None
    return not item.arg.type.nullable


def bounds(plan: ReadPlan, context: EvalContext) -> tuple[int, int | None]:
    """From which result on, and up to which one, results are asked for."""
    offset = _bound(plan.offset, context, "offset") or 0
    limit = _bound(plan.limit, context, "limit")
    return offset, None if limit is None else offset + limit


def _bound(given: Const | Param | None, context: EvalContext, word: str) -> int | None:
    if given is None:
        return None
    value = constant(given, context)
    if not isinstance(value, int) or value < 0:
        text = f"the {word} must not be negative, got {value}"
        raise InvalidInput(Code.PARAMS_INVALID, text)
    return value


def _by_ranking(rankings: Rankings, ranking: Nearest | Bm25 | Rrf) -> KeySource:
    scores, valid = rankings.values(ranking)
    best_first = scores if smaller_is_better(ranking) else -scores
    keys = np.where(valid, best_first, np.inf)

    def source(places: Index | None) -> SortKeys:
        return [keys if places is None else keys[places]]

    return source


def _by_column(found: ResultColumn, *, descending: bool) -> KeySource:
    def source(places: Index | None) -> SortKeys:
        keys = column_order(found if places is None else found.pick(places))
        return backwards(keys) if descending else keys

    return source


def _by_id(frame: Frame, run: Run, var: str) -> KeySource:
    def source(places: Index | None) -> SortKeys:
        handles = frame.vars[var]
        return [run.view.rank(run.entities[var], handles if places is None else handles[places])]

    return source
