"""Checks of given numbers that must be within bounds, before the query runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.errors import Code, InvalidInput
from omnigraph.exec.evaluate import EvalContext, constant
from omnigraph.lang.ir.expr import And, Expr, Not, Or, Param, Predicate, Rrf, TextMatch
from omnigraph.lang.ir.ops import AntiJoin, Expand, Filter, Op, OptionalJoin, ReadPlan, Scan
from omnigraph.lang.query.search import EDITS_MAX


@dataclass(frozen=True, slots=True)
class BoundedParameter:
    """A parameter that sets how a search works."""

    expr: Param
    least: int
    most: int | None
    word: str

    def check(self, context: EvalContext) -> None:
        """Refuse a value out of bounds."""
        value = constant(self.expr, context)
        above = isinstance(value, int) and value >= self.least
        if not above or (self.most is not None and isinstance(value, int) and value > self.most):
            bound = f"at least {self.least}"
            if self.most is not None:
                bound = f"from {self.least} to {self.most}"
            text = f"{self.word} is {bound}, not {value}"
            raise InvalidInput(Code.PARAMS_INVALID, text)


def bounded(plan: ReadPlan) -> tuple[BoundedParameter, ...]:
    """The parameters of a plan that have bounds; the compiler has checked what is constant."""
    ends: list[Expr | None] = [plan.ranking, *(item.expr for item in plan.outputs)]
    fusions = [
        BoundedParameter(item.k, 1, None, "k of rrf")
        for item in ends
        if isinstance(item, Rrf) and isinstance(item.k, Param)
    ]
    typos = [
        BoundedParameter(match.edits, 0, EDITS_MAX, "the number of edits")
        for predicate in predicates(plan.pipeline)
        for match in text_matches(predicate)
        if isinstance(match.edits, Param)
    ]
    return tuple(dict.fromkeys(fusions + typos))


def predicates(pipeline: tuple[Op, ...]) -> Iterator[Predicate]:
    """Every predicate of a pipeline, inner ones included."""
    for op in pipeline:
        match op:
            case Scan():
                yield from op.filters
            case Expand():
                yield from (*op.filters, *op.edge_filters)
            case Filter(predicate):
                yield predicate
            case AntiJoin() | OptionalJoin():
                yield from predicates(op.inner)


def text_matches(predicate: Predicate) -> Iterator[TextMatch]:
    """Every text search inside a predicate."""
    match predicate:
        case TextMatch():
            yield predicate
        case Not(item):
            yield from text_matches(item)
        case And(items) | Or(items):
            for item in items:
                yield from text_matches(item)
        case _:
            return
