"""Rankings: a distance or a score for each row, by the entity of one variable."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from omnigraph.exec import tuning
from omnigraph.exec.read.frame import Frame, ascending
from omnigraph.exec.read.run import Best, Run, Scores
from omnigraph.exec.view import Handles, Mask
from omnigraph.lang.ir.expr import Nearest, Ranking, Rrf


def ranked_var(ranking: Ranking) -> str:
    """The variable whose entities are ranked."""
    return ranking.first.var if isinstance(ranking, Rrf) else ranking.var


def smaller_is_better(ranking: Ranking) -> bool:
    """True if the value is a distance, not a score."""
    return isinstance(ranking, Nearest)


class Rankings:
    """The rankings of the rows of one frame, each computed once."""

    __slots__ = ("_known", "frame", "run")

    def __init__(self, frame: Frame, run: Run) -> None:
        """Rank what is in the frame."""
        self.frame = frame
        self.run = run
        self._known: dict[Ranking, tuple[Scores, Mask]] = {}

    def know(self, ranking: Ranking, scores: Scores) -> None:
        """Take these values, one for each row, as those of a ranking."""
        self._known[ranking] = scores, np.ones(len(scores), np.bool_)

    def values(self, ranking: Ranking) -> tuple[Scores, Mask]:
        """The value of each row, and which rows have one."""
        found = self._known.get(ranking)
        if found is None:
            found = self._known[ranking] = self._compute(ranking)
        return found

    def array(self, ranking: Ranking) -> pa.Array:
        """The value of each row, null for those without."""
        scores, valid = self.values(ranking)
        return pa.array(scores, mask=~valid)

    def _compute(self, ranking: Ranking) -> tuple[Scores, Mask]:
        var = ranked_var(ranking)
        run = self.run
        handles = self.frame.vars[var]
        known_before = run.scores.get(ranking)
        if known_before is not None:
            ranked, numbers = known_before
            return numbers[np.searchsorted(ranked, handles)], np.ones(len(handles), np.bool_)
        there = handles >= 0
        distinct, places = np.unique(handles[there], return_inverse=True)
        found = run.searching().values(ranking, run.entities[var], run.view, distinct, run.context)
        scores, valid = found
        values = np.zeros(len(handles), np.float64)
        known = np.zeros(len(handles), np.bool_)
        values[there], known[there] = scores[places], valid[places]
        return values, known


def best_rows(frame: Frame, ranking: Ranking, most: int, run: Run) -> tuple[Frame, Rankings]:
    """The rows that may be among the `most` best, and their rankings.

    Every entity is in one row at least, so the best rows are those of as many best entities.
    """
    var = ranked_var(ranking)
    handles = frame.vars[var]
    few = frame.rows < tuning.active.partial_rank_rows_min or most * 4 > frame.rows
    if few or most < 1 or ranking in run.scores:
        return frame, Rankings(frame, run)
    candidates = ascending(handles)
    if candidates[0] < 0:
        candidates = candidates[1:]
    best = best_of(ranking, candidates, most, run)
    if len(best.handles) < most:
        # Rows without a value are asked for as well.
        return frame, Rankings(frame, run)
    scores = np.full(int(handles.max()) + 2, np.nan)  # a missing entity looks at the last place
    scores[best.handles] = best.numbers
    values = scores[handles]
    chosen = np.flatnonzero(~np.isnan(values))
    rows = frame.pick(chosen)
    rankings = Rankings(rows, run)
    rankings.know(ranking, values[chosen])
    return rows, rankings


def best_of(ranking: Ranking, candidates: Handles | None, count: int, run: Run) -> Best:
    """The best entities of a ranking among candidates; None stands for the whole type."""
    entity = run.entities[ranked_var(ranking)]
    return run.searching().best(ranking, entity, run.view, candidates, count, run.context)
