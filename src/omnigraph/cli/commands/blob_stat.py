"""`omnigraph blob stat`: the size of a large value."""

from __future__ import annotations

from omnigraph.cli import render
from omnigraph.cli.commands.blob_get import Id, Property, TypeName
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Json
from omnigraph.cli.plain import counted
from omnigraph.cli.targets import Target


@command(
    "omnigraph blob stat files.omni File a.txt content",
    "omnigraph blob stat files.omni@draft File a.txt content --json=size",
    branch=True,
)
def blob_stat(
    target: Target,
    type_name: TypeName,
    id: Id,
    property_name: Property,
    at: At = None,
    as_json: Json = False,
) -> Status:
    """Show how many bytes a blob has, and of which commit it is."""
    with target.open("r") as graph:
        commit = graph.snapshot(target.on, at=at).commit
        size = graph.blob_size(type_name, id, property_name, branch=target.on, at=commit)
    if as_json:
        render.out().json(
            {
                "type": type_name,
                "id": id,
                "property": property_name,
                "size": size,
                "graph_commit_id": commit,
            }
        )
    else:
        shown = "null" if size is None else f"{counted(size, 'byte')}"
        render.out().line(f"{shown}, as of commit {commit}")
    return Status.OK
