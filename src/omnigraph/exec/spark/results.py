"""From the rows of a pattern to the result: columns, groups, distinct rows, order, limit.

Every result column becomes `o0`, `o1`, … and every sort key `k0`, `k1`, …. What the order does not
need is read after the limit, when there is one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from omnigraph.dataplane.spark.dense import NUMBER
from omnigraph.dataplane.spark.table_scan import Frame
from omnigraph.exec.evaluate import constant
from omnigraph.exec.read.ranking import ranked_var, smaller_is_better
from omnigraph.exec.read.results import always_there, bounds
from omnigraph.exec.search.search import Search, k_of, query_words
from omnigraph.exec.search.text_index import Corpus
from omnigraph.exec.search.tokens import distinct, stem
from omnigraph.exec.spark.frames import COUNT, Bound, Frames, Perform
from omnigraph.exec.spark.scoring import (
    COUNTED,
    SCORED,
    CountTexts,
    Distances,
    Relevances,
)
from omnigraph.exec.spark.sql_literals import literal, text
from omnigraph.exec.spark.sums import JoinFloats, SplitFloats
from omnigraph.lang.catalog.identity import END_NAMES
from omnigraph.lang.ir.expr import (
    Aggregate,
    AggregateFunction,
    Bm25,
    Entity,
    Expr,
    Nearest,
    Prop,
    Ranking,
    Rrf,
)
from omnigraph.lang.ir.ops import ReadPlan
from omnigraph.lang.values import FLOATS, Base, ValueType

# Spark counts rows of a limit with 32 bits; a result is never that long.
_LIMIT_MAX: Final = 2**31 - 1

_ID: Final = ValueType(Base.STRING)


class Results:
    """Makes the results of one run of one plan."""

    def __init__(self, frames: Frames, search: Search, perform: Perform) -> None:
        """Make the results of the plan of these frames."""
        self.frames = frames
        self.plan: ReadPlan = frames.plan
        self.search = search
        self.perform = perform
        self._sql = frames.sql
        self._props: dict[tuple[str, str], str] = {}
        self._scores: dict[Ranking, str] = {}

    def frame(self, bound: Bound) -> Frame:
        """The results as a frame with the columns `o0`, `o1`, … in order."""
        plan = self.plan
        first, last = bounds(plan, self.frames.context)
        rows = self._scored(bound.frame)
        keys = self._sort_keys()
        late = last is not None and not plan.grouped and not plan.distinct
        outputs = dict(enumerate(plan.outputs))
        now = {
            place: item.expr
            for place, item in outputs.items()
            if not (late and _is_late(item.expr))
        }
        if plan.grouped:
            rows = self._grouped(rows, keys)
        else:
            rows = self._computed(rows, now, keys)
            if plan.distinct:
                rows = self._sql("SELECT DISTINCT * FROM {f}", f=rows)
        order = self._order(len(keys))
        rows = self._cut(rows, order, first, last)
        rest = {place: item.expr for place, item in outputs.items() if place not in now}
        entities = {
            place: item.expr for place, item in outputs.items() if isinstance(item.expr, Entity)
        }
        if rest or entities:
            rows = self._read_late(rows, rest, entities)
            if order:
                rows = self._sql(f"SELECT * FROM {{f}} ORDER BY {order}", f=rows)
        return rows.select(*[f"o{place}" for place in outputs])

    # -- columns ---------------------------------------------------------------------------

    def _computed(self, rows: Frame, outputs: dict[int, Expr], keys: list[str | Expr]) -> Frame:
        """The rows with their result columns and sort keys; entities stay numbers."""
        plain = {place: item for place, item in outputs.items() if not isinstance(item, Entity)}
        asked = [*plain.values(), *(key for key in keys if not isinstance(key, str))]
        rows = self._hydrated(rows, asked)
        columns = [f"{self._column(item)} AS o{place}" for place, item in plain.items()]
        # Numbers stay of whatever is read later.
        exprs = (item.expr for place, item in enumerate(self.plan.outputs) if place not in plain)
        later = {expr.var for expr in exprs if isinstance(expr, Prop | Entity)}
        columns = [*(self.frames.name(var) for var in sorted(later)), *columns, *self._keys(keys)]
        return self._sql(f"SELECT {', '.join(columns)} FROM {{f}}", f=rows)

    def _hydrated(self, rows: Frame, exprs: list[Expr]) -> Frame:
        """The rows with the stored columns that expressions read; an entity is known by its id."""
        wanted: dict[tuple[str, str], str] = {}
        for expr in exprs:
            found = expr.arg if isinstance(expr, Aggregate) else expr
            match found:
                case Prop(var, column):
                    place = (var, column)
                case Entity(var):
                    place = (var, "id")
                case _:
                    continue
            if isinstance(expr, Aggregate) and _counts_entities(expr):
                continue
            if place not in self._props:
                wanted[place] = self._props[place] = f"p{len(self._props)}"
        return self.frames.hydrated(rows, wanted) if wanted else rows

    def _column(self, expr: Expr) -> str:
        """A value as SQL, once what it reads is there."""
        match expr:
            case Prop(var, column):
                return self._props[var, column]
            case Entity(var):
                return self._props[var, "id"]
            case Nearest() | Bm25() | Rrf():
                return self._scores[expr]
            case _:
                return literal(constant(expr, self.frames.context), expr.type)

    def _read_late(
        self, rows: Frame, outputs: dict[int, Expr], entities: dict[int, Entity]
    ) -> Frame:
        """The rows with the columns that were left out so far."""
        wanted: dict[tuple[str, str], str] = {}
        for expr in (*outputs.values(), *entities.values()):
            names = [item.name for item in expr.columns] if isinstance(expr, Entity) else []
            if isinstance(expr, Prop):
                names = [expr.column]
            var = getattr(expr, "var", "")
            for name in names:
                wanted.setdefault((var, name), f"q{len(wanted)}")
        rows = self.frames.hydrated(rows, wanted)
        columns = []
        for place, expr in outputs.items():
            if isinstance(expr, Prop):
                columns.append(f"{wanted[expr.var, expr.column]} AS o{place}")
        for place, entity in entities.items():
            parts = (
                f"{text(END_NAMES.get(item.name, item.name))}, {wanted[entity.var, item.name]}"
                for item in entity.columns
            )
            number = self.frames.name(entity.var)
            struct = f"named_struct({', '.join(parts)})"
            columns.append(f"CASE WHEN {number} IS NOT NULL THEN {struct} END AS o{place}")
        return self._sql(f"SELECT *, {', '.join(columns)} FROM {{f}}", f=rows)

    # -- groups ----------------------------------------------------------------------------

    def _grouped(self, rows: Frame, sort_keys: list[str | Expr]) -> Frame:
        """One row per group. What sorts groups is a key already or depends on one."""
        outputs = self.plan.outputs
        aggregates = {
            place: item.expr
            for place, item in enumerate(outputs)
            if isinstance(item.expr, Aggregate)
        }
        given = {place: item.expr for place, item in enumerate(outputs) if place not in aggregates}
        extra = [key for key in sort_keys if not isinstance(key, str)]
        plain = [item.expr for item in outputs if not isinstance(item.expr, Entity)]
        rows = self._hydrated(rows, [*plain, *extra])
        numbers = {
            self.frames.name(item.var) for item in given.values() if isinstance(item, Entity)
        }
        keys = {name: name for name in sorted(numbers)}
        for place, item in given.items():
            if not isinstance(item, Entity):
                keys[f"o{place}"] = self._column(item)
        for place, key in enumerate(sort_keys):
            if not isinstance(key, str):
                keys[f"k{place}"] = self._column(key)
        args = {place: self._argument(item) for place, item in aggregates.items()}
        columns = [f"{value} AS {name}" for name, value in keys.items()]
        columns += [f"{arg} AS a{place}" for place, arg in args.items() if arg is not None]
        rows = self._sql(f"SELECT {', '.join([*columns, COUNT])} FROM {{f}}", f=rows)
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        totals = [
            f"{_total(item, place, args[place] is None)} AS o{place}"
            for place, item in aggregates.items()
        ]
        rows_of = self._sql(f"SELECT {', '.join([*keys, *totals])} FROM {{f}}{by}", f=rows)
        for place, item in aggregates.items():
            if _is_float_sum(item):
                rows_of = self._float_sum(rows_of, rows, tuple(keys), place, item)
        named = [
            f"{key} AS k{place}" for place, key in enumerate(sort_keys) if isinstance(key, str)
        ]
        return (
            self._sql(f"SELECT *, {', '.join(named)} FROM {{f}}", f=rows_of) if named else rows_of
        )

    def _argument(self, item: Aggregate) -> str | None:
        """The argument of an aggregate; None when it counts rows."""
        if always_there(item):
            return None
        if _counts_entities(item):
            assert isinstance(item.arg, Prop)
            return self.frames.name(item.arg.var)
        return self._column(item.arg)

    def _float_sum(
        self, groups: Frame, rows: Frame, keys: tuple[str, ...], place: int, item: Aggregate
    ) -> Frame:
        """The groups with the exact sum, or the mean, of a column of floats in the place of it."""
        columns = ", ".join([*keys, COUNT, f"a{place}"])
        given = self._sql(f"SELECT {columns} FROM {{f}}", f=rows)
        kept = (*keys, COUNT)
        fields = [given.schema[name].simpleString().partition(":")[2] for name in kept]
        declared = [f"`{name}` {kind}" for name, kind in zip(kept, fields, strict=True)]
        schema = ", ".join([*declared, "digits BIGINT", "power INT"])
        split = given.mapInArrow(SplitFloats(f"a{place}", kept), schema)
        by = ", ".join([*keys, "power"])
        product = f"CAST(digits AS DECIMAL(18,0)) * CAST({COUNT} AS DECIMAL(19,0))"
        parts = self._sql(
            f"SELECT {by}, sum({product}) AS digits, sum({COUNT}) AS {COUNT} FROM {{f}} "
            f"GROUP BY {by}",
            f=split,
        )
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        comma = ", " if keys else ""
        lists = self._sql(
            f"SELECT {', '.join(keys)}{comma}sum({COUNT}) AS {COUNT}, "
            "collect_list(named_struct('power', power, 'digits', digits)) AS parts "
            f"FROM {{f}}{group}",
            f=parts,
        )
        whole = lists.schema
        sums = ", ".join(
            f"`{field.name}` "
            + ("DOUBLE" if field.name == "parts" else field.simpleString().partition(":")[2])
            for field in whole
        )
        joined = lists.mapInArrow(JoinFloats("parts"), sums)
        mean = f"g.parts / g.{COUNT}" if item.function is AggregateFunction.AVG else "g.parts"
        # Without any value there is nothing to add up, and no mean.
        value = f"CASE WHEN g.{COUNT} > 0 THEN {mean} END AS o{place}"
        others = [f"f.{name}" for name in groups.columns if name != f"o{place}"]
        on = " AND ".join(f"f.{name} <=> g.{name}" for name in keys) or "true"
        statement = (
            f"SELECT {', '.join([*others, value])} FROM {{f}} AS f LEFT JOIN {{g}} AS g ON {on}"
        )
        return self._sql(statement, f=groups, g=joined)

    # -- order -----------------------------------------------------------------------------

    def _sort_keys(self) -> list[str | Expr]:
        """The sort keys of results: expressions, or names of result columns."""
        plan = self.plan
        keys: list[str | Expr] = []
        if plan.ranking is not None:
            keys.append(plan.ranking)
        keys += [
            key.expr if key.column is None else self._sorted_output(key.column)
            for key in plan.order
        ]
        keys += [self._sorted_output(place) for place in plan.tie_break_columns]
        for var in plan.tie_break:
            keys.append(Prop(var, "id", _ID))
        return keys

    def _sorted_output(self, place: int) -> str | Expr:
        expr = self.plan.outputs[place].expr
        return f"o{place}" if isinstance(expr, Aggregate) else expr

    def _keys(self, keys: list[str | Expr]) -> list[str]:
        return [
            f"{key if isinstance(key, str) else self._column(key)} AS k{place}"
            for place, key in enumerate(keys)
        ]

    def _order(self, count: int) -> str:
        plan = self.plan
        words: list[str] = []
        if plan.ranking is not None:
            words.append("ASC NULLS LAST" if smaller_is_better(plan.ranking) else "DESC NULLS LAST")
        words += ["DESC NULLS LAST" if key.descending else "ASC NULLS FIRST" for key in plan.order]
        words += ["ASC NULLS FIRST"] * (count - len(words))
        return ", ".join(f"k{place} {word}" for place, word in enumerate(words))

    def _cut(self, rows: Frame, order: str, first: int, last: int | None) -> Frame:
        """The rows in their order, from `first` up to `last`."""
        statement = "SELECT * FROM {f}"
        if order:
            statement += f" ORDER BY {order}"
        if last is not None and last - first <= _LIMIT_MAX:
            statement += f" LIMIT {last - first}"
        if first:
            statement += f" OFFSET {min(first, _LIMIT_MAX)}"
        return self._sql(statement, f=rows)

    # -- rankings --------------------------------------------------------------------------

    def _scored(self, rows: Frame) -> Frame:
        """The rows with a column per ranking of the plan; null where a row has no value."""
        plan = self.plan
        found = [plan.ranking, *(item.expr for item in plan.outputs)]
        found += [key.expr for key in plan.order]
        for item in found:
            expr = item.arg if isinstance(item, Aggregate) else item
            if isinstance(expr, Ranking) and expr not in self._scores:
                name = self._scores[expr] = f"s{len(self._scores)}"
                scores = self._values(expr, rows)
                number = self.frames.name(ranked_var(expr))
                rows = self._sql(
                    f"SELECT f.*, g.score AS {name} FROM {{f}} AS f LEFT JOIN {{g}} AS g "
                    f"ON f.{number} = g.{NUMBER}",
                    f=rows,
                    g=scores,
                )
        return rows

    def _values(self, ranking: Ranking, rows: Frame) -> Frame:
        """The value of each entity that has one: its number and `score`."""
        match ranking:
            case Nearest():
                return self._distances(ranking)
            case Bm25():
                return self._relevances(ranking)
            case Rrf():
                return self._fused(ranking, rows)

    def _distances(self, ranking: Nearest) -> Frame:
        target = np.asarray(self.search.target(ranking, self.frames.context))
        make = Distances(ranking.column, ranking.dim, ranking.metric, target)
        key = self.frames.entities[ranking.var].table_key
        return self.frames.dense.made(key, ("id", ranking.column), make, SCORED)

    def _relevances(self, ranking: Bm25) -> Frame:
        terms = distinct(stem(word) for word in query_words(ranking.query, self.frames.context))
        key = self.frames.entities[ranking.var].table_key
        made = self.frames.dense.made
        counted = made(key, (ranking.column,), CountTexts(ranking.column, terms), COUNTED)
        sums = [f"sum(holders[{place}])" for place in range(len(terms))]
        totals = self._sql(
            f"SELECT {', '.join(['sum(texts)', 'sum(words)', *sums])} FROM {{f}}", f=counted
        )
        (row,) = self.perform("count the words", totals.collect)
        numbers = [int(value or 0) for value in row]
        corpus = Corpus(numbers[0], numbers[1], tuple(numbers[2:]))
        make = Relevances(ranking.column, terms, corpus)
        return made(key, ("id", ranking.column), make, SCORED)

    def _fused(self, ranking: Rrf, rows: Frame) -> Frame:
        """Reciprocal ranks among the entities that the rows hold; equals rank by id."""
        number = self.frames.name(ranked_var(ranking))
        k = k_of(ranking, self.frames.context)
        candidates = self._sql(
            f"SELECT DISTINCT {number} AS {NUMBER} FROM {{f}} WHERE {number} IS NOT NULL", f=rows
        )
        parts = []
        for part in (ranking.first, ranking.second):
            way = "ASC" if smaller_is_better(part) else "DESC"
            parts.append(
                self._sql(
                    f"SELECT g.{NUMBER}, 1D / ({k} + row_number() OVER "
                    f"(ORDER BY g.score {way}, g.key)) AS gain FROM {{g}} AS g "
                    f"LEFT SEMI JOIN {{c}} AS c ON g.{NUMBER} = c.{NUMBER}",
                    g=self._values(part, rows),
                    c=candidates,
                )
            )
        return self._sql(
            f"SELECT coalesce(a.{NUMBER}, b.{NUMBER}) AS {NUMBER}, "
            "coalesce(a.gain, 0D) + coalesce(b.gain, 0D) AS score "
            f"FROM {{a}} AS a FULL OUTER JOIN {{b}} AS b ON a.{NUMBER} = b.{NUMBER}",
            a=parts[0],
            b=parts[1],
        )


def _is_late(expr: Expr) -> bool:
    return isinstance(expr, Prop | Entity)


def _counts_entities(item: Aggregate) -> bool:
    """True if an aggregate counts entities, for which their numbers are enough."""
    return (
        item.function is AggregateFunction.COUNT
        and isinstance(item.arg, Prop)
        and item.arg.column == "id"
    )


def _is_float_sum(item: Aggregate) -> bool:
    adds = item.function in (AggregateFunction.SUM, AggregateFunction.AVG)
    return adds and item.arg.type.base in FLOATS


def _total(item: Aggregate, place: int, counts_rows: bool) -> str:
    """An aggregate as SQL over the column of its argument."""
    arg = f"a{place}"
    if counts_rows:
        return f"coalesce(sum({COUNT}), CAST(0 AS BIGINT))"
    there = f"sum(CASE WHEN {arg} IS NOT NULL THEN {COUNT} END)"
    match item.function:
        case AggregateFunction.COUNT if item.distinct:
            return f"count(DISTINCT {arg})"
        case AggregateFunction.COUNT:
            return f"coalesce({there}, CAST(0 AS BIGINT))"
        case AggregateFunction.MIN:
            return f"min({arg})"
        case AggregateFunction.MAX:
            return f"max({arg})"
        case _ if _is_float_sum(item):
            return "CAST(NULL AS DOUBLE)"  # computed beside
        case _:
            product = f"CAST({arg} AS DECIMAL(20,0)) * CAST({COUNT} AS DECIMAL(18,0))"
            total = f"CAST(sum({product}) AS DOUBLE)"
            return total if item.function is AggregateFunction.SUM else f"{total} / {there}"
