"""The words of a command line that name its target, as parameters of every command that has one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperOption

from omnigraph.cli import environment
from omnigraph.cli.addresses import GraphWords, is_graph_argument
from omnigraph.cli.options import FIELDS_OPTION, JSON_OPTION
from omnigraph.cli.targets import Target, target_of


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


STORE_OPTION: Final = typer.Option(
    "--store",
    "--uri",
    metavar="ADDRESS",
    help="The graph: a folder, s3://bucket/prefix or https://host/graphs/ID, perhaps @branch.",
)
SERVER_OPTION: Final = typer.Option(
    "--server", metavar="NAME", help="A server, by its name in the configuration or its URL."
)
GRAPH_OPTION: Final = typer.Option(
    "--graph", "--graph-id", metavar="ID", help="The graph on the server, perhaps @branch."
)
# Where `--graph` is a flag of the command itself.
GRAPH_ID_OPTION: Final = typer.Option(
    "--graph-id", metavar="ID", help="The graph on the server, perhaps @branch."
)
PROFILE_OPTION: Final = typer.Option(
    "--profile", metavar="NAME", help="A profile of the configuration that names the graph."
)
ACTOR_OPTION: Final = typer.Option(
    "--as", "--actor", metavar="NAME", help="Who does it, for the history."
)
YES_OPTION: Final = typer.Option("--yes", help="Do not ask before destructive work.")
QUIET_OPTION: Final = typer.Option("--quiet", help="Print results only.")

GRAPH: Final = _parameter(
    "graph_address",
    Annotated[
        str | None,
        typer.Argument(
            metavar="GRAPH",
            help="The graph, if no option names it: people.omni, s3://bucket/prefix, "
            "https://host/graphs/people, each perhaps with @branch.",
            show_default=False,
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
            typer.Option("--branch", "-b", metavar="NAME", help="Which branch; main by default."),
        ],
    ),
)
WRITING: Final = (_parameter("actor", Annotated[str | None, ACTOR_OPTION]),)
DESTRUCTIVE: Final = (_parameter("yes", Annotated[bool, YES_OPTION], default=False),)
QUIET: Final = (_parameter("quiet", Annotated[bool, QUIET_OPTION], default=False),)


# The parameters that name a graph by an option.
_NAMING: Final = frozenset({"store", "server", "graph_id", "profile"})


class AddressedCommand(TyperCommand):
    """A command whose first argument may be its graph, and whose JSON may be a choice of fields.

    Attributes:
        unless: The parameter that makes a graph superfluous when it is given.
    """

    unless: str | None = None

    # The type of the context is no public name of typer.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, after the place of the graph is settled."""
        words = list(_with_fields(args))
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        if arguments and arguments[0].name == GRAPH.name:
            words = self._with_graph(ctx, words, arguments[1:])
        parsed: list[str] = super().parse_args(ctx, words)
        return parsed

    def _with_graph(self, ctx: Any, words: list[str], own: Sequence[Any]) -> list[str]:
        """The same words with an empty first argument where the graph is not an argument."""
        places, named = self._arguments(words)
        outer = _given(ctx.find_root().params)
        has_option = outer.has_option or bool(named & {*_NAMING, self.unless})
        least = sum(each.required for each in own)
        found = [words[place] for place in places]
        # The configuration is read only where it decides.
        has_default = bool(found) and not has_option and _has_default()
        if is_graph_argument(
            found, least, len(own), has_option=has_option, has_default=has_default
        ):
            return words
        place = places[0] if places else words.index("--") if "--" in words else len(words)
        return [*words[:place], "", *words[place:]]

    def _arguments(self, words: Sequence[str]) -> tuple[list[int], set[str]]:
        """The places of words that are neither options nor their values, and the options."""
        options = {
            name: each
            for each in self.params
            if isinstance(each, TyperOption)
            for name in (*each.opts, *each.secondary_opts)
        }
        places: list[int] = []
        named: set[str] = set()
        at = 0
        while at < len(words):
            word = words[at]
            if word == "--":
                places += range(at + 1, len(words))
                break
            if word.startswith("-") and word != "-":
                name = word.partition("=")[0] if word.startswith("--") else word[:2]
                option = options.get(name)
                if option is not None:
                    named.add(str(option.name))
                    has_value = "=" in word if word.startswith("--") else len(word) > 2
                    at += not (option.is_flag or option.count or has_value)
            else:
                places.append(at)
            at += 1
        return places, named


def target_from(
    ctx: typer.Context, values: Mapping[str, Any], *, as_json: bool, needs_graph: bool
) -> Target:
    """The target that the words of a command name, and those that stand before the command."""
    outer = ctx.find_root().params
    return target_of(
        _given(values).over(_given(outer)),
        branch=values.get("branch"),
        branches="branch" in values or ctx.info_name != "init",
        needs_graph=needs_graph,
        actor=values.get("actor") or outer.get("actor"),
        is_quiet=bool(values.get("quiet") or outer.get("quiet")),
        is_confirmed=bool(values.get("yes") or outer.get("yes")),
        as_json=as_json,
        command=ctx.command_path.partition(" ")[2],
    )


def names_a_graph(values: Mapping[str, Any]) -> bool:
    """True if the words of the command itself name a graph."""
    found = _given(values)
    return found.argument is not None or found.has_option


def _given(values: Mapping[str, Any]) -> GraphWords:
    return GraphWords(
        argument=values.get(GRAPH.name) or None,
        store=values.get("store"),
        server=values.get("server"),
        graph=values.get("graph_id"),
        profile=values.get("profile"),
    )


def _has_default() -> bool:
    return environment.profile() is not None or environment.config().defaults.is_named


def _with_fields(args: Sequence[str]) -> list[str]:
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
