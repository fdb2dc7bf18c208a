"""`omnigraph log`: the commits of a branch."""

from typing import Annotated, Final

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.parameters import Option, UsageError
from omnigraph.cli.records import commit_record
from omnigraph.cli.results import Form, ListingColumn, chosen_format, show_listing
from omnigraph.cli.targets import Target

COLUMNS: Final = (
    ListingColumn("graph_commit_id", "commit", "yellow"),
    ListingColumn("created_at", "time"),
    ListingColumn("kind", "kind"),
    ListingColumn("actor_id", "actor"),
    ListingColumn("message", "message"),
)
Limit = Annotated[
    int, Option("--limit", "-n", metavar="COUNT", min=1, help="How many commits at most.")
]


@command(
    "omnigraph log people.omni",
    "omnigraph log people.omni@agent/42 --limit 5 --json",
    "omnigraph log people.omni --graph",
    branch=True,
    draws=True,
)
def log(
    target: Target,
    limit: Limit = 20,
    actor: Annotated[
        str | None, Option("--actor", metavar="NAME", help="Only commits of this actor.")
    ] = None,
    lines: Annotated[
        bool,
        Option("--graph", help="Draw the commits and the branches that they join."),
    ] = False,
    every: Annotated[
        bool, Option("--all", help="With --graph: the commits of all branches.")
    ] = False,
    form: Form = None,
    as_json: Json = False,
) -> Status:
    """Show the commits of a branch, the newest first."""
    if (lines and (as_json or actor or form)) or (every and not lines):
        raise UsageError(
            "--graph takes no --json, --format or --actor, and --all goes with --graph"
        )
    wanted = chosen_format(form, target.config.output, as_json=as_json)
    with (
        target.open("r") as graph,
        render.paged(as_json=wanted != "table") as screen,
    ):
        if lines:
            names = graph.branches.list() if every else None
            for line in graph.commits.log(target.on, branches=names, limit=limit).splitlines():
                screen.line(line)
            return Status.OK
        commits = graph.commits.list(target.on, limit=limit, actor=actor)
        show_listing(screen, COLUMNS, [commit_record(each) for each in commits], wanted)
    return Status.OK
