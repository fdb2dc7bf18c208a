"""`omnigraph explain`: shows the plans of queries."""

from pathlib import Path
from typing import Annotated, Final

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.files import read_catalog, shown
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, SchemaOrGraph, read_stdin_once
from omnigraph.cli.parameters import Argument
from omnigraph.cli.queries import QueryFile, QueryText, query_text
from omnigraph.cli.targets import Target
from omnigraph.errors import Code, InvalidInput, JsonValue
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir import explain as plans_as_text
from omnigraph.lang.ir.ops import Plan, ReadPlan
from omnigraph.lang.ir.plain import plain
from omnigraph.lang.query.describe import describe
from omnigraph.lang.source import did_you_mean
from omnigraph.runtime.settings import Settings

INLINE: Final = "<-e>"


@command(
    "omnigraph explain --schema people.pg --query people.gq friends",
    "omnigraph explain -s people.pg -e 'query all() { match { $p: Person } return { $p } }'",
    "omnigraph explain people.omni --query - --json < people.gq",
    branch=True,
    unless="schema",
)
def explain(
    target: Target | None,
    name: Annotated[
        str | None,
        Argument(help="The query to explain; without it, every one."),
    ] = None,
    schema: SchemaOrGraph = None,
    query: QueryFile = None,
    text: QueryText = None,
    as_json: Json = False,
) -> Status:
    """Show how queries would run, step by step."""
    read_stdin_once(schema, query)
    chosen = settings()
    queries = query_text(query, text, chosen)
    catalog = _catalog(schema, target, chosen)
    source = INLINE if query is None else shown(query)
    plans = compile_queries(queries, catalog, source, only=name)
    chosen_plans = _select(plans, name)
    screen = render.out()
    if as_json:
        screen.json({"queries": [_to_json(plan) for plan in chosen_plans]})
        return Status.OK
    for number, plan in enumerate(chosen_plans):
        if number:
            screen.line()
        head, *rest = plans_as_text.explain(plan).rstrip("\n").split("\n")
        screen.line((head, "bold"))
        for line in rest:
            operator = line[: len(line) - len(line.lstrip())] + line.split()[0]
            screen.line((operator, "cyan"), line.removeprefix(operator))
    return Status.OK


def _catalog(schema: Path | None, target: Target | None, chosen: Settings) -> Catalog:
    if schema is not None:
        return read_catalog(schema, chosen)
    assert target is not None
    return compile_schema(target.schema(), str(target.address), accepted=True)


def _select(plans: tuple[Plan, ...], name: str | None) -> tuple[Plan, ...]:
    if not plans:
        raise InvalidInput(Code.QUERY_INVALID, "there is no query to explain")
    if name is None:
        return plans
    chosen = tuple(plan for plan in plans if plan.name == name)
    if not chosen:
        known = [plan.name for plan in plans]
        advice = did_you_mean(name, known) or f"there are: {', '.join(known)}"
        raise InvalidInput(Code.QUERY_INVALID, f"there is no query named `{name}`; {advice}")
    return chosen


def _to_json(plan: Plan) -> JsonValue:
    return {
        "name": plan.name,
        "kind": "read" if isinstance(plan, ReadPlan) else "mutation",
        "operation": describe(plan).to_json(),
        "plan": plans_as_text.explain(plan).rstrip("\n").split("\n"),
        "structure": plain(plan),
    }
