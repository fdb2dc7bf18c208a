"""The values of rankings, computed for every entity that a variable stands for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from omnigraph.errors import InvalidInput
from omnigraph.lang.ir import expr as ir
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
