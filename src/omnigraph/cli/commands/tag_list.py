"""`omnigraph tag list`: lists the tags."""

from typing import Final

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.records import tag_record
from omnigraph.cli.results import Form, ListingColumn, chosen_format, show_listing
from omnigraph.cli.targets import Target

_COLUMNS: Final = (
    ListingColumn("name", "tag"),
    ListingColumn("graph_commit_id", "commit", "yellow"),
    ListingColumn("graph_branch", "branch"),
    ListingColumn("actor_id", "actor"),
    ListingColumn("message", "message"),
)


@command("omnigraph tag list people.omni")
def tag_list(target: Target, form: Form = None, as_json: Json = False) -> Status:
    """List the tags, each with its commit."""
    with target.open("r") as graph:
        records = [tag_record(each) for each in graph.tags.list()]
    target.remember(tag=[str(each["name"]) for each in records], are_all=True)
    chosen = chosen_format(form, target.config.output, as_json=as_json)
    show_listing(render.out(), _COLUMNS, records, chosen)
    return Status.OK
