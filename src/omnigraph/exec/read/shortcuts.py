"""Shortcuts to a few results that do not follow the whole pattern.

All of them start from a part of what the first scan finds, and know when that was not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from omnigraph.exec import tuning
from omnigraph.exec.read.fold import Multiplicity
from omnigraph.exec.read.frame import START, Frame, ascending
from omnigraph.exec.read.join import ReadStep, run_steps
from omnigraph.exec.read.ranking import best_of, ranked_var
from omnigraph.exec.read.results import bounds
from omnigraph.exec.read.run import Run
from omnigraph.exec.read.scan import ScanStep
from omnigraph.lang.ir.expr import Bm25, Nearest, Ranking, Rrf
from omnigraph.lang.ir.ops import ReadPlan


class Shortcut(Protocol):
    """A way to the first results."""

    label: str

    def __call__(self, run: Run) -> Frame | None:
        """Rows that hold all results that are asked for; None if it takes the whole pattern."""
        ...


def shortcut(
    plan: ReadPlan,
    steps: tuple[ReadStep, ...],
    mode: Multiplicity,
    matched: Callable[[str], Sequence[ReadStep]],
) -> Shortcut | None:
    """The shortcut that a plan allows, if any.

    Args:
        plan: The plan.
        steps: How it is run.
        mode: What it needs to know about equal rows.
        matched: Gives the steps that find which entities of a variable are in any match.
    """
    if mode is not Multiplicity.ROWS or plan.limit is None or len(steps) < 2:
        return None
    first = steps[0]
    if not isinstance(first, ScanStep) or first.lookup is not None:
        return None
    if isinstance(plan.ranking, Nearest | Bm25) and ranked_var(plan.ranking) == first.var:
        return BestFirst(plan, plan.ranking, first, steps[1:])
    if isinstance(plan.ranking, Rrf) and ranked_var(plan.ranking) == first.var:
        return FusedFirst(plan, plan.ranking, first, steps[1:], tuple(matched(first.var)))
    if plan.ranking is None and not plan.order and plan.tie_break[:1] == (first.var,):
        return FirstIds(plan, first, steps[1:])
    return None


class BestFirst:
    """The pattern from the best entities of a ranking.

    The value of an entity does not depend on the others, so the rows of the best ones come first,
    however many of the others are in a match.
    """

    __slots__ = ("first", "label", "plan", "ranking", "rest")

    def __init__(
        self, plan: ReadPlan, ranking: Ranking, first: ScanStep, rest: tuple[ReadStep, ...]
    ) -> None:
        """Rank what `first` finds, then take the other steps."""
        self.plan = plan
        self.ranking = ranking
        self.first = first
        self.rest = rest
        self.label = f"best first: {'; '.join(step.label for step in (first, *rest))}"

    def __call__(self, run: Run) -> Frame | None:
        """The rows of the best entities, if they are enough."""
        _, last = bounds(self.plan, run.context)
        if not last:
            return None
        count = last * tuning.active.top_factor
        candidates = self.first.candidates(run)
        size = run.view.size(self.first.entity) if candidates is None else len(candidates)
        if size < count * tuning.active.top_factor:
            return None
        best = best_of(self.ranking, candidates, count, run)
        handles = np.sort(best.handles)
        if not len(handles):
            return None
        frame = run_steps(self.rest, Frame(len(handles), {self.first.var: handles}), run)
        return frame if frame is not None and frame.rows >= last else None


class FusedFirst:
    """The pattern from the best entities of a fusion.

    Their ranks depend on all entities that are in any match, so those are found first, without
    the rest of their rows.
    """

    __slots__ = ("first", "label", "matched", "plan", "ranking", "rest")

    def __init__(
        self,
        plan: ReadPlan,
        ranking: Rrf,
        first: ScanStep,
        rest: tuple[ReadStep, ...],
        matched: tuple[ReadStep, ...],
    ) -> None:
        """Rank what the steps `matched` find, then take the other steps from the best."""
        self.plan = plan
        self.ranking = ranking
        self.first = first
        self.rest = rest
        self.matched = matched
        self.label = f"best first: {'; '.join(step.label for step in (*matched, *rest))}"

    def __call__(self, run: Run) -> Frame | None:
        """The rows of the best entities, if they are enough."""
        _, last = bounds(self.plan, run.context)
        found = run_steps(self.matched, START, run) if last else None
        if found is None or not last:
            return None
        candidates = ascending(found.vars[self.first.var])
        if len(candidates) < last * tuning.active.top_factor:
            return None
        best = best_of(self.ranking, candidates, last, run)
        if len(best.handles) < last:
            return None
        order = np.argsort(best.handles)
        handles = best.handles[order]
        run.scores[self.ranking] = handles, best.numbers[order]
        return run_steps(self.rest, Frame(len(handles), {self.first.var: handles}), run)


class FirstIds:
    """The pattern from the entities with the first ids, for results in the order of ids."""

    __slots__ = ("first", "label", "plan", "rest")

    def __init__(self, plan: ReadPlan, first: ScanStep, rest: tuple[ReadStep, ...]) -> None:
        """Begin with a part of what `first` finds, then take the other steps."""
        self.plan = plan
        self.first = first
        self.rest = rest
        self.label = f"first ids: {'; '.join(step.label for step in (first, *rest))}"

    def __call__(self, run: Run) -> Frame | None:
        """The rows of the first entities, if they are enough."""
        _, last = bounds(self.plan, run.context)
        var = self.first.var
        handles = self.first.candidates(run)
        if handles is None:
            handles = np.arange(run.view.size(self.first.entity), dtype=np.int32)
        count = (last or 0) * tuning.active.top_factor
        if not 0 < count * tuning.active.top_growth_factor < len(handles):
            return None
        if run.view.rank(self.first.entity, handles) is not handles:
            return None
        while count * tuning.active.top_growth_factor < len(handles):
            frame = run_steps(self.rest, Frame(count, {var: handles[:count]}, None, (var,)), run)
            if frame is not None and last is not None and frame.rows >= last:
                return frame
            count *= tuning.active.top_growth_factor
        return None
