"""Programs: reading plans made ready to run."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.exec.read.bounded import bounded, predicates, text_matches
from omnigraph.exec.read.build import Builder
from omnigraph.exec.read.fold import Multiplicity
from omnigraph.exec.read.frame import START
from omnigraph.exec.read.join import ReadStep, run_steps
from omnigraph.exec.read.limits import Limits
from omnigraph.exec.read.profile import Profile
from omnigraph.exec.read.results import ResultBuilder, always_there
from omnigraph.exec.read.rows import Rows
from omnigraph.exec.read.run import Run, SearchBackend
from omnigraph.exec.read.scan import ScanStep
from omnigraph.exec.read.shortcuts import Shortcut, shortcut
from omnigraph.exec.view import GraphView
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import (
    Aggregate,
    AggregateFunction,
    ConstValue,
    EntityRef,
    Expr,
    Prop,
    Ranking,
)
from omnigraph.lang.ir.ops import AntiJoin, Op, OptionalJoin, ReadPlan, Scan
from omnigraph.lang.query.blocks import variables_in
from omnigraph.runtime import cancellation

_DEFAULT = Limits()
_BLIND_TO_COUNT = frozenset({AggregateFunction.MIN, AggregateFunction.MAX})


class Program:
    """A plan with everything decided that does not depend on data. Safe to share."""

    __slots__ = (
        "bounded",
        "entities",
        "plan",
        "results",
        "searches",
        "selective",
        "shortcut",
        "steps",
        "types",
    )

    def __init__(
        self, plan: ReadPlan, steps: tuple[ReadStep, ...], ahead: Shortcut | None = None
    ) -> None:
        """Run `steps`, or what `ahead` finds by a shortcut, then make the results of `plan`."""
        self.plan = plan
        self.steps = steps
        self.types = tuple(entity.table_key for entity in plan.reads)
        self.entities: Mapping[str, EntityRef] = {need.var: need.entity for need in plan.needs}
        self.results = ResultBuilder(plan)
        self.bounded = bounded(plan)
        self.searches = _searches(plan)
        self.shortcut = ahead
        # Every entity is reached from a few that are named.
        self.selective = not self.searches and _finds(plan.pipeline, steps)

    def run(
        self,
        view: GraphView,
        params: Mapping[str, ConstValue],
        now_ms: int,
        search: SearchBackend | None = None,
        limits: Limits = _DEFAULT,
        profile: Profile | None = None,
    ) -> Rows:
        """The result of the plan in a view.

        Args:
            view: The entities of one snapshot.
            params: The value of every declared parameter, in stored form.
            now_ms: The moment of the statement.
            search: How text and vectors are searched; only such queries need it.
            limits: What the query may use.
            profile: Receives every operator that has run.
        """
        run = Run(view, params, now_ms, self.entities, search, limits)
        for item in self.bounded:
            item.check(run.context)
        if profile is not None:
            return self._profiled(run, profile)
        frame = None if self.shortcut is None else self.shortcut(run)
        if frame is None:
            frame = run_steps(self.steps, START, run)
        return self.results.rows(frame, run)

    def _profiled(self, run: Run, profile: Profile) -> Rows:
        begin = profile.ticks()
        frame = None if self.shortcut is None else self.shortcut(run)
        if self.shortcut is not None and frame is not None:
            profile.add(self.shortcut.label, frame.rows, profile.ticks() - begin)
        steps = self.steps if frame is None else ()
        frame = START if frame is None else frame
        for step in steps:
            if frame is None:
                profile.add(step.label, 0, 0)
                continue
            cancellation.check()
            begin = profile.ticks()
            frame = step(frame, run)
            profile.add(step.label, frame.rows, profile.ticks() - begin)
            frame = frame if frame.rows else None
        begin = profile.ticks()
        rows = self.results.rows(frame, run)
        profile.add("result", len(rows), profile.ticks() - begin)
        return rows

    def describe(self) -> str:
        """The steps in words, a line each, in the order in which they run."""
        return "".join(f"  {step.label}\n" for step in self.steps)


def prepare(plan: ReadPlan, catalog: Catalog) -> Program:
    """Decide how a plan is run; the catalog is the one that it was compiled with."""
    nullable = frozenset(need.var for need in plan.needs if need.nullable)
    builder = Builder(catalog, nullable)
    live, mode = read_at_the_end(plan), mode_of(plan)
    nothing: frozenset[str] = frozenset()
    steps = tuple(builder.steps(plan.pipeline, nothing, live, mode, ends=_sees_rows(plan)))

    def matched(var: str) -> list[ReadStep]:
        return builder.steps(plan.pipeline, nothing, frozenset({var}), Multiplicity.SET)

    return Program(plan, steps, shortcut(plan, steps, mode, matched))


def mode_of(plan: ReadPlan) -> Multiplicity:
    """Returns what the results need to know about equal rows of the pattern."""
    if not plan.grouped:
        return Multiplicity.SET if plan.distinct else Multiplicity.ROWS
    aggregates = [item.expr for item in plan.outputs if isinstance(item.expr, Aggregate)]
    blind = all(item.distinct or item.function in _BLIND_TO_COUNT for item in aggregates)
    return Multiplicity.SET if blind else Multiplicity.COUNTS


def _sees_rows(plan: ReadPlan) -> bool:
    """True if equal rows at the end are worth removing: counting distinct ones does it anyway."""
    for item in plan.outputs:
        match item.expr:
            case Aggregate(distinct=True, arg=Prop(column="id")):
                continue
            case _:
                return True
    return False


def read_at_the_end(plan: ReadPlan) -> frozenset[str]:
    """The variables that the results are made of."""
    found = set(plan.tie_break)
    for item in plan.outputs:
        if not (isinstance(item.expr, Aggregate) and always_there(item.expr)):
            found |= variables_in(item.expr)
    for key in plan.order:
        if key.column is None:
            found |= variables_in(key.expr)
    if plan.ranking is not None:
        found |= variables_in(plan.ranking)
    return frozenset(found)


def _searches(plan: ReadPlan) -> bool:
    """True if text or vectors are searched."""
    ends: list[Expr] = [item.expr for item in plan.outputs]
    if plan.ranking is not None or any(isinstance(item, Ranking) for item in ends):
        return True
    return any(any(text_matches(item)) for item in predicates(plan.pipeline))


def _finds(pipeline: tuple[Op, ...], steps: tuple[ReadStep, ...]) -> bool:
    """True if the pattern starts from named entities and scans no type."""
    if _scans(pipeline) != 1 or not steps:
        return False
    first = steps[0]
    return isinstance(first, ScanStep) and first.lookup is not None


def _scans(pipeline: tuple[Op, ...]) -> int:
    inner = (op.inner for op in pipeline if isinstance(op, AntiJoin | OptionalJoin))
    return sum(isinstance(op, Scan) for op in pipeline) + sum(map(_scans, inner))
