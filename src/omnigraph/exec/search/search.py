"""Search for queries: matching entities, their scores, and the best of them.

Text statistics cover the whole type in the snapshot, whatever a query filters. Rankings are
values of entities; their candidates are the entities that survived the filters of a query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from omnigraph.embed.source import Embeddings
from omnigraph.errors import Code, Internal, InvalidInput, LimitExceeded
from omnigraph.exec.evaluate import EvalContext, constant
from omnigraph.exec.search.fusion import RankKeys, depth, fuse, ranks_of
from omnigraph.exec.search.nearest import NearestQuery
from omnigraph.exec.search.sources import Columns, Sources
from omnigraph.exec.search.text_index import Relevance, TextIndex
from omnigraph.exec.search.tokens import stem, words
from omnigraph.exec.view import Handles, Mask
from omnigraph.lang.ir.expr import Bm25, EntityRef, Expr, Nearest, Ranking, Rrf, TextMatch, TextMode
from omnigraph.lang.query.search import EDITS_MAX

Scores: TypeAlias = npt.NDArray[np.float64]

# A query text with more words is a document, not a question.
QUERY_WORDS_MAX: Final = 1_024


@dataclass(frozen=True, slots=True, eq=False)
class RankedEntities:
    """The best entities, best first and equals by id, with their values."""

    handles: Handles
    numbers: Scores


class Search:
    """Text and vector search over any view. Safe to share between threads."""

    def __init__(self, embeddings: Embeddings | None = None) -> None:
        """Search; texts that `nearest` is given are embedded by `embeddings`."""
        self._embeddings = embeddings
        self._sources = Sources()

    # -- conditions ------------------------------------------------------------------------

    def matches(
        self, match: TextMatch, entity: EntityRef, view: Columns, context: EvalContext
    ) -> Mask:
        """For every entity of the type whether its text matches; a missing text does not."""
        return matching(match, self._sources.text(view, entity, match.column), context)

    # -- rankings --------------------------------------------------------------------------

    def values(
        self,
        ranking: Ranking,
        entity: EntityRef,
        view: Columns,
        handles: Handles,
        context: EvalContext,
    ) -> tuple[Scores, Mask]:
        """The value of a ranking for distinct entities, and which of them have one.

        For a fusion these entities are all the candidates.
        """
        match ranking:
            case Bm25():
                scores = self._relevance(ranking, entity, view, context).scores[handles]
                return scores, scores > 0
            case Nearest():
                query = self._query(ranking, entity, view, context)
                there = query.has_value(handles)
                if there is None:
                    return query.distances(handles), np.ones(len(handles), np.bool_)
                numbers = np.zeros(len(handles), np.float64)
                numbers[there] = query.distances(handles[there])
                return numbers, there
            case Rrf():
                rankings = []
                for part in (ranking.first, ranking.second):
                    numbers, valid = self.values(part, entity, view, handles, context)
                    keys = numbers[valid] if isinstance(part, Nearest) else -numbers[valid]
                    ranks = ranks_of(keys, view.rank(entity, handles[valid]))
                    rankings.append((valid, ranks))
                scores = fuse(k_of(ranking, context), *rankings)
                return scores, scores > 0

    def best(
        self,
        ranking: Ranking,
        entity: EntityRef,
        view: Columns,
        handles: Handles | None,
        count: int,
        context: EvalContext,
    ) -> RankedEntities:
        """The best `count` of distinct candidates, and those that equal the last of them.

        Candidates without a value are never among them.

        Args:
            ranking: How they are ranked.
            entity: Their type.
            view: Where they are.
            handles: The candidates, ascending; None for the whole type.
            count: How many are asked for.
            context: The parameters of the statement.
        """
        if isinstance(ranking, Rrf):
            found, numbers = self._best_fused(ranking, entity, view, handles, count, context)
            descending = True
        elif isinstance(ranking, Bm25):
            relevance = self._relevance(ranking, entity, view, context)
            found, numbers = _largest(relevance, handles, count)
            descending = True
        else:
            query = self._query(ranking, entity, view, context)
            found = query.best(handles, count)
            numbers, descending = query.distances(found), False
        return _cut(found, numbers, count, view.rank(entity, found), descending=descending)

    # -- inside ----------------------------------------------------------------------------

    def _relevance(
        self, ranking: Bm25, entity: EntityRef, view: Columns, context: EvalContext
    ) -> Relevance:
        index = self._sources.text(view, entity, ranking.column)
        return index.bm25([stem(word) for word in query_words(ranking.query, context)])

    def _query(
        self, ranking: Nearest, entity: EntityRef, view: Columns, context: EvalContext
    ) -> NearestQuery:
        vectors = self._sources.vectors(view, entity, ranking.column, ranking.dim)
        return NearestQuery(vectors, ranking.metric, self.target(ranking, context))

    def target(self, ranking: Nearest, context: EvalContext) -> Scores:
        """The vector that `nearest` compares with; a text is embedded."""
        wanted = constant(ranking.query, context)
        if isinstance(wanted, str):
            if self._embeddings is None:
                raise Internal(Code.INTERNAL, "this search was given no embeddings")
            wanted = self._embeddings.embed_query(wanted, ranking.dim, ranking.model)
        target = np.array(wanted, np.float64)
        if target.shape != (ranking.dim,):
            text = f"nearest compares vectors of {ranking.dim} numbers, not {target.size}"
            raise InvalidInput(Code.PARAMS_INVALID, text)
        return target

    def _candidates(
        self,
        ranking: Nearest | Bm25,
        entity: EntityRef,
        view: Columns,
        handles: Handles | None,
        context: EvalContext,
    ) -> _Candidates:
        """The entities that have a value in a ranking, and their sort keys."""
        if isinstance(ranking, Bm25):
            chosen, numbers = _scored(self._relevance(ranking, entity, view, context), handles)
            keys = -numbers
            ties = view.rank(entity, chosen)
            return _Candidates(chosen, RankKeys(keys, 0.0, keys.__getitem__, ties))
        query = self._query(ranking, entity, view, context)
        valued = query.with_value(handles)
        rough = query.rough(valued)
        chosen = np.arange(len(rough.values), dtype=np.int32) if valued is None else valued
        ties = view.rank(entity, chosen)
        return _Candidates(chosen, RankKeys(rough.values, rough.slack, _Exact(query, chosen), ties))

    def _best_fused(
        self,
        ranking: Rrf,
        entity: EntityRef,
        view: Columns,
        handles: Handles | None,
        count: int,
        context: EvalContext,
    ) -> tuple[Handles, Scores]:
        k = k_of(ranking, context)
        far = depth(k, count)
        parts = [
            self._candidates(part, entity, view, handles, context)
            for part in (ranking.first, ranking.second)
        ]
        fronts = [part.handles[part.keys.first(far)] for part in parts]
        pool = np.unique(np.concatenate(fronts))
        rankings = []
        for part in parts:
            places = np.searchsorted(part.handles, pool)
            places[places == len(part.handles)] = 0
            valid = part.handles[places] == pool if len(part.handles) else pool < 0
            rankings.append((valid, part.keys.ranks(places[valid])))
        return pool, fuse(k, *rankings)


@dataclass(frozen=True, slots=True, eq=False)
class _Candidates:
    """The candidates with a value in one ranking, ascending, and what they are ranked by."""

    handles: Handles
    keys: RankKeys


@dataclass(frozen=True, slots=True, eq=False)
class _Exact:
    """Exact distances of some of the candidates."""

    query: NearestQuery
    handles: Handles

    def __call__(self, places: npt.NDArray[np.int64]) -> Scores:
        return self.query.distances(self.handles[places])


def matching(match: TextMatch, index: TextIndex, context: EvalContext) -> Mask:
    """For every text of an index whether it matches; a missing one does not."""
    asked = query_words(match.query, context)
    match match.mode:
        case TextMode.SEARCH:
            return index.any_term([stem(word) for word in asked])
        case TextMode.PHRASE:
            return index.phrase([stem(word) for word in asked])
        case TextMode.FUZZY:
            return index.fuzzy(asked, edits_of(match.edits, context))


def _scored(relevance: Relevance, handles: Handles | None) -> tuple[Handles, Scores]:
    """The candidates that score above 0, ascending, and their scores."""
    scores = relevance.scores
    if handles is None:
        handles = np.sort(relevance.holders)
        return handles, scores[handles]
    numbers = scores[handles]
    places = np.flatnonzero(numbers)
    return handles[places], numbers[places]


def _largest(relevance: Relevance, handles: Handles | None, count: int) -> tuple[Handles, Scores]:
    """Those of the candidates that score above 0 and may be among the `count` largest."""
    if handles is None:
        handles, numbers = relevance.holders, relevance.scores[relevance.holders]
    else:
        handles, numbers = _scored(relevance, handles)
    if len(numbers) > count > 0:
        bound = np.partition(numbers, len(numbers) - count)[len(numbers) - count]
        kept = np.flatnonzero(numbers >= bound)
        handles, numbers = handles[kept], numbers[kept]
    return handles, numbers


def _cut(
    handles: Handles,
    numbers: Scores,
    count: int,
    ties: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    *,
    descending: bool,
) -> RankedEntities:
    keys = -numbers if descending else numbers
    order = np.lexsort((ties, keys))
    if len(order) > count:
        kept = keys[order] <= keys[order[count - 1]] if count > 0 else 0
        order = order[: int(np.count_nonzero(kept))]
    return RankedEntities(handles[order], numbers[order])


def query_words(query: Expr, context: EvalContext) -> list[str]:
    """The words of a query text, in their order."""
    text = constant(query, context)
    if not isinstance(text, str):
        raise Internal(Code.INTERNAL, "a query text is a string")
    found = words(text)
    if len(found) > QUERY_WORDS_MAX:
        message = f"a query text has at most {QUERY_WORDS_MAX} words, this one has {len(found)}"
        raise LimitExceeded(Code.LIMIT_EXCEEDED, message, limit="query_words", most=QUERY_WORDS_MAX)
    return found


def edits_of(expr: Expr | None, context: EvalContext) -> int:
    """Returns the number of edits that a fuzzy search allows."""
    edits = 0 if expr is None else constant(expr, context)
    if not isinstance(edits, int) or not 0 <= edits <= EDITS_MAX:
        message = f"the number of edits is from 0 to {EDITS_MAX}, not {edits}"
        raise InvalidInput(Code.PARAMS_INVALID, message)
    return edits


def k_of(ranking: Rrf, context: EvalContext) -> int:
    """The constant of a fusion."""
    k = constant(ranking.k, context)
    if not isinstance(k, int) or k < 1:
        raise InvalidInput(Code.PARAMS_INVALID, f"k of rrf is above 0, not {k}")
    return k
