"""Arguments of commands that run queries: where the text comes from, and its parameters."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.cli.files import read_text
from omnigraph.runtime.settings import Settings

QueryName = Annotated[
    str | None,
    typer.Argument(
        help="The query to run; needed when there are several.", metavar="NAME", show_default=False
    ),
]
QueryFile = Annotated[
    Path | None,
    typer.Option("--query", "-q", metavar="FILE", help="A file of queries; - for standard input."),
]
QueryText = Annotated[
    str | None, typer.Option("--expr", "-e", metavar="TEXT", help="Queries as text.")
]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="A parameter; its value is JSON, or a text if it is none. May be repeated.",
    ),
]


def query_text(file: Path | None, text: str | None, chosen: Settings) -> str:
    """The queries, from a file or as they were given."""
    if (file is None) == (text is None):
        raise typer.BadParameter("give the queries either as a file (--query) or as text (-e)")
    return read_text(file, chosen) if file is not None else text or ""


def parameters(given: Sequence[str] | None) -> dict[str, Any]:
    """Parameters by name."""
    found: dict[str, Any] = {}
    for item in given or ():
        name, is_there, value = item.partition("=")
        if not is_there or not name:
            raise typer.BadParameter(f"{item!r} is not of the form NAME=VALUE")
        found[name.removeprefix("$")] = _value(value)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
