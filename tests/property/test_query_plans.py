"""What holds for every query that compiles: its plan depends on what it says, not on how."""

from __future__ import annotations

import copy
import pickle
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.lang import QueryCompiler, compile_queries
from omnigraph.lang.ir import expr as ir
from omnigraph.lang.ir.explain import explain, predicate
from omnigraph.lang.ir.ops import AntiJoin, Expand, Filter, Op, OptionalJoin, ReadPlan, Scan
from omnigraph.lang.query import ast
from omnigraph.lang.query.blocks import variables_in
from omnigraph.lang.query.format import format_queries
from omnigraph.lang.query.params import bind
from omnigraph.testing.strategies_query import TypedQuery, typed_queries
from tests.property.query_programs import CATALOG

QUERIES = typed_queries(CATALOG)


def compiled(query: ast.Query) -> ReadPlan:
    text = format_queries(ast.QueryFile((query,)))
    (plan,) = compile_queries(text, CATALOG)
    assert isinstance(plan, ReadPlan)
    return plan


def operators(pipeline: Iterable[Op]) -> Iterator[Op]:
    for op in pipeline:
        yield op
        if isinstance(op, AntiJoin | OptionalJoin):
            yield from operators(op.inner)


@given(QUERIES)
def test_typed_queries_compile_and_their_parameters_fit(query: TypedQuery) -> None:
    (plan,) = compile_queries(query.text, CATALOG)
    bound = bind(plan.params, query.params)
    assert set(bound) == {item.name for item in query.query.params}


@given(QUERIES)
def test_a_plan_is_a_value(query: TypedQuery) -> None:
    (plan,) = compile_queries(query.text, CATALOG)
    (again,) = compile_queries(query.text, CATALOG)
    assert plan == again
    assert hash(plan) == hash(again)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert copy.deepcopy(plan) == plan
    assert explain(plan) == explain(again)
    assert QueryCompiler(CATALOG).compile(query.text) == plan


@given(QUERIES)
def test_a_pipeline_binds_before_it_uses(query: TypedQuery) -> None:
    plan = compiled(query.query)
    bound = check_pipeline(plan.pipeline, frozenset())
    declared = {need.var for need in plan.needs}
    assert bound <= declared
    assert set(plan.tie_break) <= bound
    for output in plan.outputs:
        assert variables_in(output.expr) <= bound
    for key in plan.order:
        assert variables_in(key.expr) <= bound
        assert key.column is None or plan.outputs[key.column].expr == key.expr
    tables = {need.entity for need in plan.needs}
    edges = {op.edge for op in operators(plan.pipeline) if isinstance(op, Expand)}
    assert set(plan.reads) == tables | edges


def check_pipeline(pipeline: tuple[Op, ...], outer: frozenset[str]) -> frozenset[str]:
    """Walk a pipeline as an executor would; answers what is bound at its end."""
    bound = set(outer)
    for op in pipeline:
        match op:
            case Scan():
                assert op.var not in bound
                bound.add(op.var)
                check_filters(op.filters, {op.var})
            case Expand():
                assert op.source in bound
                assert op.closes == (op.target in bound)
                assert 1 <= op.low <= op.high
                bound.add(op.target)
                check_filters(op.filters, {op.target})
                if op.edge_var is not None:
                    assert op.edge_var not in bound
                    bound.add(op.edge_var)
                    check_filters(op.edge_filters, {op.edge_var})
            case Filter():
                assert variables_in(op.predicate) <= bound
            case AntiJoin():
                assert set(op.outer) <= bound
                check_pipeline(op.inner, frozenset(bound))
            case OptionalJoin():
                assert set(op.outer) <= bound
                after = check_pipeline(op.inner, frozenset(bound))
                assert after - bound == set(op.binds)
                bound |= after
    return frozenset(bound)


def check_filters(filters: Iterable[ir.Predicate], allowed: set[str]) -> None:
    assert all(variables_in(item) == allowed for item in filters)


def facts(plan: ReadPlan) -> Counter[str]:
    """What a pipeline asks, without the order in which it asks."""
    found: Counter[str] = Counter()
    for op in operators(plan.pipeline):
        match op:
            case Scan():
                found.update(predicate(item) for item in op.filters)
            case Expand():
                # An edge may be read from either end, so it is named by the set of its ends.
                ends = " ".join(sorted((op.source, op.target)))
                found[f"{ends} {op.edge.name} {op.low} {op.high} {op.edge_var}"] += 1
                found.update(predicate(item) for item in (*op.filters, *op.edge_filters))
            case Filter():
                found[predicate(op.predicate)] += 1
            case AntiJoin():
                found["not " + " ".join(op.outer)] += 1
            case OptionalJoin():
                found["optional " + " ".join(op.outer)] += 1
    return found


@given(QUERIES, st.data())
def test_the_order_of_clauses_does_not_matter(query: TypedQuery, data: st.DataObject) -> None:
    body = query.query.body
    assert isinstance(body, ast.Read)
    pattern = [item for item in body.match if isinstance(item, ast.Binding | ast.Traversal)]
    filters = [item for item in body.match if isinstance(item, ast.Filter)]
    blocks = [item for item in body.match if isinstance(item, ast.Negation | ast.Optional)]
    # Blocks keep their order among themselves and stand behind the pattern they hang on.
    clauses: list[ast.Clause] = [*data.draw(st.permutations(pattern)), *blocks]
    for item in filters:
        clauses.insert(data.draw(st.integers(0, len(clauses))), item)
    plan = compiled(query.query)
    # Anonymous variables are numbered by their place, so they are left out of the comparison.
    shuffled = compiled(replace(query.query, body=replace(body, match=tuple(clauses))))
    assert shuffled.outputs == plan.outputs
    assert shuffled.order == plan.order
    assert shuffled.reads == plan.reads
    assert named(shuffled) == named(plan)
    assert anonymous_aside(facts(shuffled)) == anonymous_aside(facts(plan))
    assert Counter(map(type, shuffled.pipeline)) == Counter(map(type, plan.pipeline))


def named(plan: ReadPlan) -> set[object]:
    return {need for need in plan.needs if not need.var.startswith("_")}


def anonymous_aside(found: Counter[str]) -> Counter[str]:
    aside: Counter[str] = Counter()
    for text, count in found.items():
        words = re.sub(r"_#\d+", "_", text).split(" ")
        aside[" ".join(sorted(words[:2]) + words[2:])] += count
    return aside


@given(QUERIES)
def test_the_names_of_variables_do_not_matter(query: TypedQuery) -> None:
    names = {var.name for var in variables_of(query.query.body) if var.name[0] in "ne"}
    # The new names sort like the old ones, because lists of outer variables are sorted.
    renames = {name: f"{name[0]}other{name[1:]}" for name in names}
    body = renamed(query.query.body, renames)
    assert isinstance(body, ast.Read)
    plan, other = compiled(query.query), compiled(replace(query.query, body=body))
    undone = renamed(other, {new: old for old, new in renames.items()})
    # Columns without an alias are named after their variable, which is the one visible trace.
    assert isinstance(undone, ReadPlan)
    assert replace(undone, outputs=()) == replace(plan, outputs=())
    assert [item.expr for item in undone.outputs] == [item.expr for item in plan.outputs]


def variables_of(item: object) -> Iterator[ast.Var]:
    if isinstance(item, ast.Var):
        yield item
    elif isinstance(item, tuple):
        for part in item:
            yield from variables_of(part)
    elif is_dataclass(item):
        for part in fields(item):
            yield from variables_of(getattr(item, part.name))


def renamed(item: object, names: dict[str, str]) -> object:
    """The same tree or plan with its variables renamed."""
    if type(item) is str:
        return names.get(item, item)
    if type(item) is tuple:
        return tuple(renamed(part, names) for part in item)
    if is_dataclass(item) and not isinstance(item, type):
        changes = {part.name: renamed(getattr(item, part.name), names) for part in fields(item)}
        return replace(item, **changes)
    return item
