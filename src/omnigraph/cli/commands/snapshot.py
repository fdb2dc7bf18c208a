"""`omnigraph snapshot`: the number of entities by type at one commit."""

from typing import Any, Final

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Json
from omnigraph.cli.results import Form, ListingColumn, chosen_format, show_listing
from omnigraph.cli.targets import Target

_COLUMNS: Final = (ListingColumn("type", "type"), ListingColumn("entity_count", "entities"))


@command(
    "omnigraph snapshot people.omni", "omnigraph snapshot people.omni --at main~3", branch=True
)
def snapshot(target: Target, at: At = None, form: Form = None, as_json: Json = False) -> Status:
    """Show the newest commit of a branch, or an older one, and how many entities it has by type."""
    with target.open("r") as graph:
        found = graph.snapshot(target.on, at=at)
        records = [_record(key, count) for key, count in found.counts.items()]
        facts: dict[str, Any] = {
            "graph_branch": found.branch,
            "graph_commit_id": found.commit,
            "graph_manifest_version": found.version,
        }
    target.remember(type=[each["type_name"] for each in records], are_all=True)
    screen = render.out()
    wanted = chosen_format(form, target.config.output, as_json=as_json)
    if wanted == "json":
        screen.json({**facts, "datasets": records})
        return Status.OK
    if wanted == "table":
        screen.line(f"commit {facts['graph_commit_id']} on {facts['graph_branch']}")
    show_listing(screen, _COLUMNS, [{**each, "type": _key(each)} for each in records], wanted)
    return Status.OK


def _record(key: str, count: int) -> dict[str, Any]:
    kind, _, name = key.partition(":")
    return {"entity_kind": kind, "type_name": name, "entity_count": count}


def _key(record: dict[str, Any]) -> str:
    return f"{record['entity_kind']}:{record['type_name']}"
