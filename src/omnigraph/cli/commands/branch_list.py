"""`omnigraph branch list`: the branches of a graph."""

from typing import Final

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.records import branch_record
from omnigraph.cli.results import Form, ListingColumn, chosen_format, show_listing
from omnigraph.cli.targets import Target

_COLUMNS: Final = (
    ListingColumn("name", "branch"),
    ListingColumn("parent", "from"),
    ListingColumn("graph_commit_id", "commit", "yellow"),
)


@command("omnigraph branch list people.omni", "omnigraph branch list people.omni --json=name")
def branch_list(target: Target, form: Form = None, as_json: Json = False) -> Status:
    """List the branches, each with what it was made from and its newest commit."""
    with target.open("r") as graph:
        records = [branch_record(graph.branches.show(name)) for name in graph.branches.list()]
    target.remember(branch=[str(each["name"]) for each in records], are_all=True)
    chosen = chosen_format(form, target.config.output, as_json=as_json)
    show_listing(render.out(), _COLUMNS, records, chosen)
    return Status.OK
