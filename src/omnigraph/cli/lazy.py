"""Commands, and groups of commands that are imported when they are named.

A group knows its commands by name, heading and summary, so that its help imports none of them.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Final

from omnigraph.cli import render
from omnigraph.cli.addressing import (
    ACTOR,
    BRANCH,
    DESTRUCTIVE,
    GRAPH,
    OPTIONS,
    OPTIONS_OF_DRAWING,
    QUIET,
    names_a_graph,
    settle_graph,
    with_fields,
)
from omnigraph.cli.exits import Status, ended, reporting
from omnigraph.cli.helping import help_text, usage
from omnigraph.cli.nearest import nearest
from omnigraph.cli.options import JSON_FIELDS
from omnigraph.cli.parameters import CommandParameter, UsageError
from omnigraph.cli.parsing import HelpRequested, split_options, values_of
from omnigraph.cli.startup import collect_again
from omnigraph.errors import NotFound

_TARGET: Final = "target"
_PROGRAM: Final = "omnigraph"


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command as the help of its group lists it.

    Attributes:
        module: The module below `omnigraph.cli.commands`, which holds a command of the same name.
        heading: The heading that it stands under.
        summary: The first line of its docstring.
        hidden: True if it is left out of the list.
    """

    module: str
    heading: str
    summary: str
    hidden: bool = False

    def load(self) -> "Command":
        """Import the command."""
        found = importlib.import_module(f"omnigraph.cli.commands.{self.module}")
        made: Command = getattr(found, self.module)
        return made


class LazyGroup:
    """A group whose commands stand in a table; a subclass brings the table.

    Attributes:
        about: What help says first.
        heading: The heading that the group stands under in the group above.
        params: Its own options.
        groups: The groups below.
        examples: Examples that stand below the help.
    """

    entries: ClassVar[dict[str, CommandEntry]] = {}

    def __init__(
        self,
        about: str,
        heading: str = "",
        params: Sequence[CommandParameter] = (),
        groups: "Mapping[str, LazyGroup] | None" = None,
        examples: Sequence[str] = (),
    ) -> None:
        """Make a group of the commands of the table."""
        self.about, self.heading, self.params = about, heading, tuple(params)
        self.groups, self.examples = dict(groups or {}), tuple(examples)

    def list_commands(self) -> list[str]:
        """The names of all commands: those of the table, then the groups below."""
        return [*self.entries, *self.groups]

    def get_command(self, name: str) -> "Command | LazyGroup":
        """The command of this name, which is imported now."""
        entry = self.entries.get(name)
        return self.groups[name] if entry is None else entry.load()

    def arranged(self, words: Sequence[str]) -> list[str]:
        """The words of a call, with what a group may leave out."""
        return list(words)

    def run(self, path: str, words: Sequence[str], outer: Mapping[str, Any]) -> int:
        """Run the command that the words name."""
        arranged = self.arranged(words)
        try:
            given = split_options(arranged, self.params, interspersed=False)
            named = given.arguments
            given.arguments = []
            values = {**outer, **values_of(given, self.params)}
            if not named:
                return self.without_command(path, values)
            if named[0] not in self.list_commands():
                near = nearest(named[0], self.list_commands())
                hint = f" Did you mean {near!r}?" if near else ""
                raise UsageError(f"No such command {named[0]!r}.{hint}")
        except HelpRequested:
            render.out().exactly(self.help(path))
            return Status.OK
        except UsageError as error:
            raise error.refused_by(path, usage(path, self.params, has_commands=True)) from None
        return self.get_command(named[0]).run(f"{path} {named[0]}", named[1:], values)

    def without_command(self, path: str, values: Mapping[str, Any]) -> int:
        """Answer a call that names no command: with help, as to a wrong call."""
        render.err().exactly(self.help(path))
        return Status.USAGE

    def help(self, path: str) -> str:
        """The help of the group: its commands by heading."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            if not entry.hidden:
                rows.setdefault(entry.heading, []).append((name, entry.summary))
        for name, group in self.groups.items():
            rows.setdefault(group.heading, []).append((name, group.about))
        return help_text(path, self.about, self.params, self.examples, rows)

    def __call__(self, words: Sequence[str] | None = None, prog_name: str = _PROGRAM) -> None:
        """Run the command line and leave; a wrong call is reported as JSON where results are."""
        given = sys.argv[1:] if words is None else list(words)
        sys.exit(ended(given, lambda: self.run(prog_name, given, {})))


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressing:
    """The words that a command takes about its target, besides those that name it.

    Attributes:
        branch: It is about one branch.
        destroys: It takes something away, so that it may have to ask.
        needs_graph: A server alone is not enough.
        draws: Its own `--graph` draws, so the graph on a server is `--graph-id`.
        unless: The parameter that makes a target superfluous when it is given.
    """

    branch: bool = False
    destroys: bool = False
    needs_graph: bool = True
    draws: bool = False
    unless: str | None = None

    def parameters(self) -> list[inspect.Parameter]:
        """The parameters of the command line for these words."""
        return [
            *(OPTIONS_OF_DRAWING if self.draws else OPTIONS),
            *(BRANCH if self.branch else ()),
            ACTOR,
            *(DESTRUCTIVE if self.destroys else ()),
            *QUIET,
        ]


class Command:
    """A function as a command: its failures become messages, its status ends the process."""

    def __init__(
        self, body: Callable[..., Status], words: Addressing, examples: Sequence[str]
    ) -> None:
        """Read the parameters of the function; see `command`."""
        signature = inspect.signature(body, eval_str=True)
        self._body, self._words, self._examples = body, words, examples
        self.help = inspect.getdoc(body) or ""
        self._has_target = _TARGET in signature.parameters
        added = words.parameters() if self._has_target else []
        # What the command takes by the same name is another thing, such as a filter.
        added = [each for each in added if each.name not in signature.parameters]
        own = [each for each in signature.parameters.values() if each.name != _TARGET]
        chosen = JSON_FIELDS if any(each.name == "as_json" for each in own) else ()
        self._groups: dict[str, Any] = {
            each.name: each.annotation for each in own if is_dataclass(each.annotation)
        }
        own = [part for each in own for part in _parts(each)]
        every = [*added[:1], *own, *added[1:], *chosen]
        # An argument may be left out while a later one is not, so the order is free.
        self.params = [CommandParameter(each.name, each.annotation, each.default) for each in every]
        self._target_names = {each.name for each in added}

    def run(self, path: str, words: Sequence[str], outer: Mapping[str, Any]) -> int:
        """Run it with the words of a call, and answer the exit status."""
        try:
            return self._run(path, words, outer)
        except HelpRequested:
            render.out().exactly(help_text(path, self.help, self.params, self._examples))
            return Status.OK
        except UsageError as error:
            raise error.refused_by(path, usage(path, self.params)) from None

    def _run(self, path: str, words: Sequence[str], outer: Mapping[str, Any]) -> int:
        given = split_options(with_fields(words), self.params, interspersed=True)
        if self._has_target:
            own = [each for each in self.params if not each.is_option and each.name != GRAPH.name]
            settle_graph(given, own, outer, self._words.unless)
        values = values_of(given, self.params)
        as_json = bool(values.get("as_json"))
        with reporting(as_json=as_json), render.only(values.pop("json_fields", None)):
            target: Any = None
            if self._has_target:
                taken = {name: values.pop(name) for name in self._target_names}
                target = values[_TARGET] = self._target(path, taken, values, outer)
            for name, kind in self._groups.items():
                values[name] = kind(**{each.name: values.pop(each.name) for each in fields(kind)})
            collect_again()
            try:
                status = self._body(**values)
            except NotFound as error:
                raise (error if target is None else target.hinted(error)) from error
            if target is not None and target.branch is not None and status is Status.OK:
                target.remember(branch=[target.branch])
            return status

    def _target(
        self,
        path: str,
        taken: Mapping[str, Any],
        others: Mapping[str, Any],
        outer: Mapping[str, Any],
    ) -> Any:
        """The target that the words of a call name; None if another parameter stands for it."""
        unless = self._words.unless
        if unless is not None and others.get(unless) is not None:
            if names_a_graph(taken):
                raise UsageError(f"give either a graph or --{unless}, not both")
            return None
        # Nobody needs it for help.
        from omnigraph.cli.targets import target_from

        return target_from(
            path.partition(" ")[2],
            taken,
            outer,
            as_json=bool(others.get("as_json")),
            needs_graph=self._words.needs_graph,
        )


def _parts(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """The parameters of the command line for one of the function: each field of a dataclass."""
    if not is_dataclass(parameter.annotation):
        return [parameter]
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(each.name, keyword, default=each.default, annotation=each.type)
        for each in fields(parameter.annotation)
    ]


def command(
    *shown: str,
    branch: bool = False,
    destroys: bool = False,
    needs_graph: bool = True,
    draws: bool = False,
    unless: str | None = None,
) -> Callable[[Callable[..., Status]], Command]:
    """Make a function a command: its failures become messages, its status ends the process.

    A function whose first parameter is `target` works on a graph: the words of the command line
    that name it, see `addresses`, become that one argument. So do the fields of a dataclass, such
    as `QueryArguments`.

    Args:
        shown: Examples that stand below the help.
        branch: The command is about one branch of its target.
        destroys: It takes something away, so that it may have to ask.
        needs_graph: A server alone is not enough as a target.
        draws: Its own `--graph` draws.
        unless: The parameter that makes a target superfluous when it is given; `target` is None.
    """
    words = Addressing(
        branch=branch,
        destroys=destroys,
        needs_graph=needs_graph,
        draws=draws,
        unless=unless,
    )
    return lambda body: Command(body, words, shown)
