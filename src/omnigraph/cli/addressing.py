"""The words of a command line that name its target, as parameters of every command that has one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from omnigraph.cli import environment
from omnigraph.cli.addresses import GraphWords, is_graph_argument
from omnigraph.cli.options import FIELDS_OPTION, JSON_OPTION
from omnigraph.cli.parameters import Argument, CommandParameter, Option
from omnigraph.cli.parsing import SplitWords


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


STORE_OPTION: Final = Option(
    "--store",
    "--uri",
    metavar="ADDRESS",
    help="The graph: a folder, s3://bucket/prefix or https://host/graphs/ID, perhaps @branch.",
)
SERVER_OPTION: Final = Option(
    "--server", metavar="NAME", help="A server, by its name in the configuration or its URL."
)
GRAPH_OPTION: Final = Option(
    "--graph", "--graph-id", metavar="ID", help="The graph on the server, perhaps @branch."
)
# Where `--graph` is a flag of the command itself.
GRAPH_ID_OPTION: Final = Option(
    "--graph-id", metavar="ID", help="The graph on the server, perhaps @branch."
)
PROFILE_OPTION: Final = Option(
    "--profile", metavar="NAME", help="A profile of the configuration that names the graph."
)
ACTOR_OPTION: Final = Option(
    "--as", "--actor", metavar="NAME", help="Who does it; the history names them."
)
YES_OPTION: Final = Option("--yes", help="Do not ask before destructive work.")
QUIET_OPTION: Final = Option("--quiet", help="Print results only.")

GRAPH: Final = _parameter(
    "graph_address",
    Annotated[
        str | None,
        Argument(
            metavar="GRAPH",
            help="The graph, if no option names it: people.omni, s3://bucket/prefix, "
            "https://host/graphs/people, each perhaps with @branch.",
        ),
    ],
)
OPTIONS: Final = (
    GRAPH,
    _parameter("store", Annotated[str | None, STORE_OPTION]),
    _parameter("server", Annotated[str | None, SERVER_OPTION]),
    _parameter("graph_id", Annotated[str | None, GRAPH_OPTION]),
    _parameter("profile", Annotated[str | None, PROFILE_OPTION]),
)
OPTIONS_OF_DRAWING: Final = tuple(
    each.replace(annotation=Annotated[str | None, GRAPH_ID_OPTION])
    if each.name == "graph_id"
    else each
    for each in OPTIONS
)
BRANCH: Final = (
    _parameter(
        "branch",
        Annotated[
            str | None,
            Option("--branch", "-b", metavar="NAME", help="Which branch; main by default."),
        ],
    ),
)
ACTOR: Final = _parameter("actor", Annotated[str | None, ACTOR_OPTION])
DESTRUCTIVE: Final = (_parameter("yes", Annotated[bool, YES_OPTION], default=False),)
QUIET: Final = (_parameter("quiet", Annotated[bool, QUIET_OPTION], default=False),)


# The parameters that name a graph by an option.
_NAMING: Final = frozenset({"store", "server", "graph_id", "profile"})


def settle_graph(
    given: SplitWords, own: Sequence[CommandParameter], outer: Mapping[str, Any], unless: str | None
) -> None:
    """Put an empty word in the place of the graph where none of the arguments is the graph.

    Args:
        given: The words of the command.
        own: The arguments of the command itself.
        outer: The values of the options before the command.
        unless: The parameter that makes a graph superfluous when it is given.
    """
    named = set(given.options)
    has_option = given_words(outer).has_option or bool(named & {*_NAMING, unless})
    least = sum(each.required for each in own)
    most = sum(each.is_list for each in own) * len(given.arguments) + len(own)
    # The configuration is read only where it decides.
    has_default = bool(given.arguments) and not has_option and _has_default()
    if not is_graph_argument(
        given.arguments, least, most, has_option=has_option, has_default=has_default
    ):
        given.arguments.insert(0, "")


def names_a_graph(values: Mapping[str, Any]) -> bool:
    """True if the words of the command itself name a graph."""
    found = given_words(values)
    return found.argument is not None or found.has_option


def given_words(values: Mapping[str, Any]) -> GraphWords:
    """The words that name a graph, among the values of a call."""
    return GraphWords(
        argument=values.get(GRAPH.name) or None,
        store=values.get("store"),
        server=values.get("server"),
        graph=values.get("graph_id"),
        profile=values.get("profile"),
    )


def _has_default() -> bool:
    return environment.profile() is not None or environment.config().defaults.is_named


def with_fields(args: Sequence[str]) -> list[str]:
    """The arguments with `--json=a,b` taken apart into two options."""
    found: list[str] = []
    for number, word in enumerate(args):
        if word == "--":
            return [*found, *args[number:]]
        option, has_fields, fields = word.partition("=")
        if option == JSON_OPTION and has_fields:
            found += [JSON_OPTION, f"{FIELDS_OPTION}={fields}"]
        else:
            found.append(word)
    return found
