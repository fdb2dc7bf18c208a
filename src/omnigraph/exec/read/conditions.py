"""Conditions on the rows of a frame, and on the entities of one variable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from omnigraph.exec import tuning
from omnigraph.exec.evaluate import EvalContext, holds
from omnigraph.exec.read.bounded import text_matches
from omnigraph.exec.read.dictionary import dictionary_column
from omnigraph.exec.read.fold import StepOutput
from omnigraph.exec.read.frame import Frame
from omnigraph.exec.read.run import Run
from omnigraph.exec.view import Handles, Mask
from omnigraph.lang.ir.expr import (
    And,
    Compare,
    Contains,
    EntityRef,
    Expr,
    IsNull,
    Not,
    OneOf,
    Or,
    Predicate,
    Prop,
    StartsWith,
    Substring,
    TextMatch,
)
from omnigraph.runtime.cancellation import checked


class EntityCondition:
    """Predicates on one variable, all of which must be true."""

    __slots__ = ("columnar", "entity", "predicates", "texts", "var")

    def __init__(self, var: str, entity: EntityRef, predicates: tuple[Predicate, ...]) -> None:
        """Judge entities of this type as the variable."""
        self.var = var
        self.entity = entity
        self.texts = tuple(item for item in predicates if isinstance(item, TextMatch))
        self.predicates = tuple(item for item in predicates if not isinstance(item, TextMatch))
        # The one column that a predicate reads, if it reads just one.
        self.columnar = tuple(_only_column(item) for item in self.predicates)

    def whole(self, run: Run) -> Mask:
        """For each entity of the type whether it passes."""
        found = run.memo.get(self)
        if found is None:
            found = self._judge(run, None, run.view.size(self.entity))
            run.memo[self] = found
        return found

    def mask(self, run: Run, handles: Handles) -> Mask:
        """For each handle, none of which is missing, whether it passes."""
        size, share = run.view.size(self.entity), tuning.active.judged_share
        if self in run.memo or len(handles) * share > size:
            return self.whole(run)[handles]
        return self._judge(run, handles, len(handles))

    def _judge(self, run: Run, handles: Handles | None, rows: int) -> Mask:
        passed: Mask | None = None
        for each in self.texts:
            found = run.matches(each)
            found = found if handles is None else found[handles]
            passed = found if passed is None else passed & found
        for predicate, name in checked(zip(self.predicates, self.columnar, strict=True)):
            truth = self._by_value(predicate, name, run) if handles is None else None
            if truth is None:
                truth = self._by_row(predicate, run, handles, rows)
            passed = truth if passed is None else passed & truth
        return np.ones(rows, np.bool_) if passed is None else passed

    def _by_value(self, predicate: Predicate, name: str | None, run: Run) -> Mask | None:
        """Judge every value of a column once, for a column of few values."""
        known = None if name is None else dictionary_column(run.view, self.entity, name)
        if known is None:
            return None
        domain = known.domain()
        truth = true(holds(predicate, lambda _var, _name: domain, len(domain), run.context))
        found: Mask = truth[known.numbers]
        return found

    def _by_row(self, predicate: Predicate, run: Run, handles: Handles | None, rows: int) -> Mask:
        def column(_: str, name: str) -> pa.Array:
            return run.view.take(self.entity, name, handles)

        def text(match: TextMatch) -> pa.Array:
            found = run.matches(match)
            found = found if handles is None else found[handles]
            negates = _negates_text(predicate)
            return _known(found, column(match.var, match.column) if negates else None)

        context = replace(run.context, text=text)
        return true(holds(predicate, column, rows, context))


class FilterStep:
    """A predicate on rows, of any number of variables."""

    __slots__ = ("label", "negates", "output", "predicate")

    def __init__(self, predicate: Predicate, output: StepOutput, *, label: str) -> None:
        """Keep rows for which the predicate is true."""
        self.predicate = predicate
        self.output = output
        self.label = label
        self.negates = _negates_text(predicate)

    def __call__(self, frame: Frame, run: Run) -> Frame:
        """The rows that pass."""
        return self.output.kept(frame.keep(self.mask(frame, run)))

    def mask(self, frame: Frame, run: Run) -> Mask:
        """For each row whether it passes."""
        column = run.columns(frame)

        def text(match: TextMatch) -> pa.Array:
            handles = frame.vars[match.var]
            found = run.matches(match)
            # A missing entity has a missing text; without entities there is nothing to look up.
            places = np.maximum(handles, 0)
            found = found[places] & (handles >= 0) if len(found) else np.zeros(frame.rows, np.bool_)
            return _known(found, column(match.var, match.column) if self.negates else None)

        context = EvalContext(run.context.params, run.context.now_ms, text)
        return true(holds(self.predicate, column, frame.rows, context))


def _only_column(predicate: Predicate) -> str | None:
    names = {item.column for item in props_in(predicate)}
    return names.pop() if len(names) == 1 and not any(text_matches(predicate)) else None


def props_in(item: Predicate | Expr) -> Iterator[Prop]:
    """Every property that a predicate reads, but for what text search reads."""
    match item:
        case Prop():
            yield item
        case And(items) | Or(items):
            for each in items:
                yield from props_in(each)
        case Not(inner) | IsNull(inner):
            yield from props_in(inner)
        case OneOf(operand, items):
            for part in (operand, *items):
                yield from props_in(part)
        case Compare(_, left, right):
            yield from (*props_in(left), *props_in(right))
        case Contains(left, right) | Substring(left, right) | StartsWith(left, right):
            yield from (*props_in(left), *props_in(right))
        case _:
            return


def _known(found: Mask, texts: pa.Array | None) -> pa.Array:
    """Matches as truth values; only a negation distinguishes unknown from false."""
    if texts is None:
        return pa.array(found)
    return pa.array(found, mask=texts.is_null().to_numpy(zero_copy_only=False))


def _negates_text(predicate: Predicate) -> bool:
    match predicate:
        case Not(item):
            return any(text_matches(item))
        case And(items) | Or(items):
            return any(_negates_text(item) for item in items)
        case _:
            return False


def true(truth: pa.Array) -> Mask:
    """The mask of rows where something is true: neither false nor unknown."""
    if truth.null_count:
        truth = truth.fill_null(False)
    mask: Mask = truth.to_numpy(zero_copy_only=False)
    return mask
