"""`omnigraph schema plan`: the steps from the schema of a graph to a new one."""

from collections.abc import Mapping, Sequence
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
from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.migrate import plan
from omnigraph.lang.catalog.steps import DropMode, Tier

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
        _print(render.out(), [step.to_json() for step in found.steps], found.notes)
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
        _print(screen, change.steps, change.notes, change.violation_count)
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


def _print(
    screen: Screen,
    found: Sequence[Mapping[str, JsonValue]],
    notes: Sequence[str],
    violations: int = 0,
) -> None:
    """Print steps, which are plain values: a server may have made them."""
    if found:
        screen.table(_HEADINGS, [_row(step) for step in found])
        screen.line()
    for note in notes:
        screen.line(("note", "yellow"), f": {note}")
    if not found:
        screen.line("nothing changes")
        return
    refused = sum(step["tier"] == Tier.REFUSED for step in found)
    total = counted(len(found), "step")
    if refused or violations:
        reason = f"{refused} refused" if refused else counted(violations, "violation")
        screen.line(total, f", {reason}: ", ("cannot be applied", "bold red"))
    else:
        screen.line(total, ", ", ("can be applied", "green"))


def _row(step: Mapping[str, JsonValue]) -> tuple[Part, ...]:
    entity = f"{step['type_kind']}:{step.get('name') or step.get('type_name')}"
    if "property_name" in step:
        entity += f".{step['property_name']}"
    tier = str(step["tier"])
    return (
        str(step["kind"]),
        entity,
        str(step["code"] or "-"),
        (tier, _STYLE_OF_TIER[Tier(tier)]),
        str(step["touches_data"]),
        _note(step),
    )


def _note(step: Mapping[str, JsonValue]) -> str:
    """The last column of a step: details that the others do not show."""
    match step:
        case {"reason": str(note)} | {"constraint": str(note)}:
            return note
        case {"kind": "rename_type" | "rename_property", "from": old}:
            return f"was {old}"
        case {"property_type": of_type, "fill": fill}:
            return f"{of_type}" if fill is None else f"{of_type}, filled with {fill}"
        case {"added_values": [*added]}:
            return f"adds {', '.join(map(str, added))}"
        case {"nullable": nullable}:
            return "may be null" if nullable else "must have a value"
        case {"from": old, "to": new}:
            return f"{_default(old)} -> {_default(new)}"
        case {"changes": [*changes]}:
            return ", ".join(map(str, changes))
        case {"mode": str(mode)}:
            return _DROPS[DropMode(mode)]
    return ""


_DROPS: Final = {
    DropMode.SOFT: "earlier versions stay readable",
    DropMode.HARD: "the values go for good",
}


def _default(literal: JsonValue) -> str:
    return "none" if literal is None else str(literal)
