"""Arguments that several commands take."""

import inspect
from pathlib import Path
from typing import Annotated, Final

from omnigraph.cli.parameters import Option, UsageError
from omnigraph.types import EngineChoice

_STDIN: Final = Path("-")
JSON_OPTION: Final = "--json"
FIELDS_OPTION: Final = "--json-fields"

Json = Annotated[
    bool,
    Option(JSON_OPTION, help="Print one JSON document; --json=NAME,... only these fields."),
]
# Filled in by `--json=...`, for every command that prints JSON.
JSON_FIELDS: Final = (
    inspect.Parameter(
        "json_fields",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, Option(FIELDS_OPTION, hidden=True)],
    ),
)
Schema = Annotated[
    Path,
    Option(
        "--schema",
        "-s",
        metavar="FILE",
        help="The schema, .pg or a catalog as .json; - for standard input.",
    ),
]
SchemaOrGraph = Annotated[
    Path | None,
    Option(
        "--schema",
        "-s",
        metavar="FILE",
        help="The schema instead of a graph, .pg or a catalog as .json; - for standard input.",
    ),
]
Branch = Annotated[str, Option("--branch", "-b", metavar="NAME", help="Which branch.")]
At = Annotated[
    str | None,
    Option(
        "--at",
        "--snapshot",
        metavar="REVISION",
        help="An older state: a commit, a tag, a time, or main~3.",
    ),
]
Message = Annotated[
    str | None, Option("--message", "-m", metavar="TEXT", help="A note for the history.")
]
IdempotencyKey = Annotated[
    str | None,
    Option("--idempotency-key", metavar="TEXT", help="Repeating it is done once."),
]
# The spelling of the original for what is done only when it is confirmed.
Confirm = Annotated[bool, Option("--confirm", hidden=True)]
Types = Annotated[
    list[str] | None,
    Option("--type", "-t", metavar="NAME", help="Only this type; may be repeated."),
]
Actor = Annotated[
    str | None, Option("--actor", metavar="NAME", help="Who does it, for the history.")
]
Engine = Annotated[
    EngineChoice,
    Option("--engine", help="What the work runs on; auto chooses by the size of the data."),
]
Spark = Annotated[
    str | None,
    Option(
        "--spark", metavar="MASTER", help="A Spark master, such as local[4] or sc://host:15002."
    ),
]


def read_stdin_once(*paths: Path | None) -> None:
    """Refuse arguments of which two stand for standard input.

    Raises:
        UsageError: Standard input would be read twice.
    """
    if paths.count(_STDIN) > 1:
        raise UsageError("- stands for standard input, which can be read only once")
