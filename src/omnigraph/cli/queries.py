"""Arguments of commands that run queries: where the text comes from, and its parameters."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from omnigraph.cli.environment import settings
from omnigraph.cli.files import read_text
from omnigraph.cli.parameters import Argument, Option, UsageError
from omnigraph.runtime.settings import Settings

_DECLARED: Final = re.compile(r"\bquery\s+(\w+)")

QueryFile = Annotated[
    Path | None,
    Option("--query", "-q", metavar="FILE", help="A file of queries; - for standard input."),
]
QueryText = Annotated[str | None, Option("--expr", "-e", metavar="TEXT", help="Queries as text.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryArguments:
    """The arguments of a command that name one query and give its parameters."""

    name: Annotated[
        str | None,
        Argument(help="The query to run; needed when there are several.", metavar="NAME"),
    ] = None
    file: QueryFile = None
    text: QueryText = None
    param: Annotated[
        list[str] | None,
        Option(
            "--param",
            "-p",
            metavar="NAME=VALUE",
            help="A parameter; its value is JSON, or a text if it is none. May be repeated.",
        ),
    ] = None
    params: Annotated[
        str | None,
        Option("--params", metavar="JSON", help="Parameters as one JSON object."),
    ] = None
    params_file: Annotated[
        Path | None,
        Option("--params-file", metavar="FILE", help="The same in a file; - for standard input."),
    ] = None

    def read(self) -> tuple[str, dict[str, Any]]:
        """The text of the queries, and the parameters by name."""
        chosen = settings()
        text = query_text(self.file, self.text, chosen)
        return text, parameters(self.param, self.params, self.params_file, chosen)


def query_text(file: Path | None, text: str | None, chosen: Settings) -> str:
    """The queries, from a file or as they were given."""
    if (file is None) == (text is None):
        raise UsageError("give the queries either as a file (--query) or as text (-e)")
    return read_text(file, chosen) if file is not None else text or ""


def query_name(text: str, name: str | None) -> str | None:
    """The name of the query that is run: as it was chosen, or of the only one in the text."""
    found = _DECLARED.search(text)
    return name or (found[1] if found else None)


def parameters(
    given: Sequence[str] | None,
    text: str | None = None,
    file: Path | None = None,
    chosen: Settings | None = None,
) -> dict[str, Any]:
    """Parameters by name; one that is given by itself comes before an object of them."""
    if text is not None and file is not None:
        raise UsageError("give the parameters either by --params or by --params-file")
    if file is not None:
        text = read_text(file, chosen or Settings())
    found = {} if text is None else _object(text)
    for item in given or ():
        name, is_there, value = item.partition("=")
        if not is_there or not name:
            raise UsageError(f"{item!r} is not of the form NAME=VALUE")
        found[name.removeprefix("$")] = _value(value)
    return found


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the parameters are not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError('the parameters are one JSON object, such as {"name": "Ada"}')
    return {name.removeprefix("$"): value for name, value in found.items()}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
