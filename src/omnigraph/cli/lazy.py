"""Commands that are imported when somebody names them.

A group knows its commands by name, heading and summary, so that its help imports none of them.
"""

import difflib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli import render
from omnigraph.cli.addressing import (
    BRANCH,
    DESTRUCTIVE,
    GRAPH,
    OPTIONS,
    OPTIONS_OF_DRAWING,
    QUIET,
    WRITING,
    AddressedCommand,
    names_a_graph,
    target_from,
)
from omnigraph.cli.exits import Status, reporting, usage_errors
from omnigraph.cli.options import JSON_FIELDS
from omnigraph.cli.targets import Target
from omnigraph.errors import NotFound

# Drawing help with rich would double the time it takes.
PLAIN_HELP: Final[dict[str, Any]] = {
    "add_completion": False,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
_TARGET: Final = "target"


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command as the help of its group lists it.

    Attributes:
        module: The module below `omnigraph.cli.commands`, which holds a command of the same name.
        heading: The heading that it stands under.
        summary: The first line of its docstring.
        hidden: Is it left out of the list?
    """

    module: str
    heading: str
    summary: str
    hidden: bool = False

    def load(self) -> Any:
        """Import the command."""
        found = importlib.import_module(f"omnigraph.cli.commands.{self.module}")
        return getattr(found, self.module)


class LazyGroup(TyperGroup):
    """A group whose commands stand in a table; a subclass brings the table."""

    entries: ClassVar[dict[str, CommandEntry]] = {}

    # The types of these arguments are no public names of typer.
    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands: those of the table, then the groups below."""
        return [*self.entries, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, which is imported now; None if there is none."""
        entry = self.entries.get(cmd_name)
        return super().get_command(ctx, cmd_name) if entry is None else entry.load()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name; a name that is almost right gets a hint."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            close = difflib.get_close_matches(args[0], known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one list of commands per heading."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            if not entry.hidden:
                rows.setdefault(entry.heading, []).append((name, entry.summary))
        for name, group in self.commands.items():
            summary = group.get_short_help_str(formatter.width)
            rows.setdefault(getattr(group, "rich_help_panel", ""), []).append((name, summary))
        for heading, listed in rows.items():
            with formatter.section(heading):
                formatter.write_dl(listed)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line; a wrong call is told as JSON where results are."""
        words = sys.argv[1:] if args is None else list(args)
        with usage_errors(words):
            status = super().main(words, prog_name, standalone_mode=False, **extra)
            sys.exit(status if isinstance(status, int) else Status.OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressing:
    """The words that a command takes about its target, besides those that name it.

    Attributes:
        branch: It is about one branch.
        writes: It makes commits, on behalf of an actor.
        destroys: It takes something away, so that it may have to ask.
        needs_graph: A server alone is not enough.
        draws: Its own `--graph` draws, so the graph on a server is `--graph-id`.
        unless: The parameter that makes a target superfluous when it is given.
    """

    branch: bool = False
    writes: bool = False
    destroys: bool = False
    needs_graph: bool = True
    draws: bool = False
    unless: str | None = None

    def parameters(self) -> list[inspect.Parameter]:
        """The parameters of the command line for these words."""
        return [
            *(OPTIONS_OF_DRAWING if self.draws else OPTIONS),
            *(BRANCH if self.branch else ()),
            *(WRITING if self.writes else ()),
            *(DESTRUCTIVE if self.destroys else ()),
            *QUIET,
        ]

    def target(
        self, ctx: typer.Context, taken: Mapping[str, Any], others: Mapping[str, Any]
    ) -> Target | None:
        """The target that the words of a call name; None if another parameter stands for it."""
        if self.unless is not None and others.get(self.unless) is not None:
            if names_a_graph(taken):
                raise typer.BadParameter(f"give either a graph or --{self.unless}, not both")
            return None
        as_json = bool(others.get("as_json"))
        return target_from(ctx, taken, as_json=as_json, needs_graph=self.needs_graph)


def command(
    *shown: str,
    branch: bool = False,
    writes: bool = False,
    destroys: bool = False,
    needs_graph: bool = True,
    draws: bool = False,
    unless: str | None = None,
) -> Callable[[Callable[..., Status]], Any]:
    """Make a function a command: its failures become messages, its status ends the process.

    A function whose first parameter is `target` works on a graph: the words of the command line
    that name it, see `addresses`, become that one argument.

    Args:
        shown: Examples that stand below the help.
        branch: The command is about one branch of its target.
        writes: It makes commits, on behalf of an actor.
        destroys: It takes something away, so that it may have to ask.
        needs_graph: A server alone is not enough as a target.
        draws: Its own `--graph` draws.
        unless: The parameter that makes a target superfluous when it is given; `target` is None.
    """
    words = Addressing(
        branch=branch,
        writes=writes,
        destroys=destroys,
        needs_graph=needs_graph,
        draws=draws,
        unless=unless,
    )

    def decorate(body: Callable[..., Status]) -> Any:
        signature = inspect.signature(body, eval_str=True)
        has_target = _TARGET in signature.parameters
        added = words.parameters() if has_target else []
        names = {each.name for each in added}

        @functools.wraps(body)
        def run(ctx: typer.Context, **values: Any) -> None:
            as_json = bool(values.get("as_json"))
            with reporting(as_json=as_json), render.only(values.pop("json_fields", None)):
                if has_target:
                    taken: Mapping[str, Any] = {name: values.pop(name) for name in names}
                    values[_TARGET] = words.target(ctx, taken, values)
                target: Target | None = values.get(_TARGET)
                try:
                    status = body(**values)
                except NotFound as error:
                    raise (error if target is None else target.hinted(error)) from error
                if target is not None and target.branch is not None and status is Status.OK:
                    target.remember(branch=[target.branch])
                raise typer.Exit(status)

        _show_parameters(run, signature, added)
        single = typer.Typer(**PLAIN_HELP)
        single.command(cls=AddressedCommand, epilog=examples(*shown) if shown else None)(run)
        made: Any = get_command(single)
        made.unless = words.unless
        return made

    return decorate


def _show_parameters(
    run: Any, signature: inspect.Signature, added: list[inspect.Parameter]
) -> None:
    """Give a function the parameters that typer shall see: the context, the target's, its own."""
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    own = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in signature.parameters.values()
        if each.name != _TARGET
    ]
    arguments = [GRAPH] if added else []
    fields = JSON_FIELDS if any(each.name == "as_json" for each in own) else ()
    every = [context, *arguments, *own, *added[1:], *fields]
    run.__signature__ = inspect.Signature(every)
    run.__annotations__ = {each.name: each.annotation for each in every}


def examples(*commands: str) -> str:
    """Examples as they stand below a help text; the mark keeps the lines as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in commands)])
