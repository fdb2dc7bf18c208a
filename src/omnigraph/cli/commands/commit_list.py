"""`omnigraph commit list`: the commits of a branch that pass filters."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Final

import omnigraph as og
from omnigraph.cli import render
from omnigraph.cli.commands.log import COLUMNS, Limit
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import Json
from omnigraph.cli.parameters import Option, UsageError
from omnigraph.cli.records import commit_record
from omnigraph.cli.results import Form, chosen_format, show_listing
from omnigraph.cli.targets import Target

_FIELDS: Final = ("actor", "kind", "branch", "message")


@command(
    "omnigraph commit list people.omni --filter actor=omnigraph:recovery",
    "omnigraph commit list people.omni@draft --filter kind=load --json",
    branch=True,
)
def commit_list(
    target: Target,
    filters: Annotated[
        list[str] | None,
        Option(
            "--filter",
            metavar="FIELD=VALUE",
            help=f"Only commits with this {', '.join(_FIELDS)}; may be repeated.",
        ),
    ] = None,
    limit: Limit = 20,
    form: Form = None,
    as_json: Json = False,
) -> Status:
    """List the commits of a branch, the newest first; filters leave some out."""
    wanted = _filters(filters or [])
    chosen = chosen_format(form, target.config.output, as_json=as_json)
    with target.open("r") as graph, render.paged(as_json=chosen != "table") as screen:
        found = (each for each in graph.commits.walk(target.on) if _passes(each, wanted))
        records = [commit_record(each) for each in islice(found, limit)]
        show_listing(screen, COLUMNS, records, chosen)
    return Status.OK


def _filters(given: list[str]) -> list[tuple[str, str]]:
    found = []
    for text in given:
        name, is_there, value = text.partition("=")
        if not is_there or name not in _FIELDS:
            known = ", ".join(_FIELDS)
            raise UsageError(f"{text!r} is not FIELD=VALUE with a field of: {known}")
        found.append((name, value))
    return found


def _passes(commit: og.Commit, wanted: list[tuple[str, str]]) -> bool:
    return all(getattr(commit, name) == value for name, value in wanted)
