"""The query compiler: text and catalog in, plans out. Everything else here is a step of it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock

from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.expr import EntityRef
from omnigraph.lang.ir.ops import (
    AntiJoin,
    DeleteOp,
    Expand,
    InsertOp,
    MutationPlan,
    Need,
    Op,
    OptionalJoin,
    ParamSpec,
    Plan,
    ReadPlan,
    Scan,
)
from omnigraph.lang.query import ast
from omnigraph.lang.query.codes import QueryCode
from omnigraph.lang.query.context import CheckContext
from omnigraph.lang.query.expressions import Expressions
from omnigraph.lang.query.lower import Lowering
from omnigraph.lang.query.mutations import Mutations
from omnigraph.lang.query.parse import parse_queries
from omnigraph.lang.query.patterns import Patterns
from omnigraph.lang.query.results import ResultClauses
from omnigraph.lang.query.scope import Names, QueryScope, entity_ref
from omnigraph.lang.source import Diagnostics, Source, did_you_mean, reject
from omnigraph.lang.values import Base

CACHE_ENTRIES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Checked:
    """One query of a file after checking; `plan` is None when it has errors."""

    query: ast.Query
    plan: Plan | None
    unused_params: tuple[ast.Parameter, ...]


def compile_queries(
    text: str, catalog: Catalog, name: str = "<query>", *, only: str | None = None
) -> tuple[Plan, ...]:
    """Compile every query of a text; one `InvalidInput` carries all mistakes.

    With `only`, types and properties are checked in the queries of that name alone, if there are
    any: what is wrong in another one does not matter.
    """
    source = Source(name, text)
    found = Diagnostics(source)
    file = parse_queries(source, found)
    if chosen := tuple(query for query in file.queries if query.name.text == only):
        file = replace(file, queries=chosen)
    if found.errors:
        # Queries that did parse are checked too: one run reports every independent mistake.
        check_file(file, catalog, found)
        raise reject(source, found.sorted(), Code.SYNTAX, suppressed=found.suppressed)
    checked = check_file(file, catalog, found)
    found.reject_if_errors(Code.QUERY_INVALID)
    return tuple(item.plan for item in checked if item.plan is not None)


def check_file(file: ast.QueryFile, catalog: Catalog, found: Diagnostics) -> tuple[Checked, ...]:
    """Check every query of a parsed file."""
    seen: set[str] = set()
    checked: list[Checked] = []
    for query in file.queries:
        if query.name.text in seen:
            message = f"a query named `{query.name.text}` exists already"
            found.error(QueryCode.DUPLICATE_QUERY.value, message, query.name.span)
        seen.add(query.name.text)
        checked.append(check_query(query, catalog, found))
    return tuple(checked)


def check_query(query: ast.Query, catalog: Catalog, found: Diagnostics) -> Checked:
    """Check and lower one query; one that was not parsed whole has its report already."""
    if query.broken:
        return Checked(query, None, ())
    before = found.errors
    names = Names(catalog, {item.name: item.type for item in query.params})
    context = CheckContext(names, found)
    _check_params(query, context)
    params = tuple(ParamSpec(item.name, item.type) for item in query.params)
    plan: Plan
    if isinstance(query.body, ast.Read):
        plan = _read_plan(query, query.body, context, params)
    else:
        plan = _mutation_plan(query, query.body, context, params)
    unused = tuple(item for item in query.params if item.name not in names.used_params)
    return Checked(query, plan if found.errors == before else None, unused)


def _check_params(query: ast.Query, context: CheckContext) -> None:
    seen: set[str] = set()
    for item in query.params:
        if item.name in seen:
            message = f"the parameter `${item.name}` is declared twice"
            context.error(QueryCode.NAME_CLASH, message, item.span)
        if item.name.startswith("__") or item.name == "_":
            message = f"`${item.name}` is a reserved name"
            context.error(QueryCode.NAME_CLASH, message, item.span)
        if item.type.base is Base.BLOB and isinstance(query.body, ast.Read):
            message = "a reading query cannot take a Blob"
            context.error(QueryCode.BLOB_READ, message, item.span)
        seen.add(item.name)


def _read_plan(
    query: ast.Query, body: ast.Read, context: CheckContext, params: tuple[ParamSpec, ...]
) -> ReadPlan:
    names = context.names
    before = context.found.errors
    exprs = Expressions(context)
    scope = QueryScope(names)
    block = Patterns(context, exprs).block(body.match, scope)
    results = ResultClauses(body, scope, context, exprs).check()
    pipeline: tuple[Op, ...] = ()
    if context.found.errors == before:
        pipeline = Lowering(names.variables, results.ranking).pipeline(block)
    reads: set[EntityRef] = set()
    _collect_reads(pipeline, reads)
    needs = tuple(
        Need(
            variable.key,
            entity_ref(variable.entity),
            tuple(variable.columns[name] for name in sorted(variable.columns)),
            variable.optional,
        )
        for variable in names.variables.values()
    )
    return ReadPlan(
        name=query.name.text,
        params=params,
        pipeline=pipeline,
        needs=needs,
        outputs=results.outputs,
        grouped=results.grouped,
        distinct=body.distinct,
        ranking=results.ranking,
        order=results.order,
        tie_break=block.all_bound() if results.ties is None else (),
        tie_break_columns=results.ties or (),
        limit=results.limit,
        offset=results.offset,
        reads=_sorted(reads),
    )


def _collect_reads(pipeline: tuple[Op, ...], reads: set[EntityRef]) -> None:
    for op in pipeline:
        match op:
            case Scan():
                reads.add(op.entity)
            case Expand():
                reads.update((op.edge, op.target_entity))
            case AntiJoin() | OptionalJoin():
                _collect_reads(op.inner, reads)
            case _:
                pass


def _mutation_plan(
    query: ast.Query, body: ast.Mutation, context: CheckContext, params: tuple[ParamSpec, ...]
) -> MutationPlan:
    ops = Mutations(context).check(body)
    reads: set[EntityRef] = set()
    writes: set[EntityRef] = set()
    for op in ops:
        reads.add(op.entity)
        writes.add(op.entity)
        if isinstance(op, InsertOp) and op.ends is not None:
            reads.update(op.ends)
        if isinstance(op, DeleteOp):
            edges = {item.edge for item in op.cascades}
            reads |= edges
            writes |= edges
    return MutationPlan(query.name.text, params, ops, _sorted(reads), _sorted(writes))


def _sorted(refs: set[EntityRef]) -> tuple[EntityRef, ...]:
    # Nodes before edges, as everywhere a user sees both.
    return tuple(sorted(refs, key=lambda ref: (ref.kind == "edge", ref.name)))


class QueryCompiler:
    """Compiles queries for one catalog and remembers what it compiled, by text."""

    __slots__ = ("_cache", "_lock", "catalog")

    def __init__(self, catalog: Catalog) -> None:
        """Start with an empty memory."""
        self.catalog = catalog
        self._cache: OrderedDict[str, dict[str, Plan]] = OrderedDict()
        self._lock = Lock()

    def compile(self, text: str, name: str | None = None, *, source: str = "<query>") -> Plan:
        """The plan of the query `name`, or of the only query of the text.

        `source` is how diagnostics call the text.
        """
        plans = self._cache.get(text)
        if plans is None:
            plans = {plan.name: plan for plan in compile_queries(text, self.catalog, source)}
            self._remember(text, plans)
        elif len(self._cache) > CACHE_ENTRIES_MAX // 2:
            # While there is room, nothing is forgotten and no order is needed.
            self._remember(text, plans)
        if name is None and len(plans) == 1:
            return next(iter(plans.values()))
        plan = plans.get(name) if name is not None else None
        if plan is not None:
            return plan
        raise _no_such_query(name, plans)

    def _remember(self, text: str, plans: dict[str, Plan]) -> None:
        """Note that a text was used; the one that was used longest ago goes when there are many."""
        with self._lock:
            self._cache[text] = plans
            self._cache.move_to_end(text)
            while len(self._cache) > CACHE_ENTRIES_MAX:
                self._cache.popitem(last=False)


def _no_such_query(name: str | None, plans: dict[str, Plan]) -> InvalidInput:
    known = ", ".join(sorted(plans))
    if not plans:
        return InvalidInput(Code.QUERY_INVALID, "the text holds no query")
    if name is None:
        return InvalidInput(
            Code.QUERY_INVALID, f"the text holds several queries, name one of: {known}"
        )
    hint = did_you_mean(name, plans)
    tail = f"; {hint}" if hint else f"; it holds: {known}"
    return InvalidInput(Code.QUERY_INVALID, f"the text holds no query named `{name}`{tail}")
