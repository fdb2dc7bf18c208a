"""`omnigraph schema plan`: the steps from the schema of a graph to a new one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.files import read_catalog, read_text
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, Schema, read_stdin_once
from omnigraph.cli.parameters import Option, UsageError
from omnigraph.cli.plain import Part, Screen, counted
from omnigraph.cli.targets import Target
from omnigraph.lang.catalog import steps
from omnigraph.lang.catalog.migrate import MigrationPlan, plan
from omnigraph.lang.catalog.steps import Step, Tier
from omnigraph.lang.literal import Literal

_HEADINGS: Final = ("step", "entity", "code", "tier", "data", "note")
_STYLE_OF_TIER: Final = {
    Tier.SAFE: "green",
    Tier.VALIDATED: "yellow",
    Tier.DESTRUCTIVE: "red",
    Tier.REFUSED: "bold red",
}


@command(
    "omnigraph schema plan --schema people_v2.pg --against people.pg",
    "omnigraph schema plan people.omni --schema people_v2.pg --queries queries",
    branch=True,
    unless="against",
)
def schema_plan(
    target: Target | None,
    schema: Schema,
    against: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="The schema in force, .pg or a catalog as .json; - for standard input.",
        ),
    ] = None,
    queries: Annotated[
        list[Path] | None,
        Option(
            "--queries",
            metavar="PATH",
            help="A file of queries or a folder of .gq files to check; may be repeated.",
        ),
    ] = None,
    allow_data_loss: Annotated[
        bool,
        Option("--allow-data-loss", help="Take dropped values out of the files, for good."),
    ] = False,
    as_json: Json = False,
) -> Status:
    """Show the steps from one schema to another.

    Each step says what it means for stored data. For a graph, stored rows that break a new rule
    are listed; with --queries, the queries that would not fit any more.
    Ends with 0 if the steps can be applied, with 1 if something stands in the way.
    """
    if target is not None:
        return plan_stored(
            target, schema, queries or [], allow_data_loss=allow_data_loss, as_json=as_json
        )
    assert against is not None
    if queries:
        raise UsageError("--queries goes with a graph; `omnigraph lint` checks files")
    read_stdin_once(schema, against)
    chosen = settings()
    accepted = read_catalog(against, chosen, accepted=True)
    wanted = read_catalog(schema, chosen)
    found = plan(accepted, wanted, allow_data_loss=allow_data_loss)
    if as_json:
        render.out().json(found.to_json())
    else:
        _print(render.out(), found, found.notes)
    return Status.OK if found.supported else Status.FAILED


def plan_stored(
    target: Target, schema: Path, queries: list[Path], *, allow_data_loss: bool, as_json: bool
) -> Status:
    """Show what applying a schema to a stored graph would do, and what stands in its way."""
    text = read_text(schema, settings())
    with target.open("r") as graph:
        change = graph.schema.plan(
            text, branch=target.on, queries=queries, allow_data_loss=allow_data_loss
        )
    screen = render.out()
    if as_json:
        screen.json(
            {
                "supported": change.supported,
                "steps": [dict(step) for step in change.steps],
                "notes": list(change.notes),
                "rows": dict(change.rows),
                "violations": [dict(item) for item in change.violations],
                "violation_count": change.violation_count,
                "broken_queries": {file: list(x) for file, x in change.broken_queries.items()},
            }
        )
    else:
        assert change.migration is not None
        _print(screen, change.migration, change.notes)
        for item in change.violations:
            screen.line(("in the way", "red"), f": {item['message']}")
        left = change.violation_count - len(change.violations)
        if left:
            screen.line(f"and {left:,} more")
        for file, problems in change.broken_queries.items():
            for problem in problems:
                screen.line(("breaks", "red"), f" {file}:{problem}")
    stands_in_the_way = not change.can_be_applied or change.broken_queries
    return Status.FAILED if stands_in_the_way else Status.OK


def _print(screen: Screen, found: MigrationPlan, notes: Sequence[str]) -> None:
    if found.steps:
        screen.table(_HEADINGS, [_row(step) for step in found.steps])
        screen.line()
    for note in notes:
        screen.line(("note", "yellow"), f": {note}")
    if not found.steps:
        screen.line("nothing changes")
        return
    refused = sum(step.tier is Tier.REFUSED for step in found.steps)
    total = counted(len(found.steps), "step")
    if found.supported:
        screen.line(total, ", ", ("can be applied", "green"))
    else:
        screen.line(total, f", {refused} refused: ", ("cannot be applied", "bold red"))


def _row(step: Step) -> tuple[Part, ...]:
    return (
        step.kind,
        str(step.entity),
        step.code or "-",
        (str(step.tier), _STYLE_OF_TIER[step.tier]),
        str(step.touches_data),
        _note(step),
    )


def _note(step: Step) -> str:
    """The last column of a step: details that the others do not show."""
    match step:
        case steps.UnsupportedChange(reason=reason):
            note = reason
        case steps.RenameType(old=old) | steps.RenameProperty(old=old):
            note = f"was {old}"
        case steps.AddProperty(type=of_type, fill=fill):
            note = f"{of_type}" if fill is None else f"{of_type}, filled with {fill}"
        case steps.AddConstraint(constraint=text) | steps.RemoveConstraint(constraint=text):
            note = text
        case steps.ExtendEnum(added=added):
            note = f"adds {', '.join(added)}"
        case steps.ChangeNullability(nullable=nullable):
            note = "may be null" if nullable else "must have a value"
        case steps.ChangeDefault(old=before, new=after):
            note = f"{_default(before)} -> {_default(after)}"
        case steps.ChangeType() | steps.ChangeCardinality():
            note = f"{step.old} -> {step.new}"
        case steps.UpdateTypeMetadata(changes=changes):
            note = ", ".join(changes)
        case steps.UpdatePropertyMetadata(changes=changes):
            note = ", ".join(changes)
        case steps.DropType(mode=mode) | steps.DropProperty(mode=mode):
            note = _DROPS[mode]
        case _:
            note = ""
    return note


_DROPS: Final = {
    steps.DropMode.SOFT: "earlier versions stay readable",
    steps.DropMode.HARD: "the values go for good",
}


def _default(literal: Literal | None) -> str:
    return "none" if literal is None else str(literal)
