"""`omnigraph schema plan`: the steps from the schema of a graph to a new one."""

from pathlib import Path
from typing import Annotated, Final

import typer

from omnigraph.cli import render
from omnigraph.cli.environment import settings
from omnigraph.cli.exits import Status
from omnigraph.cli.files import read_catalog
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json, Schema, read_stdin_once
from omnigraph.cli.plain import Part, Screen, counted
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


@command("omnigraph schema plan --schema people_v2.pg --against people.pg")
def schema_plan(
    schema: Schema,
    against: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The schema in force, .pg or a catalog as .json; - for standard input.",
        ),
    ],
    allow_data_loss: Annotated[
        bool,
        typer.Option("--allow-data-loss", help="Let drops remove earlier versions as well."),
    ] = False,
    as_json: Json = False,
) -> Status:
    """Show the steps from one schema to another.

    Each step says what it means for stored data.
    Ends with 0 if the steps can be applied, with 1 if one of them is refused.
    """
    read_stdin_once(schema, against)
    chosen = settings()
    accepted = read_catalog(against, chosen, accepted=True)
    wanted = read_catalog(schema, chosen)
    found = plan(accepted, wanted, allow_data_loss=allow_data_loss)
    if as_json:
        render.out().json(found.to_json())
    else:
        _print(render.out(), found)
    return Status.OK if found.supported else Status.FAILED


def _print(screen: Screen, found: MigrationPlan) -> None:
    if not found.steps:
        screen.line("nothing changes")
        return
    screen.table(_HEADINGS, [_row(step) for step in found.steps])
    screen.line()
    for note in found.notes:
        screen.line(("note", "yellow"), f": {note}")
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
    steps.DropMode.HARD: "earlier versions go as well",
}


def _default(literal: Literal | None) -> str:
    return "none" if literal is None else str(literal)
